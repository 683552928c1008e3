//! A histogram as it is kept: the figures people ask for, and the whole of it as text.

use crate::result::LatencyResult;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// The figures of a histogram of microseconds, and the histogram as V2, deflated, base64.
pub fn summarize(histogram: &Histogram<u64>) -> LatencyResult {
    let at = |quantile: f64| histogram.value_at_quantile(quantile);
    LatencyResult {
        count: histogram.len(),
        mean_us: histogram.mean(),
        min_us: if histogram.is_empty() { 0 } else { histogram.min() },
        p50_us: at(0.5),
        p75_us: at(0.75),
        p90_us: at(0.9),
        p95_us: at(0.95),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: histogram.max(),
        histogram: encode(histogram),
    }
}

/// A histogram as V2, deflated, base64.
pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing into memory fails for want of memory only; then the figures stand alone.
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    if written.is_ok() { STANDARD.encode(bytes) } else { String::new() }
}

/// The histogram of [`LatencyResult::histogram`], or nothing if the text is not one.
pub fn restore(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_comes_back_as_it_was() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        (1..=1000).for_each(|value| histogram.record(value * 37).unwrap());
        let kept = summarize(&histogram);
        assert_eq!(restore(&kept.histogram), Some(histogram));
        assert_eq!((kept.count, kept.min_us), (1000, 37));
        assert!(kept.p50_us.abs_diff(18_500) <= 37, "{}", kept.p50_us);
        assert_eq!(restore("not one"), None);
    }
}
