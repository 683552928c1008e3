//! What goes to the disk together.

use crate::disk::{Disk, FileName};
use crate::format::SECTOR;
use crate::format::header::{COPY_AT, HEADER_AT};
use crate::format::seal::SEAL_AT;
use crate::{CommitNumber, Lsn, SegmentNumber};
use std::io;

/// Records that are written together, and where. Only when [`Commit::perform`] has returned, any of
/// them is safe.
#[derive(Debug)]
#[must_use = "what is in it is not on the disk yet"]
pub struct Commit {
    pub(crate) number: CommitNumber,
    pub(crate) segment: SegmentNumber,
    pub(crate) offset: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) last: Lsn,
    pub(crate) opening: Option<Box<Opening>>,
    pub(crate) is_synced: bool,
}

/// A segment that a commit is the first of.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The segment that gets no more, and what is said so with.
    pub(crate) sealed: Option<(SegmentNumber, [u8; SECTOR])>,
    pub(crate) spare: u64,
    pub(crate) header: [u8; SECTOR],
}

impl Commit {
    /// Which one it is.
    pub fn number(&self) -> CommitNumber {
        self.number
    }

    /// The last record in it.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// What it writes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes it. After an error nothing is known of the disk, and the process has to end.
    pub fn perform(&self, disk: &mut impl Disk) -> io::Result<()> {
        if let Some(opening) = &self.opening {
            opening.perform(disk, self.segment)?;
        }
        let file = FileName::Segment(self.segment);
        disk.write_at(file, u64::from(self.offset), &self.bytes)?;
        if self.is_synced { disk.sync(file) } else { Ok(()) }
    }
}

/// A sync of commits that were only written. A segment is synced when it is sealed, so that of the
/// last one is enough; it has to be performed behind the commits that were taken before it.
#[derive(Debug)]
#[must_use = "nothing is synced until it is performed"]
pub struct Sync {
    pub(crate) segment: SegmentNumber,
    pub(crate) last: Lsn,
}

impl Sync {
    /// Does it. After an error nothing is known of the disk, and the process has to end.
    pub fn perform(&self, disk: &mut impl Disk) -> io::Result<()> {
        disk.sync(FileName::Segment(self.segment))
    }
}

impl Opening {
    /// Each step is on the disk before the next: a segment that has a successor is sealed, and one
    /// that has its name has its header.
    pub(crate) fn perform(&self, disk: &mut impl Disk, number: SegmentNumber) -> io::Result<()> {
        if let Some((segment, seal)) = &self.sealed {
            // Commits that were only written are on the disk before what says so is.
            disk.sync(FileName::Segment(*segment))?;
            disk.write_at(FileName::Segment(*segment), SEAL_AT, seal)?;
            disk.sync(FileName::Segment(*segment))?;
        }
        let spare = FileName::Spare(self.spare);
        disk.write_at(spare, HEADER_AT, &self.header)?;
        disk.write_at(spare, COPY_AT, &self.header)?;
        disk.sync(spare)?;
        disk.rename(spare, FileName::Segment(number))?;
        disk.sync_folder()
    }
}
