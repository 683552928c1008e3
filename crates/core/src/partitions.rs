//! Partitions of client identifiers and of topics, and which shard holds each.
//!
//! A client's session, and a topic's retained message, are kept by the shard that holds their
//! partition. What is in a partition never changes, only who holds it.

use crate::keys::ShardId;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

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
        let owner = |partition: usize| ShardId((partition % usize::from(shards)) as u16);
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

/// A shard's place among the shards of its broker.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: ShardId,
    pub(crate) shards: u16,
    pub(crate) partitions: Partitions,
}

impl Place {
    /// All shards of a broker have the same `seed`.
    pub(crate) fn new(id: ShardId, shards: u16, seed: u64) -> Self {
        assert!(id.0 < shards, "shard ids go from 0 to the number of shards less one");
        Self { id, shards, partitions: Partitions::spread(shards, seed) }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.shards == 1
    }

    /// The shard that has the session of a client, or the retained message of a topic.
    pub(crate) fn owner(&self, name: &str) -> ShardId {
        if self.is_alone() { self.id } else { self.partitions.owner(name) }
    }

    pub(crate) fn is_owner(&self, name: &str) -> bool {
        self.owner(name) == self.id
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = ShardId> + use<> {
        let id = self.id;
        (0..self.shards).map(ShardId).filter(move |&shard| shard != id)
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
