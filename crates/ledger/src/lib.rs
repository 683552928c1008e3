//! The audit of every delivery: a highest sequence and the holes below it, per receiver and
//! publisher.
//!
//! A receiver is a subscriber, or a shared group as a whole. While nothing is missing a pair costs
//! 16 bytes and no allocation.

use std::ops::Range;

/// What a received message is to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first time, and none later has come before it.
    InOrder,
    /// The first time, after a later one.
    AfterLater,
    /// It was here already.
    Again,
}

/// One receiver and one publisher.
#[derive(Clone, Debug, Default)]
struct Track {
    /// One past the highest sequence seen.
    next: u32,
    holes: Option<Box<Holes>>,
}

/// Sorted, apart, below the track's `next`. At most one for every two messages of the pair.
#[derive(Clone, Debug, Default)]
struct Holes {
    ranges: Vec<Range<u32>>,
}

/// Holes remembered in all, 128 MiB of them. A gap beyond is written off: it counts as lost, and
/// what of it comes after all as a duplicate.
const HOLES_MAX: usize = 16 * 1024 * 1024;

/// All pairs of a run, numbered by whoever knows receivers and publishers.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    tracks: Vec<Track>,
    holes: usize,
    written_off: u64,
}

impl Ledger {
    /// A ledger for `pairs` pairs.
    pub fn new(pairs: usize) -> Self {
        let mut tracks = Vec::new();
        tracks.resize_with(pairs, Track::default);
        Self { tracks, holes: 0, written_off: 0 }
    }

    /// Notes that `sequence` arrived.
    #[inline]
    pub fn note(&mut self, pair: usize, sequence: u32) -> Arrival {
        let track = &mut self.tracks[pair];
        if sequence == track.next {
            track.next += 1;
            return Arrival::InOrder;
        }
        if sequence > track.next {
            self.note_gap(pair, sequence);
            return Arrival::InOrder;
        }
        let Some(holes) = track.holes.as_deref_mut() else { return Arrival::Again };
        let before = holes.ranges.len();
        let is_filled = holes.fill(sequence);
        self.holes = self.holes + holes.ranges.len() - before;
        if is_filled { Arrival::AfterLater } else { Arrival::Again }
    }

    #[cold]
    fn note_gap(&mut self, pair: usize, sequence: u32) {
        let track = &mut self.tracks[pair];
        if self.holes < HOLES_MAX {
            self.holes += 1;
            track.holes.get_or_insert_default().ranges.push(track.next..sequence);
        } else {
            self.written_off += u64::from(sequence - track.next);
        }
        track.next = sequence + 1;
    }

    /// Messages missing that are not remembered one by one.
    pub fn written_off(&self) -> u64 {
        self.written_off
    }

    /// The sequences below `sent` that have not arrived.
    pub fn missing(&self, pair: usize, sent: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let track = &self.tracks[pair];
        let holes = track.holes.as_deref();
        let known = holes.into_iter().flat_map(|holes| holes.ranges.iter().cloned());
        let tail = (track.next < sent).then_some(track.next..sent);
        known.chain(tail)
    }

    /// Whether `sequence` has arrived.
    pub fn has(&self, pair: usize, sequence: u32) -> bool {
        let track = &self.tracks[pair];
        sequence < track.next
            && !track
                .holes
                .as_deref()
                .is_some_and(|holes| holes.ranges.iter().any(|range| range.contains(&sequence)))
    }

    /// One past the highest sequence of a pair that arrived, and the holes below.
    pub fn track(&self, pair: usize) -> (u32, &[Range<u32>]) {
        let track = &self.tracks[pair];
        (track.next, track.holes.as_deref().map_or(&[], |holes| &holes.ranges))
    }

    /// The sequences from `from` on that have arrived.
    pub fn arrived(&self, pair: usize, from: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let (next, holes) = self.track(pair);
        let mut start = from;
        let ends = holes.iter().cloned().chain(std::iter::once(next..next));
        ends.filter_map(move |hole| {
            let found = start..hole.start.max(start);
            start = start.max(hole.end);
            (!found.is_empty()).then_some(found)
        })
    }

    /// Adds what another ledger has of the same pair. Returns what both have. Holes must be sorted,
    /// apart and below `next`.
    pub fn merge(&mut self, pair: usize, next: u32, holes: &[Range<u32>]) -> Vec<Range<u32>> {
        let (own_next, own_holes) = self.track(pair);
        let end = next.max(own_next);
        let tail = |next: u32| (next < end).then_some(next..end);
        let own: Vec<Range<u32>> = own_holes.iter().cloned().chain(tail(own_next)).collect();
        let other: Vec<Range<u32>> = holes.iter().cloned().chain(tail(next)).collect();
        let both = intersect(&gaps(&own, end), &gaps(&other, end));
        let missing = intersect(&own, &other);
        self.holes -= own_holes.len();
        let track = &mut self.tracks[pair];
        track.next = end;
        if self.holes + missing.len() > HOLES_MAX {
            self.written_off +=
                missing.iter().map(|hole| u64::from(hole.end - hole.start)).sum::<u64>();
            track.holes = None;
            return both;
        }
        self.holes += missing.len();
        track.holes = (!missing.is_empty()).then(|| Box::new(Holes { ranges: missing }));
        both
    }

    /// Notes messages that another ledger has written off.
    pub fn write_off(&mut self, messages: u64) {
        self.written_off += messages;
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        let holes: usize = self
            .tracks
            .iter()
            .filter_map(|track| track.holes.as_deref())
            .map(|holes| size_of::<Holes>() + holes.ranges.capacity() * 8)
            .sum();
        (self.tracks.capacity() * size_of::<Track>() + holes) as u64
    }
}

impl Holes {
    /// Takes `sequence` out of the holes; says whether it was in one.
    fn fill(&mut self, sequence: u32) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= sequence);
        let Some(range) = self.ranges.get_mut(at) else { return false };
        if sequence < range.start {
            return false;
        }
        let (start, end) = (range.start, range.end);
        match (sequence == start, sequence + 1 == end) {
            (true, true) => {
                self.ranges.remove(at);
            }
            (true, false) => range.start += 1,
            (false, true) => range.end -= 1,
            (false, false) => {
                range.end = sequence;
                self.ranges.insert(at + 1, sequence + 1..end);
            }
        }
        true
    }
}

/// What two sorted lists of ranges have in common.
fn intersect(one: &[Range<u32>], other: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut a, mut b) = (0, 0);
    let mut common = Vec::new();
    while let (Some(left), Some(right)) = (one.get(a), other.get(b)) {
        let range = left.start.max(right.start)..left.end.min(right.end);
        if !range.is_empty() {
            common.push(range);
        }
        if left.end < right.end { a += 1 } else { b += 1 }
    }
    common
}

/// What lies between sorted ranges, below `end`.
fn gaps(ranges: &[Range<u32>], end: u32) -> Vec<Range<u32>> {
    let mut start = 0;
    let ends = ranges.iter().cloned().chain(std::iter::once(end..end));
    let gap = |range: Range<u32>| {
        let gap = start..range.start;
        start = range.end;
        (!gap.is_empty()).then_some(gap)
    };
    ends.filter_map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Any order, with repetitions and omissions, against a set.
        #[test]
        fn the_ledger_agrees_with_a_set(arrivals in prop::collection::vec(0u32..200, 0..400)) {
            let mut ledger = Ledger::new(1);
            let mut seen = BTreeSet::new();
            for sequence in arrivals {
                let expected = match seen.last() {
                    _ if seen.contains(&sequence) => Arrival::Again,
                    Some(&highest) if sequence < highest => Arrival::AfterLater,
                    _ => Arrival::InOrder,
                };
                prop_assert_eq!(ledger.note(0, sequence), expected);
                seen.insert(sequence);
            }
            let missing: Vec<u32> = ledger.missing(0, 200).flatten().collect();
            let expected: Vec<u32> = (0..200).filter(|sequence| !seen.contains(sequence)).collect();
            prop_assert_eq!(missing, expected);
            for sequence in 0..200 {
                prop_assert_eq!(ledger.has(0, sequence), seen.contains(&sequence));
            }
        }
    }

    proptest! {
        /// Two ledgers of the same pair, against two sets.
        #[test]
        fn a_merged_ledger_has_what_either_had(
            one in prop::collection::vec(0u32..60, 0..60),
            other in prop::collection::vec(0u32..60, 0..60),
        ) {
            let (mut ledger, mut elsewhere) = (Ledger::new(1), Ledger::new(1));
            for &sequence in &one {
                ledger.note(0, sequence);
            }
            for &sequence in &other {
                elsewhere.note(0, sequence);
            }
            let (next, holes) = elsewhere.track(0);
            let both: Vec<u32> = ledger.merge(0, next, holes).into_iter().flatten().collect();
            let one: BTreeSet<u32> = one.into_iter().collect();
            let other: BTreeSet<u32> = other.into_iter().collect();
            prop_assert_eq!(both, one.intersection(&other).copied().collect::<Vec<_>>());
            for sequence in 0..60 {
                let is_there = one.contains(&sequence) || other.contains(&sequence);
                prop_assert_eq!(ledger.has(0, sequence), is_there);
            }
            let arrived: Vec<u32> = ledger.arrived(0, 20).flatten().collect();
            let expected = one.union(&other).copied().filter(|&sequence| sequence >= 20);
            prop_assert_eq!(arrived, expected.collect::<Vec<_>>());
        }
    }

    /// The holes of the only pair, and how many of them are counted.
    fn holes(ledger: &Ledger) -> (Vec<(u32, u32)>, usize) {
        let holes = ledger.track(0).1.iter().map(|hole| (hole.start, hole.end));
        (holes.collect(), ledger.holes)
    }

    #[test]
    fn each_hole_is_counted_while_it_is_there() {
        let mut ledger = Ledger::new(1);
        ledger.note(0, 5);
        assert_eq!(holes(&ledger), (vec![(0, 5)], 1));
        ledger.note(0, 2);
        assert_eq!(holes(&ledger), (vec![(0, 2), (3, 5)], 2));
        ledger.note(0, 0);
        ledger.note(0, 4);
        assert_eq!(holes(&ledger), (vec![(1, 2), (3, 4)], 2));
        ledger.note(0, 3);
        assert_eq!(holes(&ledger), (vec![(1, 2)], 1));
        let kept = ledger.tracks[0].holes.as_ref().unwrap().ranges.capacity() as u64;
        assert_eq!(ledger.bytes() - Ledger::new(1).bytes(), 24 + 8 * kept);
        ledger.merge(0, 10, &[0..1, 4..6, 8..9]);
        assert_eq!(holes(&ledger), (vec![(8, 9)], 1));
        ledger.merge(0, 10, &[]);
        assert_eq!(holes(&ledger), (vec![], 0));
    }

    #[test]
    fn gaps_beyond_the_bound_are_written_off_and_no_others() {
        let mut ledger = Ledger { holes: HOLES_MAX - 1, ..Ledger::new(2) };
        ledger.note(0, 3);
        assert_eq!((ledger.written_off(), holes(&ledger)), (0, (vec![(0, 3)], HOLES_MAX)));
        ledger.note(1, 7);
        assert_eq!((ledger.written_off(), ledger.track(1)), (7, (8, &[][..])));
        ledger.note(1, 10);
        assert_eq!(ledger.written_off(), 9);
        assert_eq!(ledger.note(1, 3), Arrival::Again, "what comes of it is a duplicate");
        ledger.write_off(100);
        assert_eq!(ledger.written_off(), 109);
    }

    #[test]
    fn holes_of_two_ledgers_beyond_the_bound_are_written_off_together() {
        let merged = |room: usize| {
            let mut ledger = Ledger { holes: HOLES_MAX - room, ..Ledger::new(1) };
            ledger.merge(0, 9, &[1..3, 5..6]);
            (ledger.written_off(), ledger.track(0).1.len(), ledger.holes)
        };
        // Nobody had 1, 2 and 5: this one has heard nothing at all.
        assert_eq!(merged(2), (0, 2, HOLES_MAX));
        assert_eq!(merged(1), (3, 0, HOLES_MAX - 1));
    }

    #[test]
    fn a_pair_in_good_order_costs_16_bytes() {
        let mut ledger = Ledger::new(10);
        (0..1000).for_each(|sequence| assert_eq!(ledger.note(3, sequence), Arrival::InOrder));
        assert_eq!(ledger.bytes(), 160);
    }
}
