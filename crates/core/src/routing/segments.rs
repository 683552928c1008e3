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
const SEGMENT: usize = 1_600;

/// Bits of a key.
const KEY_BITS: u32 = 40;

/// Bits of a hash by which a table of `hashbrown` tells what is at a place: the highest.
const TAG_BITS: u32 = 7;

/// Bits of a key that say the place in a segment. Those above say the segment.
const PLACE_BITS: u32 = 23;

/// What is kept of a filter's hash: the bits by which a table of `hashbrown` with this hash finds
/// it. So filters with the same key are at one place of every such table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
