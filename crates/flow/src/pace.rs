//! How many of the matches a rule lets through: a share of them, or so many per second.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_chance::Chance;

/// Lets a share through, chosen by a generator with a seed: the same input, the same choice.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    share: f64,
    chance: Chance,
}

impl Sample {
    /// Of a share from 0 to 1; rules with other names choose otherwise.
    pub(crate) fn new(share: f64, name: &str) -> Self {
        let seed = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self { share, chance: Chance::new(seed) }
    }

    pub(crate) fn pass(&mut self) -> bool {
        self.chance.unit() < self.share
    }
}

/// Lets so many per second through, with bursts of a tenth of a second's worth, at least one. All
/// threads of a flow share it, so it makes no difference which of them a match comes up on.
#[derive(Debug)]
pub(crate) struct Throttle {
    interval_ns: u64,
    /// How much earlier one may pass than if each waited for its turn.
    burst_ns: u64,
    /// When the next one's turn is.
    turn_ns: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(per_s: f64) -> Self {
        let burst = (per_s / 10.0).max(1.0) - 1.0;
        let interval_ns = 1e9 / per_s;
        Self {
            interval_ns: interval_ns as u64,
            burst_ns: (burst * interval_ns) as u64,
            turn_ns: AtomicU64::new(0),
        }
    }

    /// Whether a match passes now, in microseconds of a clock that all threads share. If it goes
    /// back, nothing is gained twice.
    pub(crate) fn pass(&self, now_us: u64) -> bool {
        let now_ns = now_us.saturating_mul(1_000);
        let next = |turn_ns: u64| {
            let turn_ns = turn_ns.max(now_ns);
            let is_early = turn_ns - now_ns > self.burst_ns;
            (!is_early).then(|| turn_ns.saturating_add(self.interval_ns))
        };
        // Nothing else is told by it, so no order with other memory is needed.
        self.turn_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_passes_its_share() {
        for share in [0.0, 0.1, 0.5, 1.0] {
            let mut sample = Sample::new(share, "cells");
            let passed = (0..100_000).filter(|_| sample.pass()).count() as f64;
            assert!((passed / 100_000.0 - share).abs() < 0.005, "{share}: {passed}");
        }
    }

    #[test]
    fn a_throttle_passes_its_rate_and_no_more() {
        let throttle = Throttle::new(100.0);
        // Ten seconds of a message each millisecond: the burst of 10 and 100 each second.
        let passed = (0..10_000_u64).filter(|ms| throttle.pass(ms * 1000)).count();
        assert!((1_000..=1_010).contains(&passed), "{passed}");
        // A pause saves up no more than the burst.
        let late = (0..50).filter(|_| throttle.pass(60_000_000)).count();
        assert_eq!(late, 10);
    }

    #[test]
    fn threads_that_share_one_pass_its_rate_together() {
        let throttle = Throttle::new(100_000.0);
        let passed: usize = std::thread::scope(|scope| {
            let each = || (0..200_000_u64).filter(|us| throttle.pass(*us)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // A fifth of a second and the burst; whose clock is behind passes nothing more.
        assert!((20_000..=30_000).contains(&passed), "{passed}");
    }

    #[test]
    fn a_slow_throttle_passes_one_at_first() {
        let throttle = Throttle::new(0.5);
        assert!(throttle.pass(0));
        assert!(!throttle.pass(1_900_000));
        assert!(throttle.pass(2_100_000));
    }

    #[test]
    fn a_clock_that_goes_back_gains_nothing() {
        let throttle = Throttle::new(1.0);
        assert!(throttle.pass(5_000_000));
        for now_us in [4_000_000, 5_000_000, 4_000_000, 5_100_000] {
            assert!(!throttle.pass(now_us));
        }
    }
}
