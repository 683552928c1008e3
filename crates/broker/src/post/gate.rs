//! When clients are let in first: not before this node knows what the others have.

use crate::stopper::{Asked, Stopper};
use std::sync::Arc;

pub(crate) struct Gate {
    asked: Arc<Asked>,
    stopper: Stopper,
    /// What opens it.
    open: fn(&Asked, &Stopper),
    is_open: bool,
}

impl Gate {
    /// It is shut.
    pub(crate) fn new(asked: Arc<Asked>, stopper: Stopper, open: fn(&Asked, &Stopper)) -> Self {
        asked.shut();
        Self { asked, stopper, open, is_open: false }
    }

    /// Has every shard look at the lease.
    pub(super) fn wake(&self) {
        self.stopper.wake();
    }

    /// Whether they are let in.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Ends the broker.
    pub(super) fn stop(&self) {
        self.stopper.stop();
    }

    pub(super) fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            (self.open)(&self.asked, &self.stopper);
        }
    }
}
