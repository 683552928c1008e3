//! A set of filters as hashes, each with a shard that wants it, in six bytes of a table.
//!
//! The table is divided into segments by linear hashing: when it grows, one segment gives half of
//! what it has to a new one at the end, and when it shrinks, the last goes back to where it came
//! from. So no input copies all of a table, and it can be walked through a segment at a time.

use crate::keys::ShardId;
use crate::shard_set::ShardSet;
use crate::shrink;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Entries per segment: so many, with those by which segments differ, nearly fill the 2,048 places
/// of a segment's table, of which 7 in 8 can be taken.
const SEGMENT: usize = if cfg!(test) { 4 } else { 1_600 };

/// Bits of a key.
const KEY_BITS: u32 = 40;

/// Bits of a hash by which a table of `hashbrown` tells what is at a place: the highest.
const TAG_BITS: u32 = 7;

/// Bits of a key that say the place in a segment. Those above say the segment.
const PLACE_BITS: u32 = 23;

/// What is kept of a filter's hash: the bits by which a table of `hashbrown` with this hash finds
/// it. So filters with the same key are at one place of every such table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        Self(hash.rotate_left(TAG_BITS) & ((1 << KEY_BITS) - 1))
    }

    #[inline]
    fn hash(self) -> u64 {
        self.0.rotate_right(TAG_BITS)
    }
}

/// A key and a shard, which is in the lowest of the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wanted([u8; 6]);

impl Wanted {
    fn new(Key(key): Key, ShardId(shard): ShardId) -> Self {
        let [bytes @ .., _, _] = (key << u8::BITS | u64::from(shard as u8)).to_le_bytes();
        Self(bytes)
    }

    #[inline]
    fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    #[inline]
    fn key(self) -> Key {
        Key(self.number() >> u8::BITS)
    }

    #[inline]
    fn shard(self) -> ShardId {
        ShardId(self.0[0].into())
    }
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.key(), self.shard()).fmt(f)
    }
}

/// The set.
#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: Vec<HashTable<Wanted>>,
    len: usize,
}

impl Segments {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the shards that want a filter with this key.
    #[inline]
    pub(super) fn find(&self, key: Key, shards: &mut ShardSet) {
        let Some(segment) = self.segments.get(self.segment_of(key)) else { return };
        let with_key = segment.iter_hash(key.hash()).filter(|wanted| wanted.key() == key);
        with_key.for_each(|wanted| shards.insert(wanted.shard()));
    }

    /// Says whether that is new.
    pub(super) fn insert(&mut self, key: Key, shard: ShardId) -> bool {
        if self.segments.is_empty() {
            self.segments.push(HashTable::new());
        }
        let (at, wanted) = (self.segment_of(key), Wanted::new(key, shard));
        let entry = self.segments[at].entry(key.hash(), |other| *other == wanted, hash);
        let Entry::Vacant(vacant) = entry else { return false };
        vacant.insert(wanted);
        self.len += 1;
        if self.len > self.segments.len() * SEGMENT {
            self.divide();
        }
        true
    }

    /// Says whether it was there.
    pub(super) fn remove(&mut self, key: Key, shard: ShardId) -> bool {
        let (at, wanted) = (self.segment_of(key), Wanted::new(key, shard));
        let Some(segment) = self.segments.get_mut(at) else { return false };
        let Ok(entry) = segment.find_entry(key.hash(), |other| *other == wanted) else {
            return false;
        };
        entry.remove();
        shrink::table(segment, hash);
        self.len -= 1;
        true
    }

    /// Forgets what shards that are gone want in the segment at a place, if there is one. Says how
    /// many entries it had and how many of them went.
    pub(super) fn forget(&mut self, at: usize, gone: &ShardSet) -> Option<(usize, usize)> {
        let segment = self.segments.get_mut(at)?;
        let had = segment.len();
        segment.retain(|wanted| !gone.contains(wanted.shard()));
        let went = had - segment.len();
        if went > 0 {
            shrink::table(segment, hash);
        }
        self.len -= went;
        Some((had, went))
    }

    /// Puts the last segment back to where it came from, if there are too many. Not between two
    /// calls of [`Segments::forget`] for the segments in turn, which would miss what it had.
    pub(super) fn join(&mut self) {
        if self.segments.len() == 1 || self.len >= self.segments.len() * SEGMENT / 4 {
            return;
        }
        for wanted in self.segments.pop().into_iter().flatten() {
            let key = wanted.key();
            let at = self.segment_of(key);
            self.segments[at].insert_unique(key.hash(), wanted, hash);
        }
        shrink::list(&mut self.segments);
    }

    /// One more segment takes what is its of another.
    fn divide(&mut self) {
        let new = self.segments.len();
        self.segments.push(HashTable::new());
        let old = new - (new + 1).next_power_of_two() / 2;
        let mut segment = std::mem::take(&mut self.segments[old]);
        let moves = |wanted: &mut Wanted| self.segment_of(wanted.key()) == new;
        let moved: Vec<Wanted> = segment.extract_if(moves).collect();
        segment.shrink_to_fit(hash);
        self.segments[old] = segment;
        self.segments[new].reserve(moved.len(), hash);
        for wanted in moved {
            self.segments[new].insert_unique(hash(&wanted), wanted, hash);
        }
    }

    /// By the last bits of the key's part for this: one more where that segment is there by now.
    #[inline]
    fn segment_of(&self, Key(key): Key) -> usize {
        let count = self.segments.len();
        let mask = count.next_power_of_two() - 1;
        let at = (key >> PLACE_BITS) as usize & mask;
        if at < count { at } else { at & mask >> 1 }
    }
}

fn hash(wanted: &Wanted) -> u64 {
    wanted.key().hash()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use weir_chance::mix;

    const SHARDS: u16 = 256;

    #[test]
    fn an_entry_takes_six_bytes_and_says_what_was_put_in() {
        let (key, shard) = (Key::of(0xFEDC_BA98_7654_3210), ShardId(255));
        let wanted = Wanted::new(key, shard);
        assert_eq!((size_of::<Wanted>(), wanted.key(), wanted.shard()), (6, key, shard));
        let bits = key.hash() ^ 0xFEDC_BA98_7654_3210;
        assert_eq!((bits >> 57, bits << 31), (0, 0), "the bits that a table looks at");
    }

    proptest! {
        #[test]
        fn it_is_a_set_whose_shards_are_found_by_key(
            steps in prop::collection::vec((0..20_u8, 0..60_u64, 0..SHARDS), 0..600),
        ) {
            let (mut set, mut model) = (Segments::default(), BTreeSet::new());
            let key = |number| Key::of(mix(number));
            for (step, number, shard) in steps {
                let (entry, id) = ((number, shard), ShardId(shard));
                match step {
                    0 => {
                        // While the segments are walked through, none is put back.
                        let gone = ShardSet::of(shard.saturating_sub(40)..shard);
                        model.retain(|&(_, shard)| !gone.contains(ShardId(shard)));
                        let mut at = 0;
                        while set.forget(at, &gone).is_some() {
                            at += 1;
                            if model.insert((at as u64, 255)) {
                                prop_assert!(set.insert(key(at as u64), ShardId(255)));
                            }
                        }
                    }
                    1..12 => prop_assert_eq!(set.insert(key(number), id), model.insert(entry)),
                    _ => {
                        prop_assert_eq!(set.remove(key(number), id), model.remove(&entry));
                        set.join();
                    }
                }
                prop_assert_eq!(set.len, model.len());
                let mut found = ShardSet::default();
                set.find(key(number), &mut found);
                let of_key = model.range((number, 0)..(number + 1, 0));
                let expected: Vec<u16> = of_key.map(|&(_, shard)| shard).collect();
                prop_assert_eq!(found.map(|shard| shard.0).collect::<Vec<_>>(), expected);
            }
            for (number, shard) in model {
                prop_assert!(set.remove(key(number), ShardId(shard)));
                set.join();
            }
            prop_assert!(set.is_empty() && set.segments.len() <= 2, "{:?}", set);
        }
    }

    #[test]
    fn segments_are_of_about_one_size() {
        let mut set = Segments::default();
        for number in 0..6_400 {
            set.insert(Key::of(mix(number)), ShardId(1));
        }
        assert_eq!(set.segments.len(), 1_600);
        let largest = set.segments.iter().map(HashTable::len).max();
        assert!(largest < Some(8 * SEGMENT), "{largest:?}");
    }
}
