//! The segments of a log: where each record is, and how much of each segment is still wanted.

use crate::bytes::Reader;
use crate::format::frame::Frame;
use crate::format::header::Header;
use crate::format::{RECORDS_AT, Salt};
use crate::{CommitNumber, Lsn, SegmentNumber};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// One place of each so many bytes is known: what has to be read to find a record.
pub(crate) const INDEX_BYTES: u32 = 16 << 10;

/// A segment that is on the disk.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: SegmentNumber,
    /// The last of those that it was merged from.
    pub(crate) covers: SegmentNumber,
    pub(crate) salt: Salt,
    pub(crate) generation: u32,
    /// What its file takes.
    pub(crate) file_bytes: u64,
    /// Behind its last record.
    pub(crate) end: u32,
    pub(crate) records: u32,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) last_commit: CommitNumber,
    /// It gets no more records.
    pub(crate) is_sealed: bool,
    /// Records that somebody refers to.
    pub(crate) live: u32,
    /// Tombstones that are still needed, by where what they stand for may begin.
    tombs: BTreeMap<Lsn, u32>,
    /// What was dead when this was the next record is no longer in it.
    pub(crate) cleaned_at: Lsn,
    /// When nobody needed it any more, the last record was this.
    pub(crate) died_at: Option<Lsn>,
    /// Commits in it begin at multiples of it.
    pub(crate) commit_align: u32,
    /// The tombstones that a start finds in it, by where what they stand for begins.
    pub(crate) found_tombs: Vec<Lsn>,
    /// The records at the front of each part.
    index: Vec<(Lsn, u32)>,
    /// It was looked through, and with so many records live it was not worth writing anew.
    pub(crate) measured_live: u32,
    /// It was written anew with so many records that were needed: it cannot be sparse before one
    /// of them no longer is.
    pub(crate) rewritten_live: u32,
}

impl Segment {
    pub(crate) fn new(header: &Header, file_bytes: u64) -> Self {
        Self {
            number: header.number,
            covers: header.covers,
            salt: header.salt,
            generation: header.generation,
            file_bytes,
            end: RECORDS_AT,
            records: 0,
            first_lsn: header.first_lsn,
            last_lsn: Lsn::ZERO,
            last_commit: CommitNumber(header.first_commit.0.saturating_sub(1)),
            is_sealed: false,
            live: 0,
            tombs: BTreeMap::new(),
            cleaned_at: Lsn::ZERO,
            died_at: None,
            commit_align: header.commit_align,
            found_tombs: Vec::new(),
            index: Vec::new(),
            measured_live: u32::MAX,
            rewritten_live: u32::MAX,
        }
    }

    /// A record of so many bytes is at `offset`, behind all others.
    #[inline]
    pub(crate) fn push(&mut self, lsn: Lsn, offset: u32, bytes: usize) {
        if self.index.last().is_none_or(|&(_, at)| offset - at >= INDEX_BYTES) {
            self.index.push((lsn, offset));
        }
        self.end = offset + bytes as u32;
        self.records += 1;
        self.last_lsn = lsn;
    }

    /// Where to look for a record: from here on.
    fn seek(&self, lsn: Lsn) -> Option<u32> {
        let behind = self.index.partition_point(|&(first, _)| first <= lsn);
        self.index.get(behind.saturating_sub(1)).map(|&(_, offset)| offset)
    }

    pub(crate) fn needed_tombs(&self) -> u32 {
        self.tombs.values().sum()
    }

    /// No tombstone in it is later.
    fn latest_tomb(&self) -> Lsn {
        if self.is_sealed { self.last_lsn } else { Lsn::from_bits(u64::MAX) }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.live == 0 && self.tombs.is_empty()
    }
}

/// Where a record is, as far as the table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) segment: SegmentNumber,
    pub(crate) salt: Salt,
    /// From here on.
    pub(crate) offset: u32,
    /// Behind the segment's last record.
    pub(crate) end: u32,
    /// No record in the segment is higher, or was.
    pub(crate) last_lsn: Lsn,
    pub(crate) commit_align: u32,
}

/// All segments, the one that is written last at the end.
#[derive(Debug)]
pub(crate) struct Segments {
    all: Vec<Segment>,
    /// References beyond the first, of records that have several.
    shared: HashMap<Lsn, u32, FixedState>,
}

impl Segments {
    pub(crate) fn new(seed: u64) -> Self {
        let shared = HashMap::with_hasher(FixedState::with_seed(seed));
        Self { all: Vec::new(), shared }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.all.iter()
    }

    /// A segment with higher records than all others.
    pub(crate) fn push(&mut self, segment: Segment) {
        debug_assert!(self.all.last().is_none_or(|last| last.covers < segment.number));
        self.all.push(segment);
    }

    pub(crate) fn active(&self) -> &Segment {
        self.all.last().expect("an open log has a segment")
    }

    pub(crate) fn active_mut(&mut self) -> &mut Segment {
        self.all.last_mut().expect("an open log has a segment")
    }

    fn position(&self, lsn: Lsn) -> Option<usize> {
        self.all.partition_point(|segment| segment.first_lsn <= lsn).checked_sub(1)
    }

    /// The segment that has the record, or had it.
    pub(crate) fn of(&self, lsn: Lsn) -> Option<&Segment> {
        self.position(lsn).map(|at| &self.all[at])
    }

    pub(crate) fn get(&self, number: SegmentNumber) -> Option<&Segment> {
        self.at(number).map(|at| &self.all[at])
    }

    pub(crate) fn get_mut(&mut self, number: SegmentNumber) -> Option<&mut Segment> {
        self.at(number).map(|at| &mut self.all[at])
    }

    fn at(&self, number: SegmentNumber) -> Option<usize> {
        self.all.binary_search_by_key(&number, |segment| segment.number).ok()
    }

    /// Where to look for a record, or for the first one behind it.
    pub(crate) fn seek(&self, lsn: Lsn) -> Option<Whereabouts> {
        let from = self.position(lsn).unwrap_or(0);
        let later = self.all.get(from..)?;
        later.iter().filter(|segment| segment.records > 0 && segment.last_lsn >= lsn).find_map(
            |segment| {
                let offset = segment.seek(lsn)?;
                let Segment { number, salt, end, last_lsn, commit_align, .. } = *segment;
                Some(Whereabouts { segment: number, salt, offset, end, last_lsn, commit_align })
            },
        )
    }

    /// Somebody refers to a record that nobody has referred to, so many times.
    pub(crate) fn adopt(&mut self, lsn: Lsn, references: u32) {
        if references == 0 {
            return;
        }
        if let Some(at) = self.position(lsn) {
            self.all[at].live += 1;
        }
        self.note_references(lsn, references);
    }

    /// A record has so many references; that it is live is counted elsewhere.
    pub(crate) fn note_references(&mut self, lsn: Lsn, references: u32) {
        if references > 1 {
            self.shared.insert(lsn, references - 1);
        }
    }

    /// One more refers to a record that somebody refers to.
    pub(crate) fn share(&mut self, lsn: Lsn) {
        *self.shared.entry(lsn).or_insert(0) += 1;
    }

    /// One less refers to a record. Says whether it was the last.
    pub(crate) fn release_shared(&mut self, lsn: Lsn) -> bool {
        let Some(more) = self.shared.get_mut(&lsn) else { return true };
        *more -= 1;
        if *more == 0 {
            self.shared.remove(&lsn);
        }
        false
    }

    /// Nobody refers to a record any more.
    pub(crate) fn release(&mut self, lsn: Lsn) {
        if let Some(at) = self.position(lsn) {
            debug_assert!(self.all[at].live > 0, "{lsn} was released more often than held");
            self.all[at].live = self.all[at].live.saturating_sub(1);
        }
    }

    /// Nobody refers to a record of the segments that end before this one.
    pub(crate) fn forget(&mut self, before: Lsn) {
        let is_over = |segment: &&mut Segment| segment.is_sealed && segment.last_lsn < before;
        for segment in self.all.iter_mut().filter(is_over) {
            segment.live = 0;
            segment.tombs.clear();
        }
    }

    /// A tombstone is in a segment. It is needed if an older segment may have what it stands for.
    pub(crate) fn bury(&mut self, tomb: SegmentNumber, since: Lsn) {
        let Some(at) = self.at(tomb) else { return };
        let (older, rest) = self.all.split_at(at);
        if !is_needed(older, rest[0].latest_tomb(), since) {
            return;
        }
        // By the segment, so that there are few different ones.
        let from = self.of(since).map_or(Lsn::ZERO, |segment| segment.first_lsn);
        *self.all[at].tombs.entry(from).or_insert(0) += 1;
    }

    /// Whether a segment before this one may still have what a tombstone stands for, which begins
    /// at `since`.
    pub(crate) fn is_tomb_needed(&self, before: SegmentNumber, tomb: Lsn, since: Lsn) -> bool {
        let count = self.all.partition_point(|segment| segment.number < before);
        is_needed(&self.all[..count], tomb, since)
    }

    /// Lays down the tombstones that nothing needs any more.
    pub(crate) fn forget_tombs(&mut self) {
        for at in 0..self.all.len() {
            let (older, rest) = self.all.split_at_mut(at);
            let latest = rest[0].latest_tomb();
            rest[0].tombs.retain(|&since, _| is_needed(older, latest, since));
        }
    }

    /// Takes a segment out.
    pub(crate) fn remove(&mut self, number: SegmentNumber) -> Option<Segment> {
        self.at(number).map(|at| self.all.remove(at))
    }

    /// Puts a segment in the place of those that it was made of.
    pub(crate) fn replace(&mut self, mut segment: Segment) {
        let is_source = |one: &Segment| (segment.number..=segment.covers).contains(&one.number);
        let from = self.all.iter().position(is_source).unwrap_or(self.all.len());
        let count = self.all[from..].iter().take_while(|one| is_source(one)).count();
        segment.live = self.all.drain(from..from + count).map(|source| source.live).sum();
        self.all.insert(from, segment);
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.all.iter().map(|segment| segment.file_bytes).sum()
    }
}

/// What was dead when a segment was cleaned is no longer in it; what a tombstone stands for was
/// dead when it was written.
fn is_needed(older: &[Segment], tomb: Lsn, since: Lsn) -> bool {
    older.iter().any(|other| other.last_lsn >= since && other.cleaned_at <= tomb)
}

/// Where what a tombstone stands for begins: the first of its head.
pub(crate) fn since_of(frame: &Frame<'_>) -> Option<Lsn> {
    if !frame.is_tomb {
        return None;
    }
    Reader(frame.head).u64().map(Lsn::from_bits)
}
