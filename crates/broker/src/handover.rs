//! How a node of a cluster ends that is stopped: once its clients' sessions have gone after them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long it lasts in all, in the time that the next claim is waited for.
const LONGEST: u32 = 3;

/// All are to end.
const OVER: u32 = u32::MAX;

/// How long a node that is stopped waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandoverTimes {
    /// For the next session to be claimed.
    pub(crate) next: Duration,
}

impl HandoverTimes {
    /// In all.
    pub(crate) fn all(self) -> Duration {
        self.next * LONGEST
    }
}

/// What the shards of a node agree on when it is stopped: none ends before all can. Each shard
/// takes part in every move of a session, and one may be claimed of any of them.
#[derive(Debug)]
pub(crate) struct Handover {
    /// So many shards can end, or [`OVER`].
    ready: AtomicU32,
}

impl Default for Handover {
    /// Nothing is handed over.
    fn default() -> Self {
        Self { ready: AtomicU32::new(OVER) }
    }
}

impl Handover {
    /// There is to be one at the end.
    pub(crate) fn prepare(&self) {
        self.ready.store(0, Ordering::Release);
    }

    /// All shards are to end, whatever they wait for.
    pub(crate) fn end(&self) {
        self.ready.store(OVER, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ready.load(Ordering::Acquire) == OVER
    }

    /// One of so many shards can end, or cannot any more; `was_ready` is what it has said last.
    /// Says whether all are to end, which stays so.
    pub(crate) fn say(&self, was_ready: &mut bool, is_ready: bool, shards: u32) -> bool {
        let before = u32::from(std::mem::replace(was_ready, is_ready));
        let change = |ready: u32| {
            let ready = (ready != OVER).then(|| ready + u32::from(is_ready) - before)?;
            Some(if ready == shards { OVER } else { ready })
        };
        // Nobody can take back what the last one to be ready has made of it.
        let _ = self.ready.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_end_together_and_none_before() {
        let (handover, mut first, mut second) = (Handover::default(), false, false);
        assert!(handover.is_over(), "nothing was prepared");
        handover.prepare();
        assert!(!handover.say(&mut first, true, 2));
        // It hears of a claim.
        assert!(!handover.say(&mut first, false, 2));
        assert!(!handover.say(&mut second, true, 2));
        assert!(!handover.say(&mut second, true, 2), "it counts once");
        assert!(handover.say(&mut first, true, 2));
        // A claim that comes now is too late.
        assert!(handover.say(&mut second, false, 2));
        assert!(handover.say(&mut first, true, 2));
    }

    #[test]
    fn it_can_be_cut_short() {
        let (handover, mut ready) = (Handover::default(), false);
        handover.prepare();
        assert!(!handover.say(&mut ready, false, 1));
        handover.end();
        assert!(handover.is_over() && handover.say(&mut ready, false, 1));
    }
}
