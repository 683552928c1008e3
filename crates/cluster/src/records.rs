//! What nodes write for each other: who is a member, which places are whose, and who has a copy of
//! whose log. JSON, so that an operator can read it; whoever has access may have written it, so it
//! is checked when it is read.

use crate::slot::{SLOTS, Slot};
use serde::{Deserialize, Serialize};
use weir_core::ShardId;

/// Bytes of the longest record that is looked at, and of the longest name and address in it.
const BYTES_MAX: usize = 64 * 1024;
const NAME_BYTES_MAX: usize = 64;
const ADDRESS_BYTES_MAX: usize = 256;

/// From the number of a place to the next one's: no node gives so many in one membership. In
/// microseconds, with which these numbers began, it is 19 hours.
const NUMBERS: u64 = 1 << 36;

/// Behind it there is room for what a node numbers.
const NUMBER_MAX: u64 = 1 << 62;

/// Earlier memberships that a node may name.
pub const FORMER_MAX: usize = 64;

/// Shards of the largest node.
const SHARDS_MAX: u16 = 256;

/// One membership of a node, from when it takes its place until its lease ends: a number by chance,
/// of 53 bits, since JSON has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// A node in one of its memberships.
pub type Seat = (Slot, Incarnation);

/// A slot and ids of shards, which are a node's also while it is away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The node's name.
    pub name: String,
    /// Its slot.
    pub slot: Slot,
    /// The id of its first shard.
    pub first_shard: u16,
    /// How many shards it has; their ids follow each other.
    pub shards: u16,
    /// What its shards number since it took its place is higher, and what they numbered before is
    /// not. None is known of a node of before.
    #[serde(default)]
    pub number: u64,
}

impl Place {
    /// The ids of its shards.
    pub fn shard_ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        (self.first_shard..=u16::MAX).take(self.shards.into()).map(ShardId)
    }

    fn end(&self) -> u32 {
        u32::from(self.first_shard) + u32::from(self.shards)
    }

    fn has_shard_of(&self, other: &Self) -> bool {
        u32::from(self.first_shard) < other.end() && u32::from(other.first_shard) < self.end()
    }

    fn is_valid(&self) -> bool {
        is_name(&self.name)
            && self.slot.is_one()
            && are_shards(self.shards)
            && self.end() <= u32::from(u16::MAX) + 1
            && self.number <= NUMBER_MAX
    }
}

/// A member of the cluster, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// Which of its memberships this is.
    pub incarnation: Incarnation,
    /// Where others connect to it.
    pub address: String,
    /// The highest version of letters that it speaks.
    pub letters: u16,
    /// The lowest.
    pub letters_min: u16,
    /// Whether it serves the sessions of the node of this name from the copy of that node's log,
    /// for a short time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stand_in: bool,
    /// Its earlier memberships that are keepers of logs still: what their disk had, its has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Incarnation>,
}

impl Node {
    /// Where it is, in this membership.
    pub fn seat(&self) -> Seat {
        (self.place.slot, self.incarnation)
    }

    pub(crate) fn slot(&self) -> Slot {
        self.place.slot
    }

    /// What stands under the key of `slot`, if that is a member's record.
    pub(crate) fn read(slot: Slot, value: &[u8]) -> Option<Self> {
        let node: Self = read(value)?;
        let is_valid = node.place.is_valid()
            && node.place.slot == slot
            && is_address(&node.address)
            && node.letters_min <= node.letters
            && node.former.len() <= FORMER_MAX;
        is_valid.then_some(node)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }
}

/// Who keeps copies of a node's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenCopy", into = "WrittenCopy")]
pub struct LogCopy {
    /// Whose log: its slot.
    pub slot: Slot,
    /// Which membership of that node wrote it.
    pub owner: Incarnation,
    /// The nodes that have all of it, each once; none while there is none. The first that is a
    /// member opens its copy if the owner is lost, and stands before all others then.
    pub keepers: Vec<Seat>,
    /// What has become of it.
    pub state: CopyState,
}

impl LogCopy {
    /// The keepers that may open it, or have opened it: none once it is void.
    pub fn open_keepers(&self) -> &[Seat] {
        match self.state {
            CopyState::Void => &[],
            CopyState::Kept | CopyState::Opened => &self.keepers,
        }
    }

    fn is_valid(&self) -> bool {
        let keepers = &self.keepers;
        let is_apart =
            |(at, keeper): (usize, &Seat)| keepers[..at].iter().all(|(slot, _)| *slot != keeper.0);
        keepers.iter().all(|(slot, _)| slot.is_one())
            && keepers.iter().enumerate().all(is_apart)
            && (self.state != CopyState::Opened || !keepers.is_empty())
    }
}

/// As it is written: nodes of before know of one keeper.
#[derive(Serialize, Deserialize)]
struct WrittenCopy {
    slot: Slot,
    owner: Incarnation,
    keeper: Option<Seat>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<Seat>,
    #[serde(default)]
    state: CopyState,
}

impl From<LogCopy> for WrittenCopy {
    fn from(LogCopy { slot, owner, keepers, state }: LogCopy) -> Self {
        let mut keepers = keepers.into_iter();
        Self { slot, owner, keeper: keepers.next(), more: keepers.collect(), state }
    }
}

impl From<WrittenCopy> for LogCopy {
    fn from(WrittenCopy { slot, owner, keeper, more, state }: WrittenCopy) -> Self {
        Self { slot, owner, keepers: keeper.into_iter().chain(more).collect(), state }
    }
}

/// What has become of the copy of a node's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// It is kept, if somebody keeps it.
    #[default]
    Kept,
    /// The first keeper serves the sessions from it. The owner is no member before it is done.
    Opened,
    /// The sessions are other nodes' by now: what the owner has of them is void.
    Void,
}

/// The same with the owner's name. Once the owner is forgotten, a node of another name may get its
/// slot, and must not take for its own what stands there of a log that it never had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedCopy {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) copy: LogCopy,
}

impl NamedCopy {
    /// What stands under the key of `slot`, if that says who keeps a copy.
    pub(crate) fn read(slot: Slot, value: &[u8]) -> Option<Self> {
        let named: Self = read(value)?;
        let NamedCopy { name, copy } = &named;
        let is_valid = is_name(name) && copy.slot == slot && copy.is_valid();
        is_valid.then_some(named)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }
}

/// The places of all nodes. They stand in one record, so that no two that overlap can be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// The highest number of a place that was forgotten: another node may have its shards' ids.
    #[serde(default)]
    number: u64,
}

impl Places {
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let all: Self = read(value)?;
        let places = &all.places;
        let is_apart = |(at, place): (usize, &Place)| {
            places[..at].iter().all(|other| {
                other.name != place.name && other.slot != place.slot && !other.has_shard_of(place)
            })
        };
        let is_valid = places.len() <= SLOTS.into()
            && all.number <= NUMBER_MAX
            && places.iter().all(Place::is_valid)
            && places.iter().enumerate().all(is_apart);
        is_valid.then_some(all)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    pub(crate) fn of(&self, name: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.name == name)
    }

    #[must_use]
    pub(crate) fn with(&self, place: Place) -> Self {
        let mut places = self.without(&place.name);
        places.places.push(place);
        places
    }

    /// Where a node that takes its place now begins to number, which is higher than all that any
    /// node has numbered: at least `number_min`, which has no say of that, as it is of a clock.
    pub(crate) fn next_number(&self, number_min: u64) -> u64 {
        let highest = self.places.iter().map(|place| place.number).fold(self.number, u64::max);
        let next = if highest == 0 { 1 } else { highest.saturating_add(NUMBERS) };
        next.max(number_min).min(NUMBER_MAX >> 1)
    }

    #[must_use]
    pub(crate) fn without(&self, name: &str) -> Self {
        let (own, others): (Vec<_>, _) =
            self.places.iter().cloned().partition(|place| place.name == name);
        let number = own.iter().map(|place| place.number).fold(self.number, u64::max);
        Self { places: others, number }
    }

    /// A place for a node with so many shards: the one that it had, where that is large enough, and
    /// nothing that others have here or among `live`. None if the cluster is full.
    pub(crate) fn place_for<'a>(
        &'a self,
        name: &str,
        shards: u16,
        live: impl Iterator<Item = &'a Place>,
    ) -> Option<Place> {
        let others = self.places.iter().chain(live).filter(|place| place.name != name);
        let others: Vec<&Place> = others.collect();
        let own = self.of(name);
        let is_free = |slot: &Slot| others.iter().all(|other| other.slot != *slot);
        let slot = own.map(|own| own.slot).into_iter().chain(Slot::all()).find(is_free)?;
        // A range begins where the node's own did, or as low as it can.
        let ends = others.iter().filter_map(|other| u16::try_from(other.end()).ok());
        let mut firsts: Vec<u16> = ends.chain([0]).collect();
        firsts.sort_unstable();
        let number = own.map_or(0, |own| own.number);
        let at = |first_shard| Place { name: name.into(), slot, first_shard, shards, number };
        let is_apart = |place: &Place| {
            place.is_valid() && others.iter().all(|other| !other.has_shard_of(place))
        };
        own.map(|own| own.first_shard).into_iter().chain(firsts).map(at).find(is_apart)
    }
}

/// Whether it can name a node or a cluster: it is part of a key and of lines of logs.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

pub(crate) fn is_address(address: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic();
    (1..=ADDRESS_BYTES_MAX).contains(&address.len()) && address.bytes().all(is_plain)
}

pub(crate) fn are_shards(shards: u16) -> bool {
    (1..=SHARDS_MAX).contains(&shards)
}

/// A record, which may have fields that a later version has added.
pub(crate) fn read<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Option<T> {
    if value.len() > BYTES_MAX {
        return None;
    }
    serde_json::from_slice(value).ok()
}

pub(crate) fn to_bytes(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are numbers and texts, which JSON has")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, slot: u8, first_shard: u16, shards: u16) -> Place {
        Place { name: name.into(), slot: Slot(slot), first_shard, shards, number: 0 }
    }

    fn places(of: &[Place]) -> Places {
        of.iter().cloned().fold(Places::default(), |all, place| all.with(place))
    }

    fn place_for(all: &Places, name: &str, shards: u16) -> Option<Place> {
        all.place_for(name, shards, [].iter())
    }

    #[test]
    fn a_node_gets_the_lowest_slot_and_ids_that_are_free() {
        let all = places(&[place("a", 0, 0, 2), place("c", 2, 6, 4)]);
        assert_eq!(place_for(&all, "b", 4), Some(place("b", 1, 2, 4)));
        assert_eq!(place_for(&all, "b", 5), Some(place("b", 1, 10, 5)));
        let live = [place("x", 1, 2, 1)];
        assert_eq!(all.place_for("b", 4, live.iter()), Some(place("b", 3, 10, 4)));
    }

    #[test]
    fn a_node_that_returns_gets_what_it_had_while_that_fits() {
        let all = places(&[place("a", 5, 8, 2), place("b", 1, 12, 4)]);
        for (shards, first) in [(1, 8), (2, 8), (4, 8), (5, 0), (13, 16)] {
            assert_eq!(place_for(&all, "a", shards), Some(place("a", 5, first, shards)));
        }
    }

    #[test]
    fn numbers_go_on_behind_all_that_were_given_whatever_the_clock_says() {
        let none = Places::default();
        assert_eq!((none.next_number(0), none.next_number(5_000)), (1, 5_000));
        let (a, b) = (place("a", 0, 0, 2), place("b", 1, 2, 2));
        let all = places(&[Place { number: 9_000, ..a.clone() }, Place { number: 7, ..b }]);
        let behind = 9_000 + NUMBERS;
        assert_eq!(all.next_number(5_000), behind, "the clock went back");
        assert_eq!(all.next_number(behind + 1), behind + 1);
        assert_eq!(all.without("a").next_number(0), behind, "others get its shards' ids");
        assert_eq!(Places::read(&all.without("a").to_bytes()), Some(all.without("a")));
        let last = all.with(Place { number: NUMBER_MAX, ..a.clone() });
        assert_eq!(last.next_number(0), NUMBER_MAX >> 1);
        assert_eq!(Places::read(&all.with(Place { number: u64::MAX, ..a }).to_bytes()), None);
        let before = br#"{"places":[{"name":"a","slot":0,"first_shard":0,"shards":2}]}"#;
        assert_eq!(Places::read(before), Some(places(&[place("a", 0, 0, 2)])));
    }

    #[test]
    fn a_full_cluster_has_no_place() {
        let all: Vec<Place> =
            (0..SLOTS).map(|slot| place(&slot.to_string(), slot, slot.into(), 1)).collect();
        assert_eq!(place_for(&places(&all), "b", 1), None);
        assert!(place_for(&places(&all), "3", 1).is_some());
    }

    #[test]
    fn ids_go_to_the_last_and_no_further() {
        let last = place("a", 0, u16::MAX - 1, 2);
        assert_eq!(last.shard_ids().collect::<Vec<_>>(), [65_534, 65_535].map(ShardId));
        assert!(Places::read(&places(std::slice::from_ref(&last)).to_bytes()).is_some());
        assert!(Places::read(&places(&[place("a", 0, u16::MAX, 2)]).to_bytes()).is_none());
        let all = places(&[last, place("b", 1, 0, 1)]);
        assert_eq!(place_for(&all, "c", 3), Some(place("c", 2, 1, 3)));
    }

    #[test]
    fn places_that_overlap_or_are_none_are_not_read() {
        let good = places(&[place("a", 0, 0, 2), place("b", 1, 2, 2)]);
        assert_eq!(Places::read(&good.to_bytes()), Some(good.clone()));
        for bad in [
            place("c", 0, 9, 1),
            place("c", 2, 3, 1),
            place("c", SLOTS, 9, 1),
            place("c", 2, 9, 0),
            place("c/d", 2, 9, 1),
            place("", 2, 9, 1),
            place(&"c".repeat(65), 2, 9, 1),
        ] {
            assert_eq!(Places::read(&good.with(bad.clone()).to_bytes()), None, "{bad:?}");
        }
        for bad in [&b""[..], b"{}", b"[]", b"\xFF", &vec![b' '; BYTES_MAX + 1]] {
            assert_eq!(Places::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_member_is_read_back_and_only_under_its_slot() {
        let node = Node {
            place: place("a", 3, 8, 2),
            incarnation: Incarnation((1 << 53) - 1),
            address: "10.0.0.1:7883".into(),
            letters: 2,
            letters_min: 1,
            is_stand_in: false,
            former: Vec::new(),
        };
        assert_eq!(Node::read(Slot(3), &node.to_bytes()), Some(node.clone()));
        assert_eq!(Node::read(Slot(4), &node.to_bytes()), None);
        let later = String::from_utf8(node.to_bytes()).unwrap().replacen('{', r#"{"zone":"x","#, 1);
        assert_eq!(Node::read(Slot(3), later.as_bytes()), Some(node.clone()));
        let bad = |address: &str, letters_min| Node {
            address: address.into(),
            letters_min,
            ..node.clone()
        };
        for bad in [bad("", 1), bad("a b", 1), bad("a:1", 3)] {
            assert_eq!(Node::read(Slot(3), &bad.to_bytes()), None, "{bad:?}");
        }
        // Nodes of before know nothing of stand-ins.
        let text = |node: &Node| String::from_utf8(node.to_bytes()).unwrap();
        assert!(!text(&node).contains("stand_in"));
        let stand_in = Node { is_stand_in: true, ..node };
        assert!(text(&stand_in).contains(r#""is_stand_in":true"#));
        assert_eq!(Node::read(Slot(3), &stand_in.to_bytes()), Some(stand_in));
    }

    #[test]
    fn a_copy_is_read_back_and_only_under_its_slot() {
        let copy = |keepers: &[u8], state| NamedCopy {
            name: "a".into(),
            copy: LogCopy {
                slot: Slot(3),
                owner: Incarnation(7),
                keepers: keepers.iter().map(|&slot| (Slot(slot), Incarnation(9))).collect(),
                state,
            },
        };
        let (kept, opened) = (CopyState::Kept, CopyState::Opened);
        let void = CopyState::Void;
        for good in [copy(&[], kept), copy(&[1], void), copy(&[15], opened), copy(&[2, 1], kept)] {
            assert_eq!(NamedCopy::read(Slot(3), &good.to_bytes()), Some(good.clone()));
            assert_eq!(NamedCopy::read(Slot(4), &good.to_bytes()), None);
            let bad = NamedCopy { name: String::new(), ..good };
            assert_eq!(NamedCopy::read(Slot(3), &bad.to_bytes()), None);
        }
        for bad in [copy(&[], opened), copy(&[SLOTS], kept), copy(&[1, 1], kept)] {
            assert_eq!(NamedCopy::read(Slot(3), &bad.to_bytes()), None, "{bad:?}");
        }
        // What nodes of before write and read.
        let before = r#"{"name":"a","slot":3,"owner":7,"keeper":[1,9],"state":"kept"}"#;
        assert_eq!(NamedCopy::read(Slot(3), before.as_bytes()), Some(copy(&[1], kept)));
        assert_eq!(String::from_utf8(copy(&[1], kept).to_bytes()).unwrap(), before);
    }
}
