//! Stand-ins as the post sees them: what they are started for, and how they end. What they are is
//! the server's to know.

use crate::stopper::Stopper;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use weir_cluster::{Incarnation, Seat};

/// What is lost, and is to be served.
pub(crate) struct LostNode {
    pub(crate) name: String,
    pub(crate) slot: u8,
    /// The membership whose log it is.
    pub(crate) owner: u64,
    pub(crate) shards: Range<u16>,
}

/// What they are made of.
pub(crate) trait StandIns: Send {
    /// Starts one, on threads of its own, which the node at this slot runs. If one of the same
    /// could not go on, it begins with what that had.
    ///
    /// # Errors
    /// What the system says of a thread.
    fn start(&self, keeper: u8, lost: LostNode) -> io::Result<StandIn>;

    /// Nothing is left of what was served of this log: its sessions are other nodes'.
    fn forget(&self, log: Seat);

    /// This node is a member, by the last of these memberships: of what it has of the others stays
    /// what there is of these nodes, or all.
    fn go_on(&self, memberships: Vec<Incarnation>, kept: Option<&[LostNode]>);
}

/// One that runs.
pub(crate) struct StandIn {
    stopper: Arc<OnceLock<Stopper>>,
    /// Why it could not go on.
    thread: JoinHandle<Result<(), String>>,
}

impl StandIn {
    pub(crate) fn new(
        stopper: Arc<OnceLock<Stopper>>,
        thread: JoinHandle<Result<(), String>>,
    ) -> Self {
        Self { stopper, thread }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Has it end soon.
    pub(super) fn stop(&self) {
        if let Some(stopper) = self.stopper.get() {
            stopper.stop();
        }
    }

    /// Has it end, and says why it could not go on, if so.
    pub(super) fn end(self) -> Result<(), String> {
        self.stop();
        self.thread.join().unwrap_or_else(|_| Err("it panicked".into()))
    }
}
