//! What the log needs of a disk: a folder of files that are written in place.

mod fake;
mod folder;

pub use fake::{Crash, FakeDisk, Faults};
pub use folder::{Folder, NoFolder};

use crate::SegmentNumber;
use std::{fmt, io};

/// A folder of one shard's log. An error of `write_at`, `sync`, `rename` or `sync_folder` is the
/// end: what is on the disk is unknown, and a second try may succeed without having kept anything.
pub trait Disk {
    /// The log's files, in no order, with their lengths in bytes. Others are left alone.
    fn list(&mut self) -> io::Result<Vec<(FileName, u64)>>;

    /// Makes a file of so many zeros, whose space is reserved; one of this name is replaced. Fails
    /// with [`io::ErrorKind::StorageFull`] if there is no space, and then leaves no file.
    fn create(&mut self, name: FileName, bytes: u64) -> io::Result<()>;

    /// Writes all of `bytes` inside the file.
    fn write_at(&mut self, name: FileName, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when the file's content is safe from a power cut.
    fn sync(&mut self, name: FileName) -> io::Result<()>;

    /// Fills `into` from `offset`; returns how much there was.
    fn read_at(&mut self, name: FileName, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Gives a file another name, in place of the file that has it.
    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: FileName) -> io::Result<()>;

    /// Returns when the names of the files are safe from a power cut.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// The name of a file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// A segment: `0000000001.log`.
    Segment(SegmentNumber),
    /// A file of a segment's size without content: `0000000001.spare`.
    Spare(u64),
    /// A segment that a start was told to go on without: `0000000001.damaged`.
    Damaged(SegmentNumber),
    /// Not finished, to be removed at the next start: `0000000001.new`.
    Unfinished(u64),
}

impl FileName {
    /// The file of this name, if it is one of the log's.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, kind) = name.split_once('.')?;
        let number = stem.parse().ok()?;
        let parsed = match kind {
            "log" => Self::Segment(SegmentNumber(number)),
            "spare" => Self::Spare(number),
            "damaged" => Self::Damaged(SegmentNumber(number)),
            "new" => Self::Unfinished(number),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(SegmentNumber(number)) => write!(f, "{number:010}.log"),
            Self::Spare(number) => write!(f, "{number:010}.spare"),
            Self::Damaged(SegmentNumber(number)) => write!(f, "{number:010}.damaged"),
            Self::Unfinished(number) => write!(f, "{number:010}.new"),
        }
    }
}
