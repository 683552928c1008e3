//! Handshakes, counted when they are over.

use rustls::HandshakeKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Handshakes of one side that are over.
#[derive(Debug, Default)]
pub struct Handshakes {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
}

impl Handshakes {
    /// With certificates.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// By a ticket.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Those whose peer has said something, and which ended before they were done: by a fault, a
    /// time-out, or because the peer went away.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The handshake of one connection. What is dropped before it is over has failed.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Until it is counted.
    counts: Option<Arc<Handshakes>>,
    is_heard: bool,
}

impl Handshake {
    pub(super) fn new(counts: &Arc<Handshakes>) -> Self {
        Self { counts: Some(Arc::clone(counts)), is_heard: false }
    }

    /// The peer has said something.
    pub(super) fn heard(&mut self) {
        self.is_heard = true;
    }

    pub(super) fn over(&mut self, kind: Option<HandshakeKind>) {
        let Some(counts) = self.counts.take() else { return };
        let is_resumed = kind == Some(HandshakeKind::Resumed);
        let count = if is_resumed { &counts.resumed } else { &counts.full };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.take()
            && self.is_heard
        {
            counts.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
