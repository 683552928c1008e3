//! What is said of the copy of this node's log: in the log when it changes, and on the board.

use super::copying::Keeper;
use crate::journal::Waiting;
use weir_control::{OwnCopy, OwnCopyState};
use weir_core::Micros;

#[derive(Default)]
pub(super) struct CopySaid {
    state: OwnCopyState,
    keeper: Option<String>,
    since: Micros,
    /// Of the last copy that was begun.
    waiting: Waiting,
}

impl CopySaid {
    /// A copy begins.
    pub(super) fn begin(&mut self, shards: usize) -> Waiting {
        self.waiting = Waiting::new(shards);
        self.waiting.clone()
    }

    /// It stands so now.
    pub(super) fn note(&mut self, (state, keeper): (OwnCopyState, Option<&Keeper>), now: Micros) {
        let keeper = keeper.map(|keeper| keeper.name.as_str());
        if self.since > Micros(0) && (self.state, self.keeper.as_deref()) == (state, keeper) {
            return;
        }
        if self.state == OwnCopyState::Whole {
            let node = self.keeper.as_deref();
            tracing::warn!(node, "no other node has all of this node's log any more");
        }
        if state == OwnCopyState::Whole {
            tracing::info!(node = keeper, "another node has all of this node's log");
        }
        (self.state, self.keeper, self.since) = (state, keeper.map(str::to_owned), now);
    }

    /// As it is shown, with how many copies could not go on.
    pub(super) fn shown(&self, failed: u64, now: Micros) -> OwnCopy {
        let (waiting_records, waiting_bytes) = match self.state {
            OwnCopyState::None => (0, 0),
            OwnCopyState::Filling | OwnCopyState::Whole | OwnCopyState::Ending => {
                self.waiting.sum()
            }
        };
        OwnCopy {
            state: self.state,
            state_s: now.0.saturating_sub(self.since.0) / 1_000_000,
            keeper: self.keeper.clone(),
            waiting_records,
            waiting_bytes,
            failed,
        }
    }
}
