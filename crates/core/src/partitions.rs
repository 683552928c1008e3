//! Partitions of client identifiers and of topics, and which shard holds each.
//!
//! A client's session, and a topic's retained message, are kept by the shard that holds their
//! partition. What is in a partition never changes, only who holds it.

use crate::keys::ShardId;
use crate::shard_set::{SHARDS_MAX, ShardSet};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::ops::Range;

/// How many partitions there are, however many shards.
pub(crate) const PARTITIONS: usize = 256;

/// A partition, of client identifiers or of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition(pub u8);

impl Partition {
    /// Every partition.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }
}

/// Some of the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionSet([u64; PARTITIONS / 64]);

impl PartitionSet {
    /// Whether a partition is one of them.
    pub fn contains(&self, Partition(at): Partition) -> bool {
        self.0[usize::from(at / 64)] & 1 << (at % 64) != 0
    }

    /// A bit each, the lowest first.
    pub(crate) fn words(&self) -> [u64; PARTITIONS / 64] {
        self.0
    }

    /// As [`PartitionSet::words`] gives them.
    pub(crate) fn of_words(words: [u64; PARTITIONS / 64]) -> Self {
        Self(words)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn insert(&mut self, Partition(at): Partition) {
        self.0[usize::from(at / 64)] |= 1 << (at % 64);
    }

    pub(crate) fn remove(&mut self, Partition(at): Partition) {
        self.0[usize::from(at / 64)] &= !(1 << (at % 64));
    }
}

impl FromIterator<Partition> for PartitionSet {
    fn from_iter<T: IntoIterator<Item = Partition>>(all: T) -> Self {
        let mut set = Self::default();
        all.into_iter().for_each(|partition| set.insert(partition));
        set
    }
}

/// Which shard holds which partition.
#[derive(Clone, Debug)]
pub struct Partitions {
    seed: u64,
    owners: [ShardId; PARTITIONS],
}

impl Partitions {
    /// Partitions spread evenly over `shards`. `seed` keeps what is in a partition from being
    /// guessed.
    pub fn spread(shards: u16, seed: u64) -> Self {
        Self::spread_over(&(0..shards), seed)
    }

    /// The same over the shards of one node among others.
    pub(crate) fn spread_over(node: &Range<u16>, seed: u64) -> Self {
        let owner = |partition: usize| ShardId(node.start + (partition % node.len()) as u16);
        Self { seed, owners: std::array::from_fn(owner) }
    }

    /// The partition of a client identifier or topic. SipHash, unlike the hash of the tables, is
    /// the same in every version of the program.
    pub fn of(&self, name: &str) -> Partition {
        let mut hasher = SipHasher13::new_with_keys(self.seed, 0);
        hasher.write(name.as_bytes());
        Partition((hasher.finish() >> 56) as u8)
    }

    /// The shard that holds the partition of a client identifier or topic.
    pub fn owner(&self, name: &str) -> ShardId {
        self.holder(self.of(name))
    }

    /// The shard that holds a partition.
    pub fn holder(&self, Partition(at): Partition) -> ShardId {
        self.owners[usize::from(at)]
    }

    /// The partitions that a shard holds.
    pub fn held_by(&self, shard: ShardId) -> PartitionSet {
        Partition::all().filter(|&partition| self.holder(partition) == shard).collect()
    }

    /// Another shard holds a partition from now on.
    pub fn set_holder(&mut self, Partition(at): Partition, shard: ShardId) {
        self.owners[usize::from(at)] = shard;
    }
}

/// A shard's place among the shards of its node, and of the nodes that are here.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: ShardId,
    /// The shards of this node.
    pub(crate) node: Range<u16>,
    /// Whom letters go to.
    others: ShardSet,
    /// The shards of each other node that is here, and which of all visits that is.
    nodes: Vec<(Range<u16>, u64)>,
    visits: u64,
    /// Among the shards of this node. Those of another have what it has as theirs.
    pub(crate) partitions: Partitions,
}

impl Place {
    /// All shards of all nodes have the same `seed`.
    pub(crate) fn new(id: ShardId, node: Range<u16>, seed: u64) -> Self {
        assert!(node.contains(&id.0), "a shard is one of its node's");
        let mut others = ShardSet::of(node.clone());
        others.remove(id);
        assert!(
            usize::from(node.end) <= usize::from(SHARDS_MAX),
            "there are so many shards at most"
        );
        let partitions = Partitions::spread_over(&node, seed);
        Self { id, node, others, nodes: Vec::new(), visits: 0, partitions }
    }

    /// Whether there is no other shard.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// The shards of another node are here from now on. Names the visit, if they were not.
    pub(crate) fn add_node(&mut self, node: Range<u16>) -> Option<u64> {
        if self.visit(&node).is_some() {
            return None;
        }
        node.clone().for_each(|shard| self.others.insert(ShardId(shard)));
        self.visits += 1;
        self.nodes.push((node, self.visits));
        Some(self.visits)
    }

    /// The present visit of another node.
    pub(crate) fn visit(&self, node: &Range<u16>) -> Option<u64> {
        self.nodes.iter().find(|(other, _)| other == node).map(|&(_, visit)| visit)
    }

    /// They are not any more. Says whether they were.
    pub(crate) fn remove_node(&mut self, node: &Range<u16>) -> bool {
        let count = self.nodes.len();
        self.nodes.retain(|(other, _)| other != node);
        let was_here = self.nodes.len() < count;
        if was_here {
            node.clone().for_each(|shard| self.others.remove(ShardId(shard)));
        }
        was_here
    }

    /// Whether letters go to and come from a shard.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        self.others.contains(shard)
    }

    /// The node behind this one in the order of shards, of those that are here.
    pub(crate) fn next_node(&self) -> Option<Range<u16>> {
        let behind = self.nodes().filter(|node| node.start > self.node.start);
        let next = behind.min_by_key(|node| node.start);
        next.or_else(|| self.nodes().min_by_key(|node| node.start)).cloned()
    }

    /// The shards of each other node that is here.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Range<u16>> {
        self.nodes.iter().map(|(node, _)| node)
    }

    /// Whether there are other nodes.
    pub(crate) fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The shard of each other node that keeps the retained message of a topic too.
    pub(crate) fn owners_elsewhere(&self, topic: &str) -> impl Iterator<Item = ShardId> {
        self.nodes().map(|node| self.owner_at(node, topic))
    }

    /// The one of another node.
    pub(crate) fn owner_at(&self, node: &Range<u16>, topic: &str) -> ShardId {
        let Partition(partition) = self.partitions.of(topic);
        ShardId(node.start + u16::from(partition) % node.len() as u16)
    }

    /// The shard of this node that has the session of a client, or the retained message of a topic.
    pub(crate) fn owner(&self, name: &str) -> ShardId {
        if self.node.len() == 1 { self.id } else { self.partitions.owner(name) }
    }

    pub(crate) fn is_owner(&self, name: &str) -> bool {
        self.owner(name) == self.id
    }

    /// The other shards, of all nodes that are here.
    pub(crate) fn others(&self) -> ShardSet {
        self.others
    }

    /// The shard of this node that leads when all do something together.
    pub(crate) fn leader(&self) -> ShardId {
        ShardId(self.node.start)
    }

    /// The other shards of this node.
    pub(crate) fn neighbors(&self) -> ShardSet {
        let mut neighbors = ShardSet::of(self.node.clone());
        neighbors.remove(self.id);
        neighbors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_partition_however_many_shards_there_are() {
        let (one, four) = (Partitions::spread(1, 7), Partitions::spread(4, 7));
        for name in ["", "a", "sensor/17/temperature", "ü"] {
            assert_eq!(one.of(name), four.of(name));
        }
        assert_eq!(four.of("sensor/17/temperature"), Partition(24), "kept on disk one day");
    }

    #[test]
    fn a_node_has_its_topics_owner_and_every_other_node_one() {
        let mut place = Place::new(ShardId(5), 4..8, 7);
        assert_eq!([0..1, 9..12, 9..12].map(|node| place.add_node(node)), [Some(1), Some(2), None]);
        for topic in ["a", "b/c", "sensor/17/temperature"] {
            let Partition(partition) = place.partitions.of(topic);
            assert_eq!(place.owner(topic), ShardId(4 + u16::from(partition) % 4));
            let elsewhere: Vec<ShardId> = place.owners_elsewhere(topic).collect();
            assert_eq!(elsewhere, [ShardId(0), ShardId(9 + u16::from(partition) % 3)]);
        }
        let others: Vec<u16> = place.others().map(|shard| shard.0).collect();
        assert_eq!(others, [0, 4, 6, 7, 9, 10, 11]);
        assert!(place.remove_node(&(9..12)) && !place.remove_node(&(9..12)));
        assert_eq!(place.others().len(), 4);
        assert_eq!(place.neighbors().len(), 3);
    }

    #[test]
    fn every_shard_holds_its_share() {
        for shards in [1, 2, 3, 7, 256] {
            let partitions = Partitions::spread(shards, 1);
            for shard in (0..shards).map(ShardId) {
                let held = partitions.owners.iter().filter(|&&owner| owner == shard).count();
                let fair = PARTITIONS / usize::from(shards);
                assert!((fair..=fair + 1).contains(&held), "{shards} shards: {held}");
            }
        }
    }
}
