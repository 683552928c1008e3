//! The histograms of latencies.

use hdrhistogram::Histogram;

/// Longest latency told apart: one hour. Longer ones count as this.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// A histogram of microseconds with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("1 us to 1 h in 3 digits is a range")
}

/// A histogram of one interval: small enough to be cleared and read every interval.
pub(crate) fn sketch() -> Histogram<u32> {
    let histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 2);
    histogram.expect("1 us to 1 h in 2 digits is a range")
}
