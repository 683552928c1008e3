//! When a bridge tries again, and where.

use std::ops::RangeInclusive;
use std::time::Duration;
use weir_chance::Chance;

/// A connection that has lasted this long was none of a remote broker that is about to refuse the
/// next one.
const STEADY_US: u64 = 10_000_000;

/// Rests between two tries: each about twice the one before, and never quite the same as that of
/// others who were lost with this one.
#[derive(Debug)]
pub(crate) struct Backoff {
    rests: RangeInclusive<Duration>,
    next: Duration,
    chance: Chance,
}

impl Backoff {
    pub(crate) fn new(rests: &RangeInclusive<Duration>, seed: u64) -> Self {
        Self { rests: rests.clone(), next: *rests.start(), chance: Chance::new(seed) }
    }

    /// A connection that lasted so long is lost.
    pub(crate) fn lasted(&mut self, us: u64) {
        if us >= STEADY_US {
            self.next = *self.rests.start();
        }
    }

    /// How long to rest now: half of it by chance.
    pub(crate) fn rest(&mut self) -> Duration {
        let rest = self.next.mul_f64(0.5 + 0.5 * self.chance.unit());
        self.next = (2 * self.next).min(*self.rests.end());
        rest
    }
}

/// Which of several places is next.
#[derive(Debug)]
pub(crate) struct Turn {
    count: usize,
    is_round_robin: bool,
    at: usize,
    /// Places that did not answer since one has, or since the last rest.
    failed: usize,
}

impl Turn {
    pub(crate) fn new(count: usize, is_round_robin: bool) -> Self {
        Self { count, is_round_robin, at: 0, failed: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The place is in use.
    pub(crate) fn worked(&mut self) {
        self.failed = 0;
    }

    /// The connection to the place is lost. Begins with the first again, if that is better.
    pub(crate) fn lost(&mut self) {
        self.at = if self.is_round_robin { (self.at + 1) % self.count } else { 0 };
        self.failed = 0;
    }

    /// The place does not answer. Says whether there is another to be tried before a rest.
    pub(crate) fn failed(&mut self) -> bool {
        self.at = (self.at + 1) % self.count;
        self.failed += 1;
        if self.failed < self.count {
            return true;
        }
        self.failed = 0;
        false
    }

    /// Whether the place is not the one that is best.
    pub(crate) fn is_second_best(&self) -> bool {
        !self.is_round_robin && self.at != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_to_a_bound_and_begin_anew_after_a_connection_that_lasted() {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(&(least..=most), 7);
        let mut bound = least;
        for _ in 0..10 {
            let rest = backoff.rest();
            assert!(rest >= bound / 2 && rest <= bound, "{rest:?} of {bound:?}");
            bound = (2 * bound).min(most);
        }
        backoff.lasted(STEADY_US - 1);
        assert!(backoff.rest() > least);
        backoff.lasted(STEADY_US);
        assert!(backoff.rest() <= least);
    }

    #[test]
    fn each_place_is_tried_once_before_a_rest() {
        for (is_round_robin, after_loss) in [(false, 0), (true, 2)] {
            let mut turn = Turn::new(3, is_round_robin);
            assert!(turn.failed());
            assert_eq!(turn.at(), 1);
            turn.worked();
            assert_eq!(turn.is_second_best(), !is_round_robin);
            turn.lost();
            assert_eq!(turn.at(), after_loss);
            assert!(turn.failed() && turn.failed() && !turn.failed(), "all three, then a rest");
            assert_eq!(turn.at(), after_loss);
        }
        assert!(!Turn::new(1, false).failed());
    }
}
