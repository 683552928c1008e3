//! Some of the shards of a cluster, as bits.

use crate::keys::ShardId;
use std::ops::Range;

/// So many shards there are at most, of all nodes together.
pub const SHARDS_MAX: u16 = 256;

const WORDS: usize = SHARDS_MAX as usize / 64;

/// Some of the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardSet([u64; WORDS]);

impl ShardSet {
    pub(crate) fn of(shards: Range<u16>) -> Self {
        let mut set = Self::default();
        shards.for_each(|shard| set.insert(ShardId(shard)));
        set
    }

    /// Those that do not exist are left out.
    pub(crate) fn insert(&mut self, ShardId(shard): ShardId) {
        if let Some(word) = self.0.get_mut(usize::from(shard / 64)) {
            *word |= 1 << (shard % 64);
        }
    }

    pub(crate) fn remove(&mut self, ShardId(shard): ShardId) {
        if let Some(word) = self.0.get_mut(usize::from(shard / 64)) {
            *word &= !(1 << (shard % 64));
        }
    }

    pub(crate) fn contains(&self, ShardId(shard): ShardId) -> bool {
        self.0.get(usize::from(shard / 64)).is_some_and(|word| word & 1 << (shard % 64) != 0)
    }

    pub(crate) fn remove_all(&mut self, shards: &Range<u16>) {
        shards.clone().for_each(|shard| self.remove(ShardId(shard)));
    }

    /// Those that are in both.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl Extend<ShardId> for ShardSet {
    fn extend<T: IntoIterator<Item = ShardId>>(&mut self, all: T) {
        all.into_iter().for_each(|shard| self.insert(shard));
    }
}

/// In the order of their numbers.
impl Iterator for ShardSet {
    type Item = ShardId;

    fn next(&mut self) -> Option<ShardId> {
        let at = self.0.iter().position(|&word| word != 0)?;
        let bit = self.0[at].trailing_zeros();
        self.0[at] &= self.0[at] - 1;
        Some(ShardId(at as u16 * 64 + bit as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out_in_order() {
        let mut set = ShardSet::of(62..67);
        set.insert(ShardId(3));
        set.insert(ShardId(255));
        set.insert(ShardId(256));
        set.remove(ShardId(64));
        set.remove(ShardId(1_000));
        assert!(set.contains(ShardId(63)) && !set.contains(ShardId(64)));
        assert!(!set.contains(ShardId(256)) && !set.is_empty());
        assert_eq!(set.len(), 6);
        assert_eq!(set.and(&ShardSet::of(4..64)), ShardSet::of(62..64));
        let all: Vec<u16> = set.map(|shard| shard.0).collect();
        assert_eq!(all, [3, 62, 63, 65, 66, 255]);
    }
}
