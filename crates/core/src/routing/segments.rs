//! A set of filters as hashes, each with a shard that wants it, in eight bytes and little more.
//!
//! It is divided into segments by linear hashing: when it grows, one segment gives half of what it
//! has to a new one at the end, and when it shrinks, the last goes back to where it came from. So
//! no input copies all of it, and it can be walked through a segment at a time. What is in a
//! segment is in order, and as hashes are spread evenly, a hash says nearly where it is.

use crate::keys::ShardId;
use crate::shard_set::ShardSet;

/// Entries per segment.
const SEGMENT: usize = if cfg!(test) { 4 } else { 80 };

/// Entries that a segment has memory for beyond those it has.
const SPARE: usize = 4;

/// The bits of a key. In tests fewer, so that there are filters that have the same.
const KEY: u64 = if cfg!(test) { 0x00FF_FF00_000F_FFFF } else { u64::MAX >> u8::BITS };

/// Bits of a hash by which a table of `hashbrown` tells what is at a place: the highest. The lowest
/// say the place.
const TAG_BITS: u32 = 7;

/// What is kept of a filter's hash: those bits of it that a table of `hashbrown` looks at. So such
/// a table finds all filters of one key where it finds one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    #[inline]
    pub(super) fn of(hash: u64) -> Self {
        Self(hash.rotate_left(TAG_BITS) & KEY)
    }
}

/// A key, and a shard in the lowest byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted(u64);

impl Wanted {
    #[inline]
    fn new(Key(key): Key, ShardId(shard): ShardId) -> Self {
        Self((key << u8::BITS) | u64::from(shard as u8))
    }

    #[inline]
    fn key(self) -> Key {
        Key(self.0 >> u8::BITS)
    }

    #[inline]
    fn shard(self) -> ShardId {
        ShardId(u16::from(self.0 as u8))
    }
}

/// The set.
#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: Vec<Vec<Wanted>>,
    /// The bits that name a segment: one less than a power of two, which is not less than their
    /// number.
    mask: usize,
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
        let at = place(segment, Wanted::new(key, ShardId(0)));
        for wanted in &segment[at..] {
            if wanted.key() != key {
                break;
            }
            shards.insert(wanted.shard());
        }
    }

    /// Says whether that is new.
    pub(super) fn insert(&mut self, key: Key, shard: ShardId) -> bool {
        if self.segments.is_empty() {
            self.segments.push(Vec::new());
        }
        let (of, wanted) = (self.segment_of(key), Wanted::new(key, shard));
        let segment = &mut self.segments[of];
        let at = place(segment, wanted);
        if segment.get(at) == Some(&wanted) {
            return false;
        }
        if segment.len() == segment.capacity() {
            segment.reserve_exact(SPARE);
        }
        segment.insert(at, wanted);
        self.len += 1;
        if self.len > self.segments.len() * SEGMENT {
            self.divide();
        }
        true
    }

    /// Says whether it was there.
    pub(super) fn remove(&mut self, key: Key, shard: ShardId) -> bool {
        let (of, wanted) = (self.segment_of(key), Wanted::new(key, shard));
        let Some(segment) = self.segments.get_mut(of) else { return false };
        let at = place(segment, wanted);
        if segment.get(at) != Some(&wanted) {
            return false;
        }
        segment.remove(at);
        shrink(segment);
        self.len -= 1;
        true
    }

    /// Forgets what shards that are gone want in the segment at a place, if there is one. Says how
    /// many entries it had and how many of them went.
    pub(super) fn forget(&mut self, at: usize, gone: &ShardSet) -> Option<(usize, usize)> {
        let segment = self.segments.get_mut(at)?;
        let had = segment.len();
        segment.retain(|wanted| !gone.contains(wanted.shard()));
        shrink(segment);
        let went = had - segment.len();
        self.len -= went;
        Some((had, went))
    }

    /// Puts the last segment back to where it came from, if there are too many. Not between two
    /// calls of [`Segments::forget`] for the segments in turn, which would miss what it had.
    pub(super) fn join(&mut self) {
        if self.segments.len() == 1 || self.len >= self.segments.len() * SEGMENT / 4 {
            return;
        }
        let Some(last) = self.segments.pop() else { return };
        let old = self.segments.len() & (self.mask >> 1);
        self.set_mask();
        let segment = &mut self.segments[old];
        segment.reserve_exact(last.len());
        segment.extend(last);
        segment.sort_unstable();
        crate::shrink::list(&mut self.segments);
    }

    /// One more segment takes what is its of another.
    fn divide(&mut self) {
        let new = self.segments.len();
        self.segments.push(Vec::new());
        self.set_mask();
        let old = new & (self.mask >> 1);
        let mut segment = std::mem::take(&mut self.segments[old]);
        let is_moved = |wanted: &mut Wanted| self.segment_of(wanted.key()) == new;
        let mut moved: Vec<Wanted> = segment.extract_if(.., is_moved).collect();
        shrink(&mut segment);
        shrink(&mut moved);
        self.segments[old] = segment;
        self.segments[new] = moved;
    }

    fn set_mask(&mut self) {
        self.mask = self.segments.len().next_power_of_two() - 1;
    }

    /// By the lowest bits of the key: one more where that segment is there by now.
    #[inline]
    fn segment_of(&self, Key(key): Key) -> usize {
        let at = key as usize & self.mask;
        if at < self.segments.len() { at } else { at & (self.mask >> 1) }
    }
}

/// Where an entry is in a segment, or would be: near the place that its highest bits say.
#[inline]
fn place(segment: &[Wanted], wanted: Wanted) -> usize {
    let near = (((wanted.0 >> 32) * segment.len() as u64) >> 32) as usize;
    let before = segment[..near].iter().rev().take_while(|&&other| other >= wanted);
    let at = near - before.count();
    at + segment[at..].iter().take_while(|&&other| other < wanted).count()
}

/// Gives memory back that is not needed soon.
fn shrink(segment: &mut Vec<Wanted>) {
    if segment.capacity() >= segment.len() + 2 * SPARE {
        segment.shrink_to(segment.len() + SPARE / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use weir_chance::mix;

    const SHARDS: u16 = 256;

    #[test]
    fn an_entry_says_what_was_put_in() {
        let (key, shard) = (Key::of(0xFEDC_BA98_7654_3210), ShardId(255));
        let wanted = Wanted::new(key, shard);
        assert_eq!((wanted.key(), wanted.shard()), (key, shard));
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
        let largest = set.segments.iter().map(Vec::len).max();
        assert!(largest < Some(8 * SEGMENT), "{largest:?}");
    }
}
