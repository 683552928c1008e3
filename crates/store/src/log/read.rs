//! Reading records back, a page at a time.

use super::Log;
use crate::disk::{Disk, FileName};
use crate::format::Salt;
use crate::format::frame::FRAME_BYTES;
use crate::record::{CLOSING, Damage, Record};
use crate::segments::{INDEX_BYTES, Whereabouts};
use crate::walk::{Ended, Walk};
use crate::{Lsn, SegmentNumber};
use std::io;

/// A page that is to be read.
#[derive(Debug)]
#[must_use = "nothing is read until it is performed"]
pub struct Read {
    from: Lsn,
    place: Whereabouts,
    bytes: Vec<u8>,
}

/// What a page was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The records that were asked for have been told; the next page begins with this one, or there
    /// is none.
    Next(Option<Lsn>),
    /// The segment was written anew in the meantime: ask again.
    Moved,
    /// The next record is longer than the page: ask for so many bytes.
    TooShort(usize),
}

impl Read {
    /// Reads the page.
    pub fn perform(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        let name = FileName::Segment(self.place.segment);
        let count = match disk.read_at(name, u64::from(self.place.offset), &mut self.bytes) {
            // It was merged into its neighbour in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            count => count?,
        };
        self.bytes.truncate(count);
        Ok(())
    }

    /// Which segment it reads.
    pub fn segment(&self) -> SegmentNumber {
        self.place.segment
    }
}

impl Log {
    /// A page of about so many bytes that begins with the record `from`, or with the first behind
    /// it; nothing if there is none on the disk. What waits for its commit is not: it has to be in
    /// memory.
    pub fn read(&self, from: Lsn, page_bytes: usize) -> Option<Read> {
        let place = self.segments.seek(from)?;
        let rest = (place.end - place.offset) as usize;
        let bytes = vec![0; page_bytes.max(FRAME_BYTES).min(rest)];
        Some(Read { from, place, bytes })
    }

    /// Tells of each record of a page that was read, in order, and gives the memory back.
    pub fn page(&self, read: &Read, mut tell: impl FnMut(&Record<'_>)) -> Result<Page, Damage> {
        let Whereabouts { segment, salt, offset, end, last_lsn, commit_align } = read.place;
        if self.salt_of(segment) != Some(salt) {
            return Ok(Page::Moved);
        }
        let mut walk = Walk::new(&read.bytes, offset, salt, commit_align);
        let mut last = None;
        for (offset, frame) in walk.by_ref() {
            if frame.lsn >= read.from {
                last = Some(frame.lsn);
                if frame.kind != CLOSING {
                    tell(&Record::of(&frame, segment, offset));
                }
            }
        }
        match walk.ended() {
            Ended::Cut(length) if walk.offset() + length as u32 <= end => match last {
                // The place that is known may be a part's before the record.
                None => {
                    let walked = walk.offset() - offset + INDEX_BYTES;
                    Ok(Page::TooShort(walked as usize + length))
                }
                Some(last) => Ok(Page::Next(Some(after(last)))),
            },
            Ended::Whole if walk.offset() < end => match last {
                None => Ok(Page::TooShort(read.bytes.len() + INDEX_BYTES as usize)),
                Some(last) => Ok(Page::Next(Some(after(last)))),
            },
            Ended::Whole => {
                let next = after(last_lsn);
                Ok(Page::Next(self.segments.seek(next).map(|_| next)))
            }
            Ended::Cut(_) | Ended::Bad => Err(Damage { segment, offset: walk.offset() }),
        }
    }

    fn salt_of(&self, segment: SegmentNumber) -> Option<Salt> {
        self.segments.get(segment).map(|segment| segment.salt)
    }
}

fn after(lsn: Lsn) -> Lsn {
    Lsn::from_bits(lsn.bits() + 1)
}
