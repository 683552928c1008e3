//! What holds the connections of a reactor: open files, direct descriptors, or one after the other.

use crate::files::files_max;
use crate::uring::{Rings, slots_max};

/// What holds the connections of a reactor.
///
/// An open file is one of the process' `RLIMIT_NOFILE`, its readiness comes through epoll, and
/// each read and send is a call. A direct descriptor is a place in the file table of an io_uring:
/// that table is bounded by the same limit, but there may be many; sends leave in one batch a
/// turn. It needs Linux 6.11 and the permission to use io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Open files only. Always works.
    #[default]
    Epoll,
    /// Direct descriptors only.
    IoUring,
    /// Open files as long as there are some, then direct descriptors if the system lets us.
    Auto,
}

impl Backend {
    /// Connections that one reactor can hold at most so, by the process' limit on open files.
    /// Other files of the process, and other reactors, take some of these. [`Backend::Auto`] tries
    /// whether it may use io_uring.
    pub fn connections_max(self) -> usize {
        match self {
            Self::Epoll => files_max(),
            Self::IoUring => slots_max(),
            Self::Auto if self.check().is_ok() => slots_max(),
            Self::Auto => files_max(),
        }
    }

    /// Whether the system lets us: nothing to do for [`Backend::Epoll`], an attempt otherwise.
    ///
    /// # Errors
    /// io_uring is not there, not allowed, or too old: the text says which and what to do.
    pub fn check(self) -> std::io::Result<()> {
        match self {
            Self::Epoll => Ok(()),
            // The system takes a ring down later, and interrupts what its thread waits for then:
            // so it is the ring of a thread that is gone.
            Self::IoUring | Self::Auto => std::thread::scope(|scope| {
                let attempt = scope.spawn(|| Rings::new().map(drop));
                attempt.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
            }),
        }
    }
}
