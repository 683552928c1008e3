//! The limit on open files, and what is left free of it.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Files that accepting leaves free for whatever else the process opens, such as a connection of
/// its operator. Where few may be open, it is a part of them.
const RESERVE_MAX: usize = 64;
const RESERVE_PART: usize = 8;

/// The number of the file that some thread accepted last. The system gives the lowest free number,
/// so it says how full the table is.
static LATEST: AtomicI32 = AtomicI32::new(0);

/// One thread at a time takes one of the last files.
static LAST_FILES: Mutex<()> = Mutex::new(());

/// Files that the process may have open: the soft limit.
pub(crate) fn files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |files| files.try_into().unwrap_or(usize::MAX))
}

/// From this file number on, [`crate::Backend::Auto`] leaves the rest of the table to rings,
/// listeners and whatever else the process opens. The system gives the lowest free number, so a
/// high one says how full the table is.
pub(crate) fn files_spill() -> i32 {
    let max = files_max();
    i32::try_from(max - (max / 4).min(1024)).unwrap_or(i32::MAX)
}

/// Files in which connections may be accepted, and from which on threads take turns at that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileBound {
    turns_from: i32,
    max: i32,
}

impl FileBound {
    /// By the limit as it is now.
    pub(crate) fn new() -> Self {
        let files = files_max();
        let reserve = (files / RESERVE_PART).min(RESERVE_MAX);
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        // More threads than the reserve has files do not come here at the same moment.
        Self { turns_from: number(files - 2 * reserve), max: number(files - reserve) }
    }

    /// Runs `accept` on `listener` unless that would take a file of the reserve.
    pub(crate) fn accept<T>(
        self,
        listener: &OwnedFd,
        accept: impl FnOnce(&OwnedFd) -> Result<(OwnedFd, T), Errno>,
    ) -> Result<(OwnedFd, T), Errno> {
        let is_near = LATEST.load(Relaxed) >= self.turns_from;
        let _turn = is_near.then(|| LAST_FILES.lock().unwrap_or_else(PoisonError::into_inner));
        if is_near {
            let free = rustix::io::fcntl_dupfd_cloexec(listener.as_fd(), 0)?.as_raw_fd();
            LATEST.store(free, Relaxed);
            if free >= self.max {
                return Err(Errno::MFILE);
            }
        }
        let accepted = accept(listener)?;
        LATEST.store(accepted.0.as_raw_fd(), Relaxed);
        Ok(accepted)
    }
}
