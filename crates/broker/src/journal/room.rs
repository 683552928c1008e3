//! How much room the file system has. All who have files there say so when they made or removed
//! some, and all shards see it: a start needs room for what is alive once more, so that much is not
//! used up.

use rustix::fs::{StatVfs, fstatvfs};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the file system of a broker's folder.
#[derive(Debug)]
pub(crate) struct Room {
    folder: File,
    free_bytes: AtomicU64,
    shards: u64,
}

impl Room {
    /// Of a broker with so many logs.
    pub(super) fn of(root: &Path, shards: u16) -> io::Result<Self> {
        let free_bytes = AtomicU64::new(u64::MAX);
        let room = Self { folder: File::open(root)?, free_bytes, shards: shards.max(1).into() };
        room.look();
        Ok(room)
    }

    /// Asks the file system. One that does not say has room enough until it refuses.
    pub(super) fn look(&self) {
        if let Ok(StatVfs { f_bavail, f_frsize, .. }) = fstatvfs(&self.folder) {
            self.free_bytes.store(f_bavail.saturating_mul(f_frsize), Ordering::Relaxed);
        }
    }

    /// What each log may count on, in bytes.
    pub(super) fn of_each(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed) / self.shards
    }
}
