//! The latencies of one interval in full, kept small: what heat maps and interval logs are made of.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// Histograms of microseconds with two significant digits, each as HdrHistogram's V2 bytes: some
/// hundred bytes where the counters themselves would be thirteen thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    connect: Vec<u8>,
    end_to_end: Vec<u8>,
}

impl Distribution {
    pub(crate) fn of(connect: &Histogram<u32>, end_to_end: &Histogram<u32>) -> Self {
        Self { connect: bytes(connect), end_to_end: bytes(end_to_end) }
    }

    /// connect() to CONNACK in this interval, in microseconds; nothing where nothing was measured.
    pub fn connect(&self) -> Option<Histogram<u64>> {
        histogram(&self.connect)
    }

    /// Intended time to receipt, of what was received in this interval, in microseconds.
    pub fn end_to_end(&self) -> Option<Histogram<u64>> {
        histogram(&self.end_to_end)
    }
}

fn bytes(histogram: &Histogram<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing into memory fails for want of memory only; then the interval has no distribution.
    let is_written =
        !histogram.is_empty() && V2Serializer::new().serialize(histogram, &mut bytes).is_ok();
    if is_written { bytes } else { Vec::new() }
}

fn histogram(mut bytes: &[u8]) -> Option<Histogram<u64>> {
    if bytes.is_empty() { None } else { Deserializer::new().deserialize(&mut bytes).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::sketch;

    #[test]
    fn a_distribution_keeps_each_latency_apart_and_none_where_none_was() {
        let mut connect = sketch();
        (1..=100).for_each(|value| connect.record(value * 1000).unwrap());
        let kept = Distribution::of(&connect, &sketch());
        let back = kept.connect().unwrap();
        assert_eq!((back.len(), back.max()), (100, connect.max()));
        assert_eq!(kept.end_to_end(), None);
        assert!(kept.connect.len() < 1_000, "{} bytes", kept.connect.len());
    }
}
