//! A store that is written without a broker: by a salvage, an import, a generator. It is a
//! generation of one log that is one base; the next start gives its sessions to their shards.

use super::clock::WALL;
use super::generations::Generations;
use super::no_store::NoStore;
use super::pages::PageWay;
use super::seeded::seeded;
use super::{Journal, StoreConfig, start};
use std::path::{Path, PathBuf};
use weir_core::{Lsn, Parcel, Record, Renamed};
use weir_store::disk::Folder;

/// Bytes of records that are written at a time.
const WRITE_BYTES: usize = 4 << 20;

/// The longest record that a file of the default size takes.
const RECORD_BYTES_MAX: u32 = 60 << 20;

/// A generation that is being written. Dropped before its end, it counts for nothing.
#[derive(Debug)]
pub struct StoreWriter {
    generations: Generations,
    journal: Journal,
    disk: Folder,
    named: Renamed,
}

impl StoreWriter {
    /// The longest payload that may be written.
    pub const PAYLOAD_BYTES_MAX: usize = RECORD_BYTES_MAX as usize;

    /// Begins a store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be written, is in use, or has a store already.
    pub fn create(root: &Path) -> Result<Self, NoStore> {
        Self::of(begin(root)?, RECORD_BYTES_MAX)
    }

    /// As [`StoreWriter::create`], of a store that takes over the pages of another.
    pub(super) fn take_over(root: &Path, from: &Generations) -> Result<Self, NoStore> {
        let mut generations = begin(root)?;
        generations.take_over(from.store());
        Self::of(generations, RECORD_BYTES_MAX)
    }

    /// Begins the next generation of a store, whose longest record has so many bytes.
    pub(super) fn of(generations: Generations, record_bytes_max: u32) -> Result<Self, NoStore> {
        let config = StoreConfig::default();
        let settings = seeded(config.log(0, record_bytes_max, 1), generations.store())?;
        let pages = PageWay::nowhere(WALL);
        let (journal, disk) = start::open(generations.next(0)?, &settings, pages, &config)?;
        let mut writer = Self { generations, journal, disk, named: Renamed::default() };
        writer.append(&Record::Base)?;
        Ok(writer)
    }

    /// What is appended from here on does not belong together with what was before.
    pub fn begin_input(&mut self) {
        self.journal.begin_input();
    }

    /// Appends a record. Its times are microseconds since 1970.
    ///
    /// # Errors
    /// It cannot be written: the disk is full, or the record too long.
    pub fn append(&mut self, record: &Record<'_>) -> Result<Lsn, NoStore> {
        let lsn = self.journal.append(record);
        let is_refused = self.journal.failed.is_some();
        if is_refused || self.journal.log.pending_bytes() > WRITE_BYTES {
            self.write_out()?;
        }
        Ok(lsn)
    }

    /// Appends what a log amounts to.
    ///
    /// # Errors
    /// As of [`StoreWriter::append`].
    pub(super) fn put(&mut self, parcel: &Parcel) -> Result<(), NoStore> {
        let Self { journal, named, .. } = self;
        parcel.tell_records(named, &mut |record| journal.append(record));
        let is_due = self.journal.log.pending_bytes() > WRITE_BYTES;
        if is_due { self.write_out() } else { Ok(()) }
    }

    /// All is there: the generation counts from now on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<(), NoStore> {
        self.end()?;
        self.generations.finish()
    }

    /// As [`StoreWriter::finish`], and the generation before is kept aside: says where.
    pub(super) fn finish_aside(mut self) -> Result<PathBuf, NoStore> {
        self.end()?;
        self.generations.finish_aside()
    }

    fn end(&mut self) -> Result<(), NoStore> {
        self.append(&Record::BaseEnd)?;
        self.write_out()
    }

    /// Writes what waits.
    pub(super) fn write_out(&mut self) -> Result<(), NoStore> {
        let Self { journal, disk, .. } = self;
        let path = disk.path().to_path_buf();
        journal.write_out(disk).map_err(|error| NoStore::Disk { path, error })
    }
}

/// A folder that has no store yet.
fn begin(root: &Path) -> Result<Generations, NoStore> {
    let (generations, _) = Generations::open(root)?;
    if generations.current() > 0 {
        return Err(NoStore::IsAStore(root.into()));
    }
    Ok(generations)
}
