//! What a log has to have done on its disk beside its commits, in slices.

use crate::SegmentNumber;
use crate::disk::{Disk, FileName};
use crate::format::header::{COPY_AT, HEADER_AT};
use crate::format::seal::SEAL_AT;
use crate::format::{RECORDS_AT, SECTOR};
use std::io;

/// Something to be done to the disk, on the thread that has it.
#[derive(Debug)]
#[must_use = "the log waits for it"]
pub struct Chore(pub(crate) Work);

#[derive(Debug)]
pub(crate) enum Work {
    /// A part of a spare.
    Zeros {
        file: u64,
        offset: u32,
        total: u32,
        is_refused: bool,
    },
    Footer {
        segment: SegmentNumber,
        offset: u32,
        bytes: Vec<u8>,
    },
    /// Nobody needs the segment: it becomes this spare, or goes.
    Recycle {
        segment: SegmentNumber,
        spare: Option<u64>,
    },
    Read {
        segment: SegmentNumber,
        offset: u32,
        bytes: Vec<u8>,
    },
    Create {
        file: u64,
        bytes: u64,
        is_refused: bool,
    },
    Write {
        file: u64,
        offset: u32,
        bytes: Vec<u8>,
    },
    Replace(Box<Replacement>),
}

/// A finished file takes the place of the segments that it was made of.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub(crate) file: u64,
    pub(crate) number: SegmentNumber,
    pub(crate) header: [u8; SECTOR],
    pub(crate) seal: [u8; SECTOR],
    pub(crate) footer: Option<(u32, Vec<u8>)>,
    /// Segments that are in it beside `number`.
    pub(crate) covered: Vec<SegmentNumber>,
}

impl Chore {
    /// Does it. After an error nothing is known of the disk, and the process has to end; that there
    /// is no space is no error.
    pub fn perform(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        match &mut self.0 {
            Work::Zeros { file, offset, total, is_refused } => {
                if *offset == 0 {
                    *is_refused = !has_created(disk, *file, u64::from(*total))?;
                }
                if !*is_refused {
                    *is_refused = !has_zeroed(disk, *file, *offset, *total)?;
                }
                Ok(())
            }
            Work::Footer { segment, offset, bytes } => {
                disk.write_at(FileName::Segment(*segment), u64::from(*offset), bytes)?;
                disk.sync(FileName::Segment(*segment))
            }
            Work::Recycle { segment, spare: Some(spare) } => {
                disk.rename(FileName::Segment(*segment), FileName::Spare(*spare))?;
                disk.sync_folder()
            }
            Work::Recycle { segment, spare: None } => {
                disk.remove(FileName::Segment(*segment))?;
                disk.sync_folder()
            }
            Work::Read { segment, offset, bytes } => {
                let count = disk.read_at(FileName::Segment(*segment), u64::from(*offset), bytes)?;
                bytes.truncate(count);
                Ok(())
            }
            Work::Create { file, bytes, is_refused } => {
                *is_refused = !has_created(disk, *file, *bytes)?;
                Ok(())
            }
            Work::Write { file, offset, bytes } => {
                disk.write_at(FileName::Unfinished(*file), u64::from(*offset), bytes)
            }
            Work::Replace(replacement) => replacement.perform(disk),
        }
    }
}

fn has_created(disk: &mut impl Disk, file: u64, bytes: u64) -> io::Result<bool> {
    match disk.create(FileName::Unfinished(file), bytes) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        other => other.map(|()| true),
    }
}

/// Zeros are written, not only reserved: to overwrite them changes nothing but content, which a
/// sync has the least to do for. A file system that reserves nothing has no space only now.
fn has_zeroed(disk: &mut impl Disk, file: u64, offset: u32, total: u32) -> io::Result<bool> {
    match write_zeros(disk, file, offset, total) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            disk.remove(FileName::Unfinished(file))?;
            return Ok(false);
        }
        other => other?,
    }
    if offset + ZEROS_BYTES >= total {
        finish_spare(disk, file)?;
    } else {
        disk.sync(FileName::Unfinished(file))?;
    }
    Ok(true)
}

/// A slice of a spare's zeros.
fn write_zeros(disk: &mut impl Disk, file: u64, offset: u32, total: u32) -> io::Result<()> {
    let count = ZEROS_BYTES.min(total - offset) as usize;
    disk.write_at(FileName::Unfinished(file), u64::from(offset), &vec![0; count])
}

fn finish_spare(disk: &mut impl Disk, file: u64) -> io::Result<()> {
    disk.sync(FileName::Unfinished(file))?;
    disk.rename(FileName::Unfinished(file), FileName::Spare(file))?;
    disk.sync_folder()
}

/// All of a spare at once, with one sync: while nobody is served.
pub(crate) fn make_spare(disk: &mut impl Disk, file: u64, total: u32) -> io::Result<()> {
    disk.create(FileName::Unfinished(file), u64::from(total))?;
    for offset in (0..total).step_by(ZEROS_BYTES as usize) {
        if let Err(error) = write_zeros(disk, file, offset, total) {
            // What it takes may be what others lack.
            let _ = disk.remove(FileName::Unfinished(file));
            return Err(error);
        }
    }
    finish_spare(disk, file)
}

impl Replacement {
    pub(crate) fn perform(&self, disk: &mut impl Disk) -> io::Result<()> {
        let file = FileName::Unfinished(self.file);
        if let Some((offset, bytes)) = &self.footer {
            disk.write_at(file, u64::from(*offset), bytes)?;
        }
        disk.write_at(file, HEADER_AT, &self.header)?;
        disk.write_at(file, SEAL_AT, &self.seal)?;
        disk.write_at(file, COPY_AT, &self.header)?;
        disk.sync(file)?;
        disk.rename(file, FileName::Segment(self.number))?;
        disk.sync_folder()?;
        for &covered in &self.covered {
            disk.remove(FileName::Segment(covered))?;
        }
        if self.covered.is_empty() { Ok(()) } else { disk.sync_folder() }
    }
}

/// What making a spare writes at a time.
pub(crate) const ZEROS_BYTES: u32 = 1 << 20;

const _: () = assert!(RECORDS_AT as usize >= COPY_AT as usize + SECTOR);
