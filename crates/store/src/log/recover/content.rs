//! What is in a segment: in a sealed one all that its seal says, in the last one whole commits.

use super::{Content, Known, Opener, Scan};
use crate::CommitNumber;
use crate::Lsn;
use crate::disk::{Disk, FileName};
use crate::format::footer;
use crate::format::frame::{self, FRAME_BYTES, Frame, LENGTH_BYTES};
use crate::format::header::Header;
use crate::format::seal::{SEAL_AT, Seal};
use crate::format::{RECORDS_AT, SECTOR, Salt};
use crate::log::NotOpened;
use crate::record::{CLOSING, Record};
use crate::segments::{Segment, since_of};
use crate::walk::{Ended, Walk};

impl<D: Disk, T: FnMut(&Record<'_>)> Opener<'_, D, T> {
    /// Reads a segment, and tells of its records.
    pub(super) fn segment(&mut self, known: &Known, is_tail: bool) -> Result<Content, NotOpened> {
        let Known { header, file_bytes } = known;
        let name = FileName::Segment(header.number);
        let mut sector = [0; SECTOR];
        self.disk.read_at(name, SEAL_AT, &mut sector)?;
        let seal = Seal::decode(&sector, header.salt)
            .filter(|seal| (u64::from(RECORDS_AT)..=*file_bytes).contains(&seal.end.into()));
        let mut segment = Segment::new(header, *file_bytes);
        segment.is_sealed = seal.is_some();
        self.found.segments += 1;
        if *file_bytes < header.file_bytes.into() {
            self.damaged(header.number, *file_bytes as u32)?;
        }
        if seal.is_none() && !is_tail {
            self.damaged(header.number, SEAL_AT as u32)?;
        }
        if let Some(seal) = seal
            && !is_tail
            && self.scan == Scan::Heads
            && self.told_by_footer(&mut segment, &seal)?
        {
            return Ok(Content { bytes: Vec::new(), segment });
        }
        let end = seal.map_or(*file_bytes, |seal| seal.end.into());
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.resize(end as usize, 0);
        let count = self.disk.read_at(name, 0, &mut bytes)?;
        bytes.truncate(count);
        self.found.read_bytes += count as u64;
        let behind = match seal {
            Some(seal) => self.sealed(&bytes, &mut segment, &seal)?,
            None => self.tail(&bytes, &mut segment, header)?,
        };
        bytes.truncate(behind);
        Ok(Content { bytes, segment })
    }

    /// Tells of the records of a sealed segment: of all, or it is damaged.
    fn sealed(
        &mut self,
        bytes: &[u8],
        segment: &mut Segment,
        seal: &Seal,
    ) -> Result<usize, NotOpened> {
        let records = bytes.get(RECORDS_AT as usize..).unwrap_or(&[]);
        let mut walk = Walk::new(records, RECORDS_AT, segment.salt, segment.commit_align);
        loop {
            for (offset, frame) in walk.by_ref() {
                self.record(segment, offset, &frame);
            }
            if walk.ended() == Ended::Whole {
                break;
            }
            let offset = walk.offset();
            self.damaged(segment.number, offset)?;
            let Some(next) = resume(bytes, offset, segment.salt, segment.last_lsn, None) else {
                break;
            };
            walk = Walk::new(&bytes[next as usize..], next, segment.salt, segment.commit_align);
        }
        if segment.records != seal.records && self.found.damages.is_empty() {
            self.damaged(segment.number, SEAL_AT as u32)?;
        }
        (segment.last_lsn, segment.last_commit) = (seal.last_lsn, seal.last_commit);
        Ok(segment.end as usize)
    }

    /// Tells of the whole commits of the last segment, and says where they end.
    fn tail(
        &mut self,
        bytes: &[u8],
        segment: &mut Segment,
        header: &Header,
    ) -> Result<usize, NotOpened> {
        let mut from = RECORDS_AT;
        loop {
            let rest = bytes.get(from as usize..).unwrap_or(&[]);
            let end = self.commits(rest, from, segment);
            // The commit behind the last whole one was on its way when the power failed, and no
            // other was: what is later was written because this one was safe.
            let next = segment.last_commit.next();
            let later = resume(bytes, end, segment.salt, segment.last_lsn, Some(next));
            self.found.cut_bytes += torn_bytes(bytes, end, segment);
            match later {
                Some(later) if header.is_synced => {
                    self.harmed_commit(&bytes[..later as usize], end, segment)?;
                    from = later;
                }
                _ => return Ok(segment.end as usize),
            }
        }
    }

    /// Tells of what is whole of a commit that was acknowledged, since the next one is behind these
    /// bytes, and is not there as it was written.
    fn harmed_commit(
        &mut self,
        bytes: &[u8],
        begin: u32,
        segment: &mut Segment,
    ) -> Result<(), NotOpened> {
        let mut from = begin;
        loop {
            let rest = &bytes[from as usize..];
            let mut walk = Walk::new(rest, from, segment.salt, segment.commit_align);
            for (offset, frame) in walk.by_ref() {
                self.record(segment, offset, &frame);
                segment.last_commit = frame.commit;
            }
            if walk.ended() == Ended::Whole && from > begin {
                return Ok(());
            }
            self.damaged(segment.number, walk.offset())?;
            match resume(bytes, walk.offset(), segment.salt, segment.last_lsn, None) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Tells of whole commits. Returns where something else begins.
    fn commits(&mut self, bytes: &[u8], base: u32, segment: &mut Segment) -> u32 {
        let (salt, commit_align) = (segment.salt, segment.commit_align);
        let mut whole = Walk::new(bytes, base, salt, commit_align);
        let mut ahead = whole.clone();
        let before = Lsn::from_bits(segment.first_lsn.bits().saturating_sub(1));
        let mut previous = segment.last_lsn.max(before);
        let mut commit = None;
        while let Some((_, frame)) = ahead.next() {
            let is_next = frame.lsn > previous && commit.is_none_or(|one| one == frame.commit);
            if !is_next {
                break;
            }
            (previous, commit) = (frame.lsn, Some(frame.commit));
            if frame.is_last {
                while whole.offset() < ahead.offset()
                    && let Some((offset, frame)) = whole.next()
                {
                    self.record(segment, offset, &frame);
                    segment.last_commit = frame.commit;
                }
                commit = None;
            }
        }
        whole.offset()
    }

    fn record(&mut self, segment: &mut Segment, offset: u32, frame: &Frame<'_>) {
        segment.push(frame.lsn, offset, frame.bytes());
        segment.found_tombs.extend(since_of(frame));
        if frame.kind != CLOSING {
            self.found.records += 1;
            (self.tell)(&Record::of(frame, segment.number, offset));
        }
    }

    /// Tells of a segment's records by its footer, if it has one.
    fn told_by_footer(&mut self, segment: &mut Segment, seal: &Seal) -> Result<bool, NotOpened> {
        let name = FileName::Segment(segment.number);
        let mut fixed = [0; footer::FOOTER_FIXED];
        let at = u64::from(seal.end.next_multiple_of(segment.commit_align));
        self.disk.read_at(name, at, &mut fixed)?;
        let room = segment.file_bytes.saturating_sub(at);
        let length = footer::length(&fixed).map(|length| length + footer::FOOTER_FIXED);
        let Some(length) = length.filter(|&length| length as u64 <= room) else { return Ok(false) };
        let mut bytes = vec![0; length];
        let count = self.disk.read_at(name, at, &mut bytes)?;
        self.found.read_bytes += count as u64;
        let Some(entries) = footer::decode(&bytes[..count], segment.salt) else { return Ok(false) };
        if entries.len() != seal.records as usize {
            return Ok(false);
        }
        for entry in entries {
            segment.push(entry.lsn, entry.offset, entry.bytes);
            let record = Record::of_entry(&entry, segment.number);
            segment.found_tombs.extend(record.since);
            if entry.kind != CLOSING {
                self.found.records += 1;
                (self.tell)(&record);
            }
        }
        segment.end = seal.end;
        (segment.last_lsn, segment.last_commit) = (seal.last_lsn, seal.last_commit);
        Ok(true)
    }
}

/// Whole records of the commit that was on its way.
fn torn_bytes(bytes: &[u8], end: u32, segment: &Segment) -> u64 {
    let rest = bytes.get(end as usize..).unwrap_or(&[]);
    Walk::new(rest, end, segment.salt, segment.commit_align)
        .map(|(_, frame)| frame.bytes() as u64)
        .sum()
}

/// The first record behind `offset` that is later than `last`: of a later commit than `commit`.
pub(super) fn resume(
    bytes: &[u8],
    offset: u32,
    salt: Salt,
    last: Lsn,
    commit: Option<CommitNumber>,
) -> Option<u32> {
    let is_later = |at: usize| {
        let rest = &bytes[at..];
        let length = frame::length_at(rest).filter(|&length| length <= rest.len());
        // What is cheap to see is looked at first: nearly no place has the length of a record.
        length.and_then(|length| Frame::fields(&rest[..length])).is_some_and(|frame| {
            frame.lsn > last
                && commit.is_none_or(|commit| frame.commit > commit)
                && Frame::decode(rest, salt).is_some()
        })
    };
    let end = bytes.len().saturating_sub(FRAME_BYTES);
    let mut at = offset as usize + 1;
    while at <= end {
        // Most of a segment that was begun lately: no record begins with a length of 0.
        if bytes[at..].starts_with(&ZEROS) {
            at += ZEROS.len() - LENGTH_BYTES + 1;
        } else if is_later(at) {
            return Some(at as u32);
        } else {
            at += 1;
        }
    }
    None
}

/// What is skipped at a time where nothing was written.
const ZEROS: [u8; 512] = [0; 512];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_behind_zeros_is_found_wherever_it_begins() {
        let salt = Salt::new(7);
        let mut record = Vec::new();
        Frame::put(&mut record, Lsn::new(1, 9), 1, None, [b"", b"later"]);
        frame::assign(&mut record, CommitNumber(4), true);
        frame::seal(&mut record, salt);
        let block = ZEROS.len();
        for at in (1..block).chain(8 * block - 8..8 * block + 8) {
            let mut bytes = vec![0; 16 * block];
            bytes[at..at + record.len()].copy_from_slice(&record);
            let found = |commit| resume(&bytes, 0, salt, Lsn::new(1, 8), Some(commit));
            assert_eq!(found(CommitNumber(3)), Some(at as u32));
            assert_eq!(found(CommitNumber(4)), None, "it is not of a later commit");
        }
    }
}
