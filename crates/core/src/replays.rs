//! The retained messages that a new subscription is still to get.
//!
//! They stay in their owners' stores until the session can take them: owners are asked for a page
//! at a time. Meanwhile the subscriber gets new messages as they are published. So that it gets
//! each message once, and no old one after a newer one:
//!
//! - No page is older than what its subscriber's shard has seen: the owner answers when it has
//!   received all that the asking shard knew of ([`crate::retained::Stamps::needed`]). When every
//!   shard has noted a subscription, it says as well what it has sent to owners by then. So what
//!   was published too early to come live is on a page.
//! - What was published after all shards had noted it comes live: its number is higher than what
//!   was seen by then, and it is left out of the page. What came live while they were noting it is
//!   remembered, and left out as well.
//! - What comes live while a page is on its way, and had not come to the owner when it answered,
//!   is newer than the page: its topic is left out.

use crate::keys::{ShardId, Stamp};
use crate::name::Name;
use crate::partitions::{Partition, PartitionSet, Place};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::hash::BuildHasher;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// Replays that are looked through one by one for a name; more have an index.
const SCANNED_MAX: usize = 16;

/// A session's replays; boxed there, as few sessions have any.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    /// In turn: by their number.
    in_turn: BTreeMap<u64, Replay>,
    /// Their numbers by name, once they are many.
    by_name: HashTable<u64>,
    /// They go on in a later turn, and not before.
    pub(crate) is_put_off: bool,
}

/// One subscription's way through the stores.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Names it in answers that may come too late; never given again.
    pub(crate) id: u64,
    /// Its topic filter. What QoS and identifier it has is looked up when a page comes: it may
    /// have been subscribed to again, or not at all any more.
    pub(crate) filter: Box<str>,
    /// The condition in its name, as it is encoded there.
    encoded: Option<Box<str>>,
    pub(crate) state: ReplayState,
    /// The number of owners whose stores are through.
    owners_done: u16,
    /// The last topic that is through in the present owner's store.
    after: Option<Box<str>>,
    /// What is still to go, the present one last, in the place of these two: once a partition has
    /// moved, owners in turn would leave topics out or bring them twice.
    legs: Option<Vec<Leg>>,
    /// Which SUBSCRIBE of its shard it is of.
    round: u64,
    /// When the subscription was made, among what came live.
    mark: u64,
    /// Nothing until it begins.
    seen: Option<Arc<Seen>>,
}

/// The way through some partitions in one owner's store.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) owner: ShardId,
    /// The last topic that is through.
    pub(crate) after: Option<Box<str>>,
    pub(crate) partitions: PartitionSet,
}

/// Where a replay goes on.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) owner: ShardId,
    pub(crate) after: Option<Box<str>>,
    /// Nothing is all that the owner holds.
    pub(crate) partitions: Option<Box<PartitionSet>>,
}

/// What was seen of retained messages when all shards had noted the subscriptions of a SUBSCRIBE.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The last number of each shard.
    pub(crate) numbers: Box<[u64]>,
    /// What came live a moment before, and when.
    pub(crate) recent: HashMap<Stamp, u64, FixedState>,
}

/// Where a replay stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayState {
    /// The other shards are told of the subscription.
    Telling,
    /// Goes on when the session has room.
    Ready,
    /// An owner has been asked for a page.
    Asked,
}

impl Replays {
    pub(crate) fn is_empty(&self) -> bool {
        self.in_turn.is_empty()
    }

    /// Adds one, as the last. There is none of its name.
    pub(crate) fn push(&mut self, replay: Replay, hasher: &FixedState) {
        let id = replay.id;
        self.in_turn.insert(id, replay);
        let is_many = self.in_turn.len() > SCANNED_MAX;
        let Self { in_turn, by_name, .. } = self;
        let hash = |id: &u64| in_turn.get(id).map_or(0, |replay| hash(hasher, replay.name()));
        if !by_name.is_empty() {
            by_name.insert_unique(hash(&id), id, hash);
        } else if is_many {
            for &id in in_turn.keys() {
                by_name.insert_unique(hash(&id), id, hash);
            }
        }
    }

    /// Drops the one of this name, if there is one.
    pub(crate) fn cancel(&mut self, name: Name<'_>, hasher: &FixedState) {
        let Self { in_turn, by_name, .. } = self;
        let is_it = |id: &u64| in_turn.get(id).is_some_and(|replay| replay.name() == name);
        let found = if by_name.is_empty() {
            in_turn.keys().find(|id| is_it(id)).copied()
        } else {
            by_name.find_entry(hash(hasher, name), is_it).ok().map(|entry| entry.remove().0)
        };
        if let Some(id) = found {
            in_turn.remove(&id);
        }
    }

    pub(crate) fn front(&self) -> Option<&Replay> {
        self.in_turn.first_key_value().map(|(_, replay)| replay)
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Replay> {
        self.in_turn.first_entry().map(OccupiedEntry::into_mut)
    }

    /// Takes the first away for a while, see [`Replays::put_back`].
    pub(crate) fn take_front(&mut self) -> Option<Replay> {
        self.in_turn.pop_first().map(|(_, replay)| replay)
    }

    pub(crate) fn put_back(&mut self, replay: Replay) {
        self.in_turn.insert(replay.id, replay);
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Replay> {
        self.in_turn.values_mut()
    }

    /// All, in turn, to go elsewhere.
    pub(crate) fn into_all(self) -> Vec<Replay> {
        self.in_turn.into_values().collect()
    }

    pub(crate) fn drop_front(&mut self, hasher: &FixedState) {
        let Some((id, replay)) = self.in_turn.pop_first() else { return };
        if self.by_name.is_empty() {
            return;
        }
        let hash = hash(hasher, replay.name());
        if let Ok(entry) = self.by_name.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }

    /// All shards have noted the subscriptions of a SUBSCRIBE; `first` is its first replay. Says
    /// how many there were to look at.
    pub(crate) fn begin(&mut self, first: u64, round: u64, seen: &Arc<Seen>) -> usize {
        let mut count = 0;
        for (_, replay) in self.in_turn.range_mut(first..) {
            count += 1;
            if replay.round == round {
                replay.state = ReplayState::Ready;
                replay.seen = Some(Arc::clone(seen));
            }
        }
        count
    }
}

fn hash(hasher: &FixedState, name: Name<'_>) -> u64 {
    hasher.hash_one((name.topic.filter, name.encoded))
}

impl Replay {
    /// For a subscription that is not shared.
    pub(crate) fn new(id: u64, name: Name<'_>, round: u64, mark: u64) -> Self {
        Self {
            id,
            filter: name.topic.filter.into(),
            encoded: name.encoded.map(Into::into),
            state: ReplayState::Telling,
            owners_done: 0,
            after: None,
            legs: None,
            round,
            mark,
            seen: None,
        }
    }

    /// What the subscription is called.
    pub(crate) fn name(&self) -> Name<'_> {
        let topic = TopicFilter { group: None, filter: &self.filter };
        Name { topic, encoded: self.encoded.as_deref() }
    }

    fn is_wild(&self) -> bool {
        self.filter.contains(['+', '#'])
    }

    /// Where it goes on: at the owner of the filter's only topic; for a wildcard at each shard in
    /// turn, its own first. Nothing if it is over.
    pub(crate) fn next(&self, place: &Place) -> Option<Next> {
        if let Some(legs) = &self.legs {
            let Leg { owner, after, partitions } = legs.last()?.clone();
            return Some(Next { owner, after, partitions: Some(Box::new(partitions)) });
        }
        if self.is_over(place) {
            return None;
        }
        let owner = if self.is_wild() {
            self.nth_owner(self.owners_done, place)
        } else {
            place.owner(&self.filter)
        };
        Some(Next { owner, after: self.after.clone(), partitions: None })
    }

    pub(crate) fn is_over(&self, place: &Place) -> bool {
        let owners = if self.is_wild() { place.node.len() as u16 } else { 1 };
        self.legs.as_ref().map_or(self.owners_done == owners, Vec::is_empty)
    }

    fn nth_owner(&self, nth: u16, place: &Place) -> ShardId {
        let first = place.node.start;
        ShardId(first + (place.id.0 - first + nth) % place.node.len() as u16)
    }

    /// The present owner's topics are through up to this one.
    pub(crate) fn went_on(&mut self, to: Box<str>) {
        let present = self.legs.as_mut().and_then(|legs| legs.last_mut());
        *present.map_or(&mut self.after, |leg| &mut leg.after) = Some(to);
    }

    /// All of the present owner's are.
    pub(crate) fn owner_done(&mut self) {
        match &mut self.legs {
            Some(legs) => drop(legs.pop()),
            None => (self.owners_done, self.after) = (self.owners_done + 1, None),
        }
    }

    /// A partition moves: what is to go of it is to go at the shard that holds it next. `place` is
    /// as it was before. Saying so again changes nothing.
    pub(crate) fn follow(&mut self, partition: Partition, to: ShardId, place: &Place) {
        if !self.is_wild() {
            return;
        }
        if self.legs.is_none() {
            let owners = self.owners_done..place.node.len() as u16;
            let owners = owners.map(|nth| self.nth_owner(nth, place));
            let leg =
                |owner| Leg { owner, after: None, partitions: place.partitions.held_by(owner) };
            let mut legs: Vec<Leg> = owners.map(leg).collect();
            legs.iter_mut().take(1).for_each(|leg| leg.after = self.after.take());
            legs.reverse();
            self.legs = Some(legs);
        }
        let Some(legs) = &mut self.legs else { return };
        let Some(leg) = legs.iter_mut().find(|leg| leg.partitions.contains(partition)) else {
            return;
        };
        leg.partitions.remove(partition);
        let partitions = PartitionSet::from_iter([partition]);
        let moved = Leg { owner: to, after: leg.after.clone(), partitions };
        legs.retain(|leg| !leg.partitions.is_empty());
        legs.insert(0, moved);
    }

    /// Whether the subscriber has not had this message, which it matches, live, and will not have
    /// it.
    pub(crate) fn is_due(&self, stamp: Stamp) -> bool {
        let Some(seen) = &self.seen else { return false };
        let number = seen.numbers.get(usize::from(stamp.shard.0));
        number.is_some_and(|&number| stamp.number <= number)
            && seen.recent.get(&stamp).is_none_or(|&live| live < self.mark)
    }
}
