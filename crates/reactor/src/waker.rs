//! Waking a reactor that sleeps, from another thread or a signal handler.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// Wakes one reactor: its handler's `woken` runs in the next turn. Any number of calls before
/// that turn make one wake.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker for the reactor that is made with it: [`crate::Reactor::with_waker`].
    ///
    /// # Errors
    /// What the system says of eventfd.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Wakes the reactor.
    #[expect(clippy::host_endian_bytes, reason = "an eventfd counts in the host's byte order")]
    pub fn wake(&self) {
        // The only error is a counter at its maximum, and then the wake is already pending.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // Would-block means that nobody woke us.
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}
