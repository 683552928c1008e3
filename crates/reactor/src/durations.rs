//! How often something took how long.

/// What is counted apart, in microseconds: at most so long, and longer than the one before.
pub const BOUNDS_US: [u64; 14] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

/// How often something took how long: a histogram of [`BOUNDS_US`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// By bound; the last one is for all that took longer than any.
    pub counts: [u64; BOUNDS_US.len() + 1],
    /// All of them together, in microseconds.
    pub us_sum: u64,
}

impl Durations {
    /// So many times, it took so long.
    #[inline]
    pub fn add(&mut self, us: u64, times: u64) {
        self.counts[BOUNDS_US.partition_point(|&bound| bound < us)] += times;
        self.us_sum += us * times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_at_the_first_bound_that_it_is_not_over() {
        let mut durations = Durations::default();
        for (us, times) in [(0, 1), (50, 2), (51, 4), (1_000_000, 8), (1_000_001, 16)] {
            durations.add(us, times);
        }
        let [first, second, .., last, over] = durations.counts;
        assert_eq!([first, second, last, over], [3, 4, 8, 16]);
        assert_eq!(durations.us_sum, 100 + 51 * 4 + 8_000_000 + 16 * 1_000_001);
    }
}
