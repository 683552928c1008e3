//! Segments of which little is still wanted are written anew, with the same records under the same
//! numbers: first they are looked through, then what is wanted is copied, a slice at a time.

use super::Log;
use crate::chore::{Replacement, Work};
use crate::format::footer::Footer;
use crate::format::frame::{self, Frame};
use crate::format::header::Header;
use crate::format::{RECORDS_AT, Salt};
use crate::record::{CLOSING, Damage, Record};
use crate::segments::{Segment, since_of};
use crate::settings::SLICE_BYTES;
use crate::walk::{Ended, Walk};
use crate::{Lsn, SegmentNumber};

/// A segment is worth writing anew if less than one part of so many is wanted.
const SPARSE_PARTS: u32 = 4;
/// What else is in the way when the disk is short: a part of so many that is not wanted.
const SHORT_PARTS: u32 = 4;
/// So many neighbours of which none has a quarter of a segment become one.
const SMALL_NEIGHBOURS: usize = 4;
/// Segments that become one.
const SOURCES_MAX: usize = 8;

/// A rewriting that is under way.
#[derive(Debug)]
pub(crate) struct Rewrite {
    sources: Vec<SegmentNumber>,
    /// The one that is read, and where.
    source: usize,
    read_at: u32,
    /// What the next read takes, if a record is longer than a slice.
    read_bytes: u32,
    phase: Phase,
    /// What is wanted.
    kept_bytes: u32,
    footer: Footer,
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Measure,
    Create,
    Copy,
    /// Until all is safe that made records unwanted: up to here.
    Replace(Lsn),
}

/// The new file.
#[derive(Debug)]
struct Output {
    file: u64,
    header: Header,
    segment: Segment,
    /// The slice that is to be written.
    slice: Vec<u8>,
    slice_at: u32,
    /// What was not wanted before this is not in it.
    decided_at: Lsn,
}

impl Rewrite {
    fn new(sources: Vec<SegmentNumber>) -> Self {
        Self {
            sources,
            source: 0,
            read_at: RECORDS_AT,
            read_bytes: SLICE_BYTES,
            phase: Phase::Measure,
            kept_bytes: 0,
            footer: Footer::default(),
            output: None,
        }
    }

    pub(crate) fn has(&self, number: SegmentNumber) -> bool {
        self.sources.contains(&number)
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.output.as_ref().map_or(0, |output| output.segment.file_bytes)
    }
}

impl Log {
    /// The next step of a rewriting, of a new one if need be.
    pub(crate) fn rewriting(&mut self) -> Option<Work> {
        if self.chores.rewrite.is_none() {
            if self.chores.is_rewrite_refused {
                return None;
            }
            let sources = self.sparse().or_else(|| self.small())?;
            self.chores.rewrite = Some(Rewrite::new(sources));
        }
        let synced = self.synced();
        let rewrite = self.chores.rewrite.as_mut()?;
        if let Some(output) = &mut rewrite.output
            && !output.slice.is_empty()
        {
            let bytes = std::mem::take(&mut output.slice);
            return Some(Work::Write { file: output.file, offset: output.slice_at, bytes });
        }
        match rewrite.phase {
            Phase::Measure | Phase::Copy => self.reading(),
            Phase::Create => Some(self.creating()),
            Phase::Replace(known) if synced >= known => self.replacing(),
            Phase::Replace(_) => None,
        }
    }

    /// A part of a step was performed.
    pub(crate) fn rewritten(
        &mut self,
        work: Work,
        is_wanted: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<(), Damage> {
        match work {
            Work::Read { bytes, .. } => return self.look_through(&bytes, is_wanted),
            Work::Create { is_refused: true, .. } => {
                self.chores.rewrite = None;
                self.chores.is_rewrite_refused = true;
            }
            Work::Create { .. } => {
                if let Some(rewrite) = &mut self.chores.rewrite {
                    rewrite.phase = Phase::Copy;
                    (rewrite.source, rewrite.read_at) = (0, RECORDS_AT);
                    (rewrite.kept_bytes, rewrite.footer) = (0, Footer::default());
                }
            }
            Work::Write { bytes, .. } => self.chores.rewritten_bytes += bytes.len() as u64,
            Work::Replace(_) => self.replaced(),
            Work::Zeros { .. } | Work::Footer { .. } | Work::Recycle { .. } => {}
        }
        Ok(())
    }

    /// A segment of which little is wanted, with those after it of which the same is true.
    fn sparse(&self) -> Option<Vec<SegmentNumber>> {
        let is_short = self.is_short();
        let is_sparse = |segment: &Segment| {
            let live = u64::from(segment.live + segment.needed_tombs());
            let records = u64::from(segment.records);
            let is_sparse = if is_short {
                live * u64::from(SHORT_PARTS) < records * u64::from(SHORT_PARTS - 1)
            } else {
                live * u64::from(SPARSE_PARTS) < records
            };
            segment.is_sealed
                && is_sparse
                && !segment.is_dead()
                && live < segment.measured_live.into()
                && live < segment.rewritten_live.into()
        };
        self.neighbours(is_sparse, 1)
    }

    fn small(&self) -> Option<Vec<SegmentNumber>> {
        let small = u64::from(self.settings.segment_bytes / SPARSE_PARTS);
        let is_small = |segment: &Segment| {
            segment.is_sealed
                && segment.file_bytes <= small
                && !segment.is_dead()
                && segment.live + segment.needed_tombs() < segment.measured_live
        };
        self.neighbours(is_small, SMALL_NEIGHBOURS)
    }

    /// At least `count` segments in a row that are of a kind and fit into half a segment.
    fn neighbours(
        &self,
        is_kind: impl Fn(&Segment) -> bool,
        count: usize,
    ) -> Option<Vec<SegmentNumber>> {
        let bytes_max = u64::from(self.settings.segment_bytes) / 2;
        let (mut run, mut bytes) = (Vec::new(), 0);
        for segment in self.segments.iter() {
            let live = u64::from(segment.live + segment.needed_tombs());
            let wanted = u64::from(segment.end) * live / u64::from(segment.records.max(1));
            let fits = run.is_empty() || bytes + wanted <= bytes_max;
            if is_kind(segment) && fits && run.len() < SOURCES_MAX {
                run.push(segment.number);
                bytes += wanted;
            } else if run.len() >= count {
                break;
            } else {
                run.clear();
                bytes = 0;
                if is_kind(segment) {
                    run.push(segment.number);
                    bytes = wanted;
                }
            }
        }
        (run.len() >= count).then_some(run)
    }

    fn reading(&mut self) -> Option<Work> {
        let rewrite = self.chores.rewrite.as_mut()?;
        let number = rewrite.sources[rewrite.source];
        let segment = self.segments.get(number)?;
        let count = rewrite.read_bytes.min(segment.end - rewrite.read_at);
        let bytes = vec![0; count as usize];
        Some(Work::Read { segment: number, offset: rewrite.read_at, bytes })
    }

    /// What was read of a source is looked through; when copying, what is wanted is taken.
    fn look_through(
        &mut self,
        bytes: &[u8],
        mut is_wanted: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<(), Damage> {
        let footer_bytes_max = self.settings.footer_bytes_max();
        let Some(mut rewrite) = self.chores.rewrite.take() else { return Ok(()) };
        let number = rewrite.sources[rewrite.source];
        let Some(segment) = self.segments.get(number) else { return Ok(()) };
        let end = segment.end;
        let mut walk = Walk::new(bytes, rewrite.read_at, segment.salt, segment.commit_align);
        for (offset, frame) in walk.by_ref() {
            let record = Record::of(&frame, number, offset);
            if self.is_kept(&frame, &record, rewrite.sources[0], &mut is_wanted) {
                let at = (offset - rewrite.read_at) as usize;
                let placed = RECORDS_AT + rewrite.kept_bytes;
                rewrite.footer.push(&frame, placed, footer_bytes_max);
                rewrite.kept_bytes += frame.bytes() as u32;
                if let Some(output) = &mut rewrite.output {
                    output.take(&bytes[at..at + frame.bytes()], frame.lsn);
                    if let Some(since) = since_of(&frame) {
                        output.segment.found_tombs.push(since);
                    }
                }
            }
        }
        rewrite.read_bytes = match walk.ended() {
            Ended::Whole => SLICE_BYTES,
            Ended::Cut(length) if walk.offset() + length as u32 <= end => {
                SLICE_BYTES.max(length as u32)
            }
            Ended::Cut(_) | Ended::Bad => {
                self.give_up(rewrite);
                return Err(Damage { segment: number, offset: walk.offset() });
            }
        };
        rewrite.read_at = walk.offset();
        if rewrite.read_at >= end {
            rewrite.source += 1;
            rewrite.read_at = RECORDS_AT;
        }
        if rewrite.source == rewrite.sources.len() {
            self.looked_through(rewrite);
        } else {
            self.chores.rewrite = Some(rewrite);
        }
        Ok(())
    }

    fn is_kept(
        &self,
        frame: &Frame<'_>,
        record: &Record<'_>,
        oldest: SegmentNumber,
        is_wanted: &mut impl FnMut(&Record<'_>) -> bool,
    ) -> bool {
        match since_of(frame) {
            _ if frame.kind == CLOSING => false,
            Some(since) => self.segments.is_tomb_needed(oldest, frame.lsn, since),
            None => is_wanted(record),
        }
    }

    fn looked_through(&mut self, mut rewrite: Rewrite) {
        if rewrite.phase == Phase::Copy {
            rewrite.phase = Phase::Replace(Lsn::from_bits(self.next_lsn.bits() - 1));
            self.chores.rewrite = Some(rewrite);
            return;
        }
        let read: u64 = rewrite
            .sources
            .iter()
            .filter_map(|&source| self.segments.get(source))
            .map(|segment| segment.file_bytes)
            .sum();
        let room = self.settings.segment_bytes - RECORDS_AT;
        let worth = if self.is_short() { read / 4 * 3 } else { read / 2 };
        let is_worth = u64::from(rewrite.kept_bytes) < worth || rewrite.sources.len() > 1;
        if rewrite.kept_bytes <= room && is_worth {
            rewrite.phase = Phase::Create;
            self.chores.rewrite = Some(rewrite);
        } else {
            self.give_up(rewrite);
        }
    }

    /// The sources are left alone until half of what is wanted of them no longer is.
    fn give_up(&mut self, rewrite: Rewrite) {
        for source in rewrite.sources {
            if let Some(segment) = self.segments.get_mut(source) {
                segment.measured_live = (segment.live + segment.needed_tombs()) / 2;
            }
        }
    }

    fn creating(&mut self) -> Work {
        let rewrite = self.chores.rewrite.as_mut().expect("it is under way");
        let file = self.chores.next_file;
        self.chores.next_file += 1;
        let salt = Salt::new(self.chance.bits());
        let sources = &rewrite.sources;
        let first = self.segments.get(sources[0]).expect("a source stays");
        let last = self.segments.get(sources[sources.len() - 1]).expect("a source stays");
        let footer = rewrite.footer.encode(salt).map_or(0, |bytes| bytes.len() as u32);
        let bytes = (RECORDS_AT + rewrite.kept_bytes + footer).next_multiple_of(RECORDS_AT);
        let header = Header {
            shard: self.settings.shard,
            is_synced: true,
            number: first.number,
            covers: last.covers,
            salt,
            first_lsn: first.first_lsn,
            first_commit: first.last_commit,
            generation: first.generation + 1,
            commit_align: 1,
            store: self.settings.store,
            file_bytes: bytes,
        };
        let mut segment = Segment::new(&header, bytes.into());
        (segment.is_sealed, segment.last_commit) = (true, last.last_commit);
        segment.cleaned_at = self.next_lsn;
        rewrite.output = Some(Output {
            file,
            header,
            segment,
            slice: Vec::new(),
            slice_at: RECORDS_AT,
            decided_at: self.next_lsn,
        });
        Work::Create { file, bytes: bytes.into(), is_refused: false }
    }

    fn replacing(&mut self) -> Option<Work> {
        let rewrite = self.chores.rewrite.as_mut()?;
        let last = *rewrite.sources.last()?;
        let last_lsn = self.segments.get(last)?.last_lsn;
        let output = rewrite.output.as_mut()?;
        let segment = &mut output.segment;
        // The tombstones that were left out were as late as this.
        segment.last_lsn = last_lsn;
        let bytes_max = segment.file_bytes - u64::from(segment.end);
        let footer = rewrite.footer.encode(segment.salt);
        let footer = footer.filter(|bytes| bytes.len() as u64 <= bytes_max);
        Some(Work::Replace(Box::new(Replacement {
            file: output.file,
            number: segment.number,
            header: output.header.encode(),
            seal: segment.seal().encode(segment.salt),
            footer: footer.map(|bytes| (segment.end, bytes)),
            covered: rewrite.sources[1..].to_vec(),
        })))
    }

    fn replaced(&mut self) {
        let Some(Rewrite { output: Some(output), sources, .. }) = self.chores.rewrite.take() else {
            return;
        };
        if self.chores.footer.as_ref().is_some_and(|footer| sources.contains(&footer.0)) {
            self.chores.footer = None;
        }
        let mut segment = output.segment;
        segment.cleaned_at = output.decided_at;
        let (number, tombs) = (segment.number, std::mem::take(&mut segment.found_tombs));
        self.segments.replace(segment);
        tombs.into_iter().for_each(|since| self.segments.bury(number, since));
        self.segments.forget_tombs();
        if let Some(segment) = self.segments.get_mut(number) {
            segment.rewritten_live = segment.live + segment.needed_tombs();
        }
        self.retry_space();
    }
}

impl Output {
    fn take(&mut self, bytes: &[u8], lsn: Lsn) {
        if self.slice.is_empty() {
            self.slice_at = self.segment.end;
        }
        let at = self.slice.len();
        self.slice.extend_from_slice(bytes);
        frame::seal(&mut self.slice[at..], self.header.salt);
        self.segment.push(lsn, self.segment.end, bytes.len());
    }
}
