//! The log of one shard as a value: it takes records, and says what is to be written where.
//!
//! It does no I/O. Whoever has the [`Disk`](crate::Disk) performs a [`Commit`] at a time, and tells
//! the log when it is done. Between commits there are chores: spares, footers, segments that nobody
//! needs or that hardly anybody needs.

mod chores;
mod read;
mod recover;
mod rewrite;

pub use read::{Page, Read};
pub use recover::{Found, NotOpened, OnDamage, Scan};

use crate::commit::{Commit, Opening, Sync};
use crate::format::Salt;
use crate::format::footer::{FOOTER_FIXED, Footer};
use crate::format::frame::{self, FRAME_BYTES, Frame, HEAD_BYTES_MAX, SINCE_BYTES};
use crate::format::header::Header;
use crate::format::seal::Seal;
use crate::record::{Body, CLOSING, Kind};
use crate::segments::{Segment, Segments, since_of};
use crate::{CommitNumber, Lsn, Settings};
use chores::Chores;
use std::collections::VecDeque;
use weir_chance::Chance;

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAppended {
    /// It does not fit into a segment.
    #[error("a record of {bytes} bytes is longer than {bytes_max} bytes, which fit into a segment")]
    TooLong {
        /// What it has.
        bytes: usize,
        /// What it may have.
        bytes_max: usize,
    },
    /// Too much waits for the disk.
    #[error("more than {bytes_max} bytes wait for the disk")]
    Full {
        /// What may wait.
        bytes_max: usize,
    },
}

/// The log of one shard.
#[derive(Debug)]
pub struct Log {
    settings: Settings,
    segments: Segments,
    /// Of the segment that is written.
    footer: Footer,
    chance: Chance,
    /// Records that wait for their commit, one behind the other.
    pending: Vec<u8>,
    /// Whether somebody refers to each of them.
    pending_live: VecDeque<bool>,
    /// Of a commit that is done: the next has its memory.
    free: Vec<u8>,
    next_lsn: Lsn,
    next_commit: CommitNumber,
    is_committing: bool,
    durable: Lsn,
    /// Up to here a sync was performed, if commits are not synced themselves.
    synced: Lsn,
    chores: Chores,
}

impl Log {
    /// A log whose last segment is open and empty.
    fn new(
        settings: Settings,
        segments: Segments,
        chores: Chores,
        chance: Chance,
        next_commit: CommitNumber,
    ) -> Self {
        let next_lsn = segments.active().first_lsn;
        let before = Lsn::from_bits(next_lsn.bits() - 1);
        Self {
            settings,
            segments,
            footer: Footer::default(),
            chance,
            pending: Vec::new(),
            pending_live: VecDeque::new(),
            free: Vec::new(),
            next_lsn,
            next_commit,
            is_committing: false,
            durable: before,
            synced: before,
            chores,
        }
    }

    /// Takes a record that so many refer to, and gives it its number. It is safe when
    /// [`Log::durable`] has reached that.
    pub fn append(
        &mut self,
        kind: Kind,
        body: Body<'_>,
        references: u32,
    ) -> Result<Lsn, NotAppended> {
        assert!((1..128).contains(&kind), "a kind is from 1 to 127");
        self.put(kind, None, body, references)
    }

    /// Takes a record that stands for others that are gone, so that they do not come back while
    /// they are still on the disk: all about the same thing from `since` on, which is the first one
    /// behind that thing's last tombstone. The log keeps it for as long as it takes; nobody refers
    /// to it.
    pub fn append_tombstone(
        &mut self,
        kind: Kind,
        since: Lsn,
        body: Body<'_>,
    ) -> Result<Lsn, NotAppended> {
        assert!((1..128).contains(&kind), "a kind is from 1 to 127");
        self.put(kind, Some(since), body, 0)
    }

    #[inline]
    fn put(
        &mut self,
        kind: Kind,
        since: Option<Lsn>,
        Body { head, tail }: Body<'_>,
        references: u32,
    ) -> Result<Lsn, NotAppended> {
        let bytes = head.len() + tail.len() + if since.is_some() { SINCE_BYTES } else { 0 };
        let bytes_max = self.settings.body_bytes_max();
        if bytes > bytes_max || head.len() > HEAD_BYTES_MAX - SINCE_BYTES {
            return Err(NotAppended::TooLong { bytes, bytes_max });
        }
        let bytes_max = self.settings.pending_bytes_max;
        if !self.pending.is_empty() && self.pending.len() + FRAME_BYTES + bytes > bytes_max {
            return Err(NotAppended::Full { bytes_max });
        }
        let lsn = self.next_lsn;
        self.next_lsn = lsn.next();
        Frame::put(&mut self.pending, lsn, kind, since, [head, tail]);
        self.pending_live.push_back(references > 0);
        self.segments.note_references(lsn, references);
        Ok(lsn)
    }

    /// One more refers to a record that somebody refers to.
    pub fn share(&mut self, lsn: Lsn) {
        self.segments.share(lsn);
    }

    /// So many refer to a record that a start has found.
    pub fn adopt(&mut self, lsn: Lsn, references: u32) {
        self.segments.adopt(lsn, references);
    }

    /// One less refers to a record. What nobody refers to goes away in time.
    pub fn release(&mut self, lsn: Lsn) {
        if !self.segments.release_shared(lsn) {
            return;
        }
        match self.pending_at(lsn) {
            Some(at) => self.pending_live[at] = false,
            None => self.segments.release(lsn),
        }
    }

    /// Nobody refers to any record before this one any more: the segments that end before it go.
    /// What made that so has to be committed.
    pub fn forget(&mut self, before: Lsn) {
        self.segments.forget(before);
    }

    fn pending_at(&self, lsn: Lsn) -> Option<usize> {
        let back = self.next_lsn.bits().checked_sub(lsn.bits())? as usize;
        self.pending_live.len().checked_sub(back)
    }

    /// Every record up to here is safe: those of earlier starts, too.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// Every record up to here is safe from a power cut: as far as [`Log::durable`], unless commits
    /// are not synced.
    pub fn synced(&self) -> Lsn {
        if self.settings.is_synced { self.durable } else { self.synced }
    }

    /// A sync of what was committed, if commits are not synced themselves and something was.
    pub fn take_sync(&self) -> Option<Sync> {
        let segment = self.segments.active().number;
        (self.synced() < self.durable).then_some(Sync { segment, last: self.durable })
    }

    /// The sync was performed.
    pub fn sync_done(&mut self, sync: &Sync) {
        self.synced = self.synced.max(sync.last);
    }

    /// The number that the next record will have.
    pub fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// Bytes that wait for a commit.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Whether a commit is on its way.
    pub fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// The next commit, if something waits and no other is on its way. Nothing comes either while
    /// the segment is full and no spare is ready.
    pub fn take_commit(&mut self) -> Option<Commit> {
        if self.is_committing || self.pending.is_empty() {
            return None;
        }
        let mut opening = None;
        let (mut bytes, mut records) = self.fitting();
        if records == 0 {
            opening = Some(self.open_next()?);
            (bytes, records) = self.fitting();
            assert!(records > 0, "a record that was taken fits into a segment");
        }
        self.is_committing = true;
        let number = self.next_commit;
        self.next_commit = number.next();
        let mut taken = std::mem::take(&mut self.free);
        taken.clear();
        if bytes == self.pending.len() {
            std::mem::swap(&mut taken, &mut self.pending);
        } else {
            taken.extend_from_slice(&self.pending[..bytes]);
            self.pending.drain(..bytes);
        }
        let (offset, last) = self.place(&mut taken, records, number);
        Some(Commit {
            number,
            segment: self.segments.active().number,
            offset,
            bytes: taken,
            last,
            opening,
            is_synced: self.settings.is_synced,
        })
    }

    /// Whether the last commit is not yet known to have been whole: [`Log::take_closing`].
    pub fn wants_closing(&self) -> bool {
        self.segments.active().records > 0 && !self.chores.is_closed
    }

    /// A commit of one empty record, if nothing waits: the commit before it is then known to have
    /// been whole, whatever becomes of its bytes. For when there is nothing else to do.
    pub fn take_closing(&mut self) -> Option<Commit> {
        if self.is_committing || !self.pending.is_empty() || !self.wants_closing() {
            return None;
        }
        self.put(CLOSING, None, Body::default(), 0).ok()?;
        let commit = self.take_commit();
        self.chores.is_closed = commit.is_some();
        commit
    }

    /// The commit was performed. Returns up to where all is safe now.
    pub fn committed(&mut self, commit: Commit) -> Lsn {
        assert!(self.is_committing, "no commit was on its way");
        self.is_committing = false;
        self.durable = commit.last;
        self.free = commit.bytes;
        // What a burst has left is given back by the commits behind it.
        shrink(&mut self.free);
        shrink(&mut self.pending);
        self.durable
    }

    /// How much of what waits goes into the segment, and how many records that is: whole groups,
    /// unless a segment with nothing else in it has no room for the first.
    fn fitting(&self) -> (usize, usize) {
        let active = self.segments.active();
        let footer = self.footer.bytes() + FOOTER_FIXED;
        let room = (self.settings.segment_bytes - self.commit_offset()) as usize;
        let bytes_max = self.settings.commit_bytes_max as usize;
        let (mut bytes, mut records) = (0, 0);
        let mut whole = (0, 0);
        while let Some(length) = frame::length_at(&self.pending[bytes..]) {
            if self.settings.begins_group(frame::kind_at(&self.pending[bytes..])) {
                whole = (bytes, records);
            }
            // An empty segment takes every record, if need be without a footer.
            let is_first = active.records == 0 && records == 0;
            let needed = bytes + length + if is_first { 0 } else { footer };
            if needed > room {
                let is_divided = whole.1 == 0 && active.records == 0;
                return if is_divided { (bytes, records) } else { whole };
            }
            if whole.1 > 0 && bytes + length > bytes_max {
                return whole;
            }
            bytes += length;
            records += 1;
        }
        (bytes, records)
    }

    fn commit_offset(&self) -> u32 {
        self.segments
            .active()
            .end
            .next_multiple_of(self.settings.commit_align)
            .min(self.settings.segment_bytes)
    }

    /// Gives the records of a commit their place in the segment. Says where it is, and the last.
    fn place(&mut self, bytes: &mut [u8], records: usize, number: CommitNumber) -> (u32, Lsn) {
        let offset = self.commit_offset();
        let footer_bytes_max = self.settings.footer_bytes_max();
        let active = self.segments.active();
        let (salt, segment) = (active.salt, active.number);
        let mut at = 0;
        let mut last = Lsn::ZERO;
        self.chores.is_closed = false;
        for index in 0..records {
            let length = frame::length_at(&bytes[at..]).expect("it was put there");
            let record = &mut bytes[at..at + length];
            frame::assign(record, number, index + 1 == records);
            frame::seal(record, salt);
            let record = Frame::fields(record).expect("it was put there");
            self.footer.push(&record, offset + at as u32, footer_bytes_max);
            last = record.lsn;
            let is_live = self.pending_live.pop_front().expect("one for each record");
            let since = since_of(&record);
            let active = self.segments.active_mut();
            active.push(record.lsn, offset + at as u32, length);
            active.live += u32::from(is_live);
            if let Some(since) = since {
                self.segments.bury(segment, since);
            }
            at += length;
        }
        self.segments.active_mut().last_commit = number;
        (offset, last)
    }

    /// Goes on to the next segment, if a spare is ready for it.
    fn open_next(&mut self) -> Option<Box<Opening>> {
        let spare = self.chores.take_spare()?;
        let footer = std::mem::take(&mut self.footer);
        let segment_bytes = self.settings.segment_bytes;
        let active = self.segments.active_mut();
        active.is_sealed = true;
        let sealed = (active.number, active.seal().encode(active.salt));
        // It does not touch a sector with records if the disk may harm what is beside a write.
        let footer_at = active.end.next_multiple_of(active.commit_align);
        if let Some(bytes) = footer.encode(active.salt)
            && active.records > 0
            && footer_at as usize + bytes.len() <= segment_bytes as usize
        {
            self.chores.footer = Some((active.number, footer_at, bytes));
        }
        let number = active.covers.next();
        let first_lsn = Frame::fields(&self.pending).map_or(self.next_lsn, |record| record.lsn);
        let header = Header {
            shard: self.settings.shard,
            is_synced: self.settings.is_synced,
            number,
            covers: number,
            salt: Salt::new(self.chance.bits()),
            first_lsn,
            first_commit: self.next_commit,
            generation: 0,
            commit_align: self.settings.commit_align,
            store: self.settings.store,
            file_bytes: self.settings.segment_bytes,
        };
        self.segments.push(Segment::new(&header, u64::from(segment_bytes)));
        Some(Box::new(Opening { sealed: Some(sealed), spare, header: header.encode() }))
    }
}

/// Memory for records that is kept whatever is in it.
const KEPT_BYTES: usize = 64 << 10;

/// Gives back what is under a quarter full.
fn shrink(records: &mut Vec<u8>) {
    if records.capacity() > KEPT_BYTES && records.len() < records.capacity() / 4 {
        records.shrink_to(KEPT_BYTES.max(records.len() * 2));
    }
}

impl Segment {
    pub(crate) fn seal(&self) -> Seal {
        Seal {
            end: self.end,
            records: self.records,
            last_lsn: self.last_lsn,
            last_commit: self.last_commit,
        }
    }
}
