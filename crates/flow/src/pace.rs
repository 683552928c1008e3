//! How many of the matches a rule lets through: a share of them, or so many a second.

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

/// Lets so many a second through: a bucket that a tenth of a second's worth fills, at least one.
#[derive(Debug, Clone)]
pub(crate) struct Throttle {
    per_s: f64,
    tokens: f64,
    tokens_max: f64,
    seen_us: Option<u64>,
}

impl Throttle {
    pub(crate) fn new(per_s: f64) -> Self {
        let tokens_max = (per_s / 10.0).max(1.0);
        Self { per_s, tokens: tokens_max, tokens_max, seen_us: None }
    }

    pub(crate) fn pass(&mut self, now_us: u64) -> bool {
        let seen_us = self.seen_us.unwrap_or(now_us).min(now_us);
        let gained = (now_us - seen_us) as f64 / 1e6 * self.per_s;
        self.tokens = (self.tokens + gained).min(self.tokens_max);
        // A clock that goes back gains nothing twice.
        self.seen_us = Some(self.seen_us.unwrap_or(now_us).max(now_us));
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
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
        let mut throttle = Throttle::new(100.0);
        // Ten seconds of a message each millisecond: the burst of 10 and 100 each second.
        let passed = (0..10_000_u64).filter(|ms| throttle.pass(ms * 1000)).count();
        assert!((1_000..=1_010).contains(&passed), "{passed}");
        // A pause saves up no more than the burst.
        let late = (0..50).filter(|_| throttle.pass(60_000_000)).count();
        assert_eq!(late, 10);
    }

    #[test]
    fn a_slow_throttle_passes_one_at_first() {
        let mut throttle = Throttle::new(0.5);
        assert!(throttle.pass(0));
        assert!(!throttle.pass(1_900_000));
        assert!(throttle.pass(2_100_000));
    }

    #[test]
    fn a_clock_that_goes_back_gains_nothing() {
        let mut throttle = Throttle::new(1.0);
        assert!(throttle.pass(5_000_000));
        for now_us in [4_000_000, 5_000_000, 4_000_000, 5_100_000] {
            assert!(!throttle.pass(now_us));
        }
    }
}
