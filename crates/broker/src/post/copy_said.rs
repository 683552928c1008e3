//! What is said of a copy of this node's log: in the log when it changes, and on the board.

use super::copying::Keeper;
use crate::journal::Waiting;
use weir_control::{OwnCopy, OwnCopyState};
use weir_core::Micros;

/// How often it is looked whether a copy goes on.
pub(super) const LOOK_EVERY: Micros = Micros(100_000);

/// How long a keeper may be silent that has what to say, while another is not.
const LATE: Micros = Micros(2_000_000);

#[derive(Default)]
pub(super) struct CopySaid {
    state: OwnCopyState,
    keeper: Option<String>,
    since: Micros,
    /// Of the last copy that was begun.
    waiting: Waiting,
    heard: Heard,
}

/// When something of a copy was on the other's disk last.
#[derive(Default)]
struct Heard {
    /// What names it.
    copy: u64,
    safe: u64,
    at: Micros,
    looked_at: Micros,
}

impl Heard {
    /// So many records wait, and so many are on the other's disk. Returns its name if nothing has
    /// come for too long.
    fn look(&mut self, waiting: u64, safe: u64, now: Micros) -> Option<u64> {
        // Then it has not read what came meanwhile either.
        let was_asleep = now.0 > self.looked_at.0 + 3 * LOOK_EVERY.0;
        self.looked_at = now;
        if waiting == 0 || self.safe != safe || was_asleep {
            (self.safe, self.at) = (safe, now);
        }
        (now >= self.at + LATE).then_some(self.copy)
    }
}

impl CopySaid {
    /// A copy of this name begins.
    pub(super) fn begin(&mut self, copy: u64, shards: usize) -> Waiting {
        (self.heard.copy, self.waiting) = (copy, Waiting::new(shards));
        self.waiting.clone()
    }

    /// Looks whether it goes on. Returns its name if its keeper has been silent for too long.
    pub(super) fn look(&mut self, now: Micros) -> Option<u64> {
        let (waiting, _) = self.waiting.sum();
        self.heard.look(waiting, self.waiting.safe(), now)
    }

    /// It stands so now.
    pub(super) fn note(&mut self, (state, keeper): (OwnCopyState, Option<&Keeper>), now: Micros) {
        let keeper = keeper.map(|keeper| keeper.name.as_str());
        if self.since > Micros(0) && (self.state, self.keeper.as_deref()) == (state, keeper) {
            return;
        }
        if self.state == OwnCopyState::Whole {
            let node = self.keeper.as_deref();
            tracing::warn!(node, "a node does not have all of this node's log any more");
        }
        if state == OwnCopyState::Whole {
            tracing::info!(node = keeper, "another node has all of this node's log");
        }
        (self.state, self.keeper, self.since) = (state, keeper.map(str::to_owned), now);
    }

    /// As it is shown.
    pub(super) fn shown(&self, now: Micros) -> OwnCopy {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_is_silent_is_late_unless_there_is_nothing_to_say() {
        let (mut heard, mut now) = (Heard { copy: 7, ..Heard::default() }, Micros(1));
        let mut look = |heard: &mut Heard, times: u64, (waiting, safe)| {
            let looks = (0..times).map(|_| {
                now = now + LOOK_EVERY;
                heard.look(waiting, safe, now)
            });
            looks.last().flatten()
        };
        assert_eq!(look(&mut heard, 100, (0, 0)), None, "nothing is on its way");
        let times = LATE.0 / LOOK_EVERY.0;
        assert_eq!(look(&mut heard, times, (3, 2)), None);
        assert_eq!(look(&mut heard, times, (6, 3)), None, "it has said something");
        assert_eq!(look(&mut heard, 1, (6, 3)), Some(7));
        // This node may have been asleep.
        now = now + LATE + LATE;
        assert_eq!(heard.look(6, 3, now), None);
    }
}
