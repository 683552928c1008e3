//! The copy of one shard's log.

use super::remove_folder;
use crate::journal::{FIRST_OF_INPUT, StoreConfig, number_of, open_copy, records_of};
use std::io;
use std::path::Path;
use weir_core::{Lsn, Record, ShardId};
use weir_store::disk::Folder;
use weir_store::{Body, Commit, Log};

/// Chores that are done after a commit: files that are ready, and those that nobody needs.
const CHORES_MAX: usize = 4;

pub(super) struct CopyOf {
    /// The thread whose shard gets its letters.
    pub(super) by: usize,
    pub(super) copy: u64,
    log: Log,
    disk: Folder,
    /// Letters of records that were taken.
    taken: u64,
    /// The last record that was taken, as the other calls it.
    last: Lsn,
    /// Where the base that is on its way begins here.
    base: Option<weir_store::Lsn>,
    /// What is before this means nothing, once the rest is written.
    forget: Option<weir_store::Lsn>,
}

impl CopyOf {
    /// Begins one, in the place of what is there.
    pub(super) fn begin(
        path: &Path,
        config: &StoreConfig,
        packet_bytes_max: u32,
        (by, from): (usize, ShardId),
        copy: u64,
    ) -> io::Result<Self> {
        remove_folder(path)?;
        let opened = open_copy(path, config, packet_bytes_max, from.0);
        let (log, disk) = opened.map_err(io::Error::other)?;
        let (last, base, forget) = (Lsn::NONE, None, None);
        Ok(Self { by, copy, log, disk, taken: 0, last, base, forget })
    }

    /// What it takes on the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.log.disk_bytes()
    }

    /// Takes records of a letter. They are called here what they are called there, since others
    /// name them so: their numbers are in front of their bodies.
    pub(super) fn append(&mut self, nth: u64, records: &[u8]) -> io::Result<()> {
        // What a link has dropped is nowhere.
        if nth != self.taken {
            return Err(io::Error::other("records of it are missing"));
        }
        self.taken += 1;
        for (kind, numbered) in records_of(records) {
            let Some((lsn, _)) = number_of(numbered) else {
                return Err(io::Error::other("a record without a number came"));
            };
            let body = Body { head: &[], tail: numbered };
            let here = self.log.append(kind, body, 1).map_err(io::Error::other)?;
            self.last = lsn;
            let is = |record: &Record<'_>| kind & !FIRST_OF_INPUT == record.kind();
            if is(&Record::Base) {
                self.base = Some(here);
            } else if is(&Record::BaseEnd) {
                self.forget = self.base.take().or(self.forget);
            }
        }
        Ok(())
    }

    /// Writes what was taken. Says up to where all is safe, if something was.
    pub(super) fn write(&mut self) -> io::Result<Option<Lsn>> {
        if self.log.pending_bytes() == 0 {
            return Ok(None);
        }
        while self.log.pending_bytes() > 0 {
            match self.log.take_commit() {
                Some(commit) => {
                    Commit::perform(&commit, &mut self.disk)?;
                    self.log.committed(commit);
                }
                None if self.do_chore()? => {}
                None => return Err(io::ErrorKind::StorageFull.into()),
            }
        }
        if let Some(before) = self.forget.take() {
            self.log.forget(before);
        }
        for _ in 0..CHORES_MAX {
            if !self.do_chore()? {
                break;
            }
        }
        Ok(Some(self.last))
    }

    fn do_chore(&mut self) -> io::Result<bool> {
        let Some(mut chore) = self.log.take_chore() else { return Ok(false) };
        chore.perform(&mut self.disk)?;
        // Every record is wanted until all before a base go together.
        self.log.chore_done(chore, |_| true).map_err(io::Error::other)?;
        Ok(true)
    }
}
