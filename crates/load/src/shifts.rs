//! Runs that go abreast: all are up at once, and each publishes in its shifts of the clock.
//!
//! On a shared host a processor's speed wanders within seconds. What is loaded in turn for a tenth
//! of a second each meets the same speed, run by run.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From the last seat's coming to the begin: all look up at least twice meanwhile.
const NOTICE_US: u64 = 100_000;

/// Of each `of` shifts of the monotonic clock the one at `index` is one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shifts {
    /// Length of a shift in microseconds, above 0.
    pub length_us: u64,
    /// Nothing is due for so long after each shift: what is on its way arrives.
    pub pause_us: u64,
    /// From 0.
    pub index: u32,
    /// Runs that take turns.
    pub of: u32,
}

impl Shifts {
    /// Why it cannot be; nothing if it can.
    pub(crate) fn fault(&self) -> Option<String> {
        let is_right = self.length_us > 0 && self.index < self.of;
        (!is_right).then(|| format!("{self:?} are no shifts"))
    }

    /// Share of the time that is one's own.
    pub fn share(&self) -> f64 {
        self.length_us as f64 / self.cycle_us() as f64
    }

    fn cycle_us(&self) -> u64 {
        u64::from(self.of) * (self.length_us + self.pause_us)
    }

    /// The first begin of a cycle that is not before `at_us`. Publishing begins there: so what is
    /// due by when is known before it is known when that will be.
    pub(crate) fn cycle_from(&self, at_us: u64) -> u64 {
        at_us.next_multiple_of(self.cycle_us())
    }

    fn begin_us(&self) -> u64 {
        u64::from(self.index) * (self.length_us + self.pause_us)
    }

    /// Microseconds of one's own shifts before `at_us`.
    #[inline]
    pub(crate) fn own_us(&self, at_us: u64) -> u64 {
        let (cycles, within) = (at_us / self.cycle_us(), at_us % self.cycle_us());
        cycles * self.length_us + within.saturating_sub(self.begin_us()).min(self.length_us)
    }

    /// When so many microseconds of one's own shifts are over, within one of them.
    #[inline]
    pub(crate) fn at_us(&self, own_us: u64) -> u64 {
        let (cycles, within) = (own_us / self.length_us, own_us % self.length_us);
        cycles * self.cycle_us() + self.begin_us() + within
    }
}

/// Where runs that go abreast wait for each other before they publish. Clones are the same barrier.
#[derive(Clone, Debug)]
pub struct StartBarrier(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    missing: u32,
    go_us: Option<u64>,
}

/// The place of one run at a [`StartBarrier`]. Dropped, it is waited for no longer.
#[derive(Debug)]
pub struct Seat {
    barrier: StartBarrier,
    is_taken: AtomicBool,
}

impl StartBarrier {
    /// It opens when `runs` seats have come or are gone.
    pub fn new(runs: u32) -> Self {
        Self(Arc::new(Mutex::new(Waiting { missing: runs, go_us: None })))
    }

    /// One of its seats; the caller takes no more than there are.
    pub fn seat(&self) -> Seat {
        Seat { barrier: self.clone(), is_taken: AtomicBool::new(false) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn take(&self) {
        if !self.is_taken.swap(true, Ordering::Relaxed) {
            self.barrier.waiting().missing -= 1;
        }
    }

    /// This run is ready, `now_us`. When all begin, once all are.
    pub(crate) fn go_us(&self, now_us: u64) -> Option<u64> {
        self.take();
        let mut waiting = self.barrier.waiting();
        if waiting.missing == 0 && waiting.go_us.is_none() {
            waiting.go_us = Some(now_us + NOTICE_US);
        }
        waiting.go_us
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_moment_is_one_shift_s_at_most_and_there_and_back_is_the_same(
            length_us in 1u64..200_000, pause_us in 0u64..10_000, of in 1u32..8,
            own_us in 0u64..10_000_000,
        ) {
            let of_all = |index| Shifts { length_us, pause_us, index, of };
            let at: Vec<u64> = (0..of).map(|index| of_all(index).at_us(own_us)).collect();
            prop_assert!(at.windows(2).all(|two| two[1] - two[0] == length_us + pause_us));
            for (index, at_us) in (0..).zip(at) {
                prop_assert_eq!(of_all(index).own_us(at_us), own_us);
                let moves = |index| of_all(index).own_us(at_us + 1) > of_all(index).own_us(at_us);
                prop_assert_eq!((0..of).filter(|&other| moves(other)).collect::<Vec<_>>(), [index]);
            }
        }
    }

    #[test]
    fn a_gate_opens_when_all_have_come_or_are_gone_at_one_time_for_all() {
        let barrier = StartBarrier::new(3);
        let (one, two, three) = (barrier.seat(), barrier.seat(), barrier.seat());
        assert_eq!((one.go_us(10), one.go_us(11), two.go_us(12)), (None, None, None));
        drop(three);
        assert_eq!((two.go_us(20), one.go_us(21)), (Some(100_020), Some(100_020)));
    }

    #[test]
    fn a_cycle_begins_at_its_own_multiples_and_shares_are_of_it() {
        let shifts = Shifts { length_us: 90, pause_us: 10, index: 1, of: 3 };
        let found = [0, 1, 300, 301].map(|at_us| shifts.cycle_from(at_us));
        assert_eq!(found, [0, 300, 300, 600]);
        assert_eq!(shifts.share(), 0.3);
        assert_eq!((shifts.at_us(0), shifts.at_us(89), shifts.at_us(90)), (100, 189, 400));
    }

    #[test]
    fn shifts_that_cannot_be_are_named() {
        let shifts = Shifts { length_us: 1, pause_us: 0, index: 2, of: 3 };
        assert_eq!(shifts.fault(), None);
        for wrong in [Shifts { length_us: 0, ..shifts }, Shifts { index: 3, ..shifts }] {
            assert!(wrong.fault().unwrap().ends_with("are no shifts"), "{wrong:?}");
        }
    }
}
