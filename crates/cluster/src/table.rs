//! Which node is home to which partition.
//!
//! Every partition goes to the node with the highest hash of the node's name, one of its shards and
//! the partition (rendezvous hashing): the more shards, the more partitions, and when a node comes
//! or goes, only what it gets or had moves. Whole numbers only, so that all nodes compute the same.

use crate::records::{Incarnation, Node, Seat, read, to_bytes};
use crate::slot::Slot;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use weir_chance::mix;
use weir_core::{Partition, PartitionSet};

const PARTITIONS: usize = 256;

/// The home of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The node's slot.
    pub slot: Slot,
    /// Which membership of that node.
    pub incarnation: Incarnation,
    /// Tells the moves of the partition apart: it rises with each of them.
    pub epoch: u64,
}

impl Home {
    pub(crate) fn is_at(&self, node: Seat) -> bool {
        (self.slot, self.incarnation) == node
    }
}

/// The home of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    homes: Box<[Home; PARTITIONS]>,
}

/// How it is written: each home as a number of the list of nodes, and its epoch.
#[derive(Serialize, Deserialize)]
struct Written {
    nodes: Vec<Seat>,
    homes: Vec<(u16, u64)>,
}

impl Table {
    /// The home of a partition.
    pub fn home(&self, Partition(at): Partition) -> Home {
        self.homes[usize::from(at)]
    }

    /// Whether no epoch is below the one of an earlier table.
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        self.homes.iter().zip(earlier.homes.iter()).all(|(new, old)| new.epoch >= old.epoch)
    }

    /// The partitions whose home or epoch is another than in `other`; all if that is none.
    pub(crate) fn differs_from(&self, other: Option<&Self>) -> PartitionSet {
        let differs = |&at: &Partition| other.is_none_or(|other| other.home(at) != self.home(at));
        Partition::all().filter(differs).collect()
    }

    /// The memberships that it names.
    pub(crate) fn seats(&self) -> Vec<Seat> {
        let mut seats: Vec<Seat> = self.homes.iter().map(|it| (it.slot, it.incarnation)).collect();
        seats.sort_unstable();
        seats.dedup();
        seats
    }

    /// The partitions that are at one node and wanted at another.
    pub(crate) fn misplaced_at(&self, node: Seat, wanted: &Wanted) -> PartitionSet {
        let is_misplaced = |&at: &Partition| self.home(at).is_at(node) && wanted.at(at) != node;
        Partition::all().filter(is_misplaced).collect()
    }

    /// With those that are free where they are wanted, in this epoch.
    #[must_use]
    pub(crate) fn moved(
        &self,
        wanted: &Wanted,
        epoch: u64,
        is_free: impl Fn(Partition, Home) -> bool,
    ) -> Self {
        let home = |at: Partition| match self.home(at) {
            home if is_free(at, home) => wanted.home(at, epoch.max(home.epoch.saturating_add(1))),
            home => home,
        };
        Self { homes: Box::new(std::array::from_fn(|at| home(Partition(at as u8)))) }
    }

    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let Written { nodes, homes }: Written = read(value)?;
        let home = |&(node, epoch): &(u16, u64)| {
            let &(slot, incarnation) = nodes.get(usize::from(node))?;
            let is_valid = slot.is_one() && epoch > 0 && epoch < u64::MAX;
            is_valid.then_some(Home { slot, incarnation, epoch })
        };
        let homes: Vec<Home> = homes.iter().map(home).collect::<Option<_>>()?;
        Some(Self { homes: Box::new(homes.try_into().ok()?) })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let nodes = self.seats();
        let number = |home: &Home| {
            let at = nodes.iter().position(|&seat| home.is_at(seat));
            (at.expect("every home is among the seats") as u16, home.epoch)
        };
        let homes = self.homes.iter().map(number).collect();
        to_bytes(&Written { nodes, homes })
    }
}

/// Where each partition should be.
pub(crate) struct Wanted([Seat; PARTITIONS]);

impl Wanted {
    /// By these nodes; none without any.
    pub(crate) fn of(nodes: &[&Node]) -> Option<Self> {
        let hashed: Vec<(u64, &Node)> = nodes.iter().map(|node| (hash(node), *node)).collect();
        let mut seats = [(Slot(0), Incarnation(0)); PARTITIONS];
        for (at, seat) in seats.iter_mut().enumerate() {
            let score = |&&(hash, node): &&(u64, &Node)| {
                let shards = 0..u64::from(node.place.shards);
                let best = shards.map(|shard| mix(hash ^ mix(shard << 8 | at as u64))).max();
                (best, node.slot())
            };
            let (_, node) = hashed.iter().max_by_key(score)?;
            *seat = node.seat();
        }
        Some(Self(seats))
    }

    /// A table that is as wanted, all in this epoch.
    pub(crate) fn table(&self, epoch: u64) -> Table {
        let home = |at| self.home(Partition(at as u8), epoch);
        Table { homes: Box::new(std::array::from_fn(home)) }
    }

    fn at(&self, Partition(at): Partition) -> Seat {
        self.0[usize::from(at)]
    }

    fn home(&self, at: Partition, epoch: u64) -> Home {
        let (slot, incarnation) = self.at(at);
        Home { slot, incarnation, epoch }
    }
}

/// Of a node's name, the same in every version.
fn hash(node: &Node) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(node.place.name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Place;

    fn node(name: &str, slot: u8, shards: u16) -> Node {
        Node {
            place: Place { name: name.into(), slot: Slot(slot), first_shard: 0, shards, number: 0 },
            incarnation: Incarnation(100 + u64::from(slot)),
            address: "a:1".into(),
            letters: 1,
            letters_min: 1,
            is_stand_in: false,
            former: Vec::new(),
        }
    }

    fn wanted(nodes: &[Node]) -> Wanted {
        Wanted::of(&nodes.iter().collect::<Vec<_>>()).unwrap()
    }

    fn count(wanted: &Wanted, slot: u8) -> usize {
        wanted.0.iter().filter(|seat| seat.0 == Slot(slot)).count()
    }

    #[test]
    fn partitions_are_spread_by_shards() {
        let wanted = wanted(&[node("a", 0, 2), node("b", 1, 2), node("c", 2, 4)]);
        assert_eq!([0, 1, 2].map(|slot| count(&wanted, slot)).iter().sum::<usize>(), 256);
        assert!((40..90).contains(&count(&wanted, 0)), "{}", count(&wanted, 0));
        assert!((40..90).contains(&count(&wanted, 1)), "{}", count(&wanted, 1));
        assert!((100..156).contains(&count(&wanted, 2)), "{}", count(&wanted, 2));
    }

    #[test]
    fn only_what_a_node_had_moves_when_it_goes() {
        let nodes = [node("a", 0, 2), node("b", 1, 2), node("c", 2, 2)];
        let (before, after) = (wanted(&nodes), wanted(&nodes[..2]));
        for at in Partition::all() {
            let is_moved = before.at(at) != after.at(at);
            assert_eq!(is_moved, before.at(at).0 == Slot(2), "{at:?}");
        }
        // Every version of the program wants the same.
        assert_eq!([7, 100, 255].map(|at| before.at(Partition(at)).0.0), [0, 0, 2]);
    }

    #[test]
    fn a_move_raises_the_epoch_of_what_moves_and_nothing_else() {
        let nodes = [node("a", 0, 2), node("b", 1, 2)];
        let (table, both) = (wanted(&nodes[..1]).table(5), wanted(&nodes));
        let misplaced = table.misplaced_at((Slot(0), Incarnation(100)), &both);
        let moved = table.moved(&both, 9, |at, _| misplaced.contains(at));
        assert_eq!(moved.differs_from(Some(&table)), misplaced);
        for at in Partition::all() {
            let (slot, epoch) = if misplaced.contains(at) { (1, 9) } else { (0, 5) };
            assert_eq!((moved.home(at).slot, moved.home(at).epoch), (Slot(slot), epoch));
        }
        assert!(moved.follows(&table) && !table.follows(&moved));
    }

    #[test]
    fn a_table_is_read_back_and_nothing_else_is() {
        let table = wanted(&[node("a", 0, 2), node("b", 1, 2)]).table(1);
        let bytes = table.to_bytes();
        assert_eq!(Table::read(&bytes), Some(table));
        let text = String::from_utf8(bytes).unwrap();
        let bad = [
            ("[[0,100],", "[[16,100],"),
            ("\"homes\":[", "\"homes\":[[2,1],"),
            ("\"homes\":[[", "\"homes\":[[9"),
            ("1]]}", "0]]}"),
            ("}", ""),
        ];
        for (part, other) in bad {
            let changed = text.replacen(part, other, 1);
            assert_ne!(changed, text, "{part}");
            assert_eq!(Table::read(changed.as_bytes()), None, "{part} as {other}");
        }
    }
}
