//! What the engine of a slice and the one who leads all slices tell each other, without a lock.

use crate::Stop;
use crate::outcome::Phase;
use crate::plan::Group;
use crate::plan::Slice;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Between two looks at whether it may begin.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Handed to an engine, and shared with who listens to the coordinator.
#[derive(Debug, Default)]
pub(crate) struct Baton {
    /// Slices whose clock is not this one's.
    unclocked: Vec<Slice>,
    /// When connecting begins, and publishing: microseconds of this host's clock, 0 if unknown.
    begin_us: AtomicU64,
    go_us: AtomicU64,
    is_settled: AtomicBool,
    told: Told,
}

/// A [`Status`] that is written while it is read: each field is right, all only grow.
#[derive(Debug, Default)]
struct Told {
    phase: AtomicU8,
    is_ready: AtomicBool,
    is_drained: AtomicBool,
    connected: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    owed: AtomicU64,
    delivered: AtomicU64,
}

/// How far a slice is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    /// All of its clients are connected and subscribed, or have failed to.
    pub(crate) is_ready: bool,
    /// Nothing more will become owed by it.
    pub(crate) is_drained: bool,
    /// Connections that are there.
    pub(crate) connected: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Deliveries owed for what it has published, anywhere, and come to it, from anywhere.
    pub(crate) owed: u64,
    pub(crate) delivered: u64,
}

const PHASES: [Phase; 5] =
    [Phase::Connect, Phase::Subscribe, Phase::WarmUp, Phase::Measure, Phase::Drain];

impl Baton {
    pub(crate) fn new(unclocked: Vec<Slice>) -> Self {
        Self { unclocked, ..Self::default() }
    }

    /// Whether what this client publishes carries times of our clock.
    pub(crate) fn is_clocked(&self, group: &Group, client: u32) -> bool {
        !self.unclocked.iter().any(|slice| slice.has(group, client))
    }

    pub(crate) fn begin(&self, at_us: u64) {
        self.begin_us.store(at_us, Ordering::Release);
    }

    pub(crate) fn go(&self, at_us: u64) {
        self.go_us.store(at_us, Ordering::Release);
    }

    pub(crate) fn settle(&self) {
        self.is_settled.store(true, Ordering::Release);
    }

    /// When connecting begins; nothing if it was stopped before.
    pub(crate) fn wait_for_begin(&self, stop: &Stop) -> Option<u64> {
        while !stop.is_stopped() {
            match self.begin_us.load(Ordering::Acquire) {
                0 => std::thread::sleep(LOOK_EVERY),
                at_us => return Some(at_us),
            }
        }
        None
    }

    pub(crate) fn go_us(&self) -> Option<u64> {
        Some(self.go_us.load(Ordering::Acquire)).filter(|&at_us| at_us > 0)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self, status: &Status) {
        let told = &self.told;
        // What is owed goes before what says that it is all.
        told.owed.store(status.owed, Ordering::Relaxed);
        told.delivered.store(status.delivered, Ordering::Relaxed);
        told.connected.store(status.connected, Ordering::Relaxed);
        told.sent.store(status.sent, Ordering::Relaxed);
        told.received.store(status.received, Ordering::Relaxed);
        told.phase.store(status.phase as u8, Ordering::Release);
        told.is_ready.store(status.is_ready, Ordering::Release);
        told.is_drained.store(status.is_drained, Ordering::Release);
    }

    pub(crate) fn status(&self) -> Status {
        let told = &self.told;
        let is_drained = told.is_drained.load(Ordering::Acquire);
        let is_ready = told.is_ready.load(Ordering::Acquire);
        let phase = told.phase.load(Ordering::Acquire);
        Status {
            phase: PHASES.get(usize::from(phase)).copied().unwrap_or_default(),
            is_ready,
            is_drained,
            connected: told.connected.load(Ordering::Relaxed),
            sent: told.sent.load(Ordering::Relaxed),
            received: told.received.load(Ordering::Relaxed),
            owed: told.owed.load(Ordering::Relaxed),
            delivered: told.delivered.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::slice::tests::plan;

    #[test]
    fn each_figure_that_is_told_is_read_as_its_own() {
        let baton = Baton::new(Vec::new());
        assert_eq!(baton.status(), Status::default());
        let mut status = Status {
            phase: Phase::Connect,
            is_ready: true,
            is_drained: false,
            connected: 1,
            sent: 2,
            received: 3,
            owed: 4,
            delivered: 5,
        };
        for phase in PHASES {
            status = Status {
                phase,
                is_ready: !status.is_ready,
                is_drained: !status.is_drained,
                ..status
            };
            baton.tell(&status);
            assert_eq!(baton.status(), status);
        }
    }

    #[test]
    fn moments_are_unknown_until_they_are_named() {
        let (baton, stop) = (Baton::new(Vec::new()), Stop::default());
        assert_eq!((baton.go_us(), baton.is_settled()), (None, false));
        baton.begin(7);
        baton.go(8);
        baton.settle();
        assert_eq!(baton.wait_for_begin(&stop), Some(7));
        assert_eq!((baton.go_us(), baton.is_settled()), (Some(8), true));
        stop.stop();
        assert_eq!(baton.wait_for_begin(&stop), None, "stopped before");
    }

    #[test]
    fn only_clients_of_slices_with_another_clock_are_unclocked() {
        let plan = plan(&[(4, false)]);
        let (here, there) = (Slice::new(0, 2), Slice::new(1, 2));
        let baton = Baton::new(vec![there]);
        for client in 0..4 {
            let is_here = here.has(&plan.groups[0], client);
            assert_eq!(baton.is_clocked(&plan.groups[0], client), is_here, "{client}");
        }
    }
}
