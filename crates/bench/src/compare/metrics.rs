//! What is compared, and how small a difference still matters.

use crate::metrics::{self, Metric};
use crate::stats::Better;

/// A metric that gets a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// The metric's.
    pub name: &'static str,
    /// As it stands in a table, with its unit.
    pub title: &'static str,
    /// Smallest difference that matters, as a share.
    pub relevant: f64,
}

/// All of them, in the order of the table.
///
/// The smallest differences are what such a figure moves by for no reason of the broker's: a
/// processor's clock (3 %), a scheduler's choice in the middle (5 %) and in the tail (10 %) of the
/// latency, an allocator's arenas (5 %); a rate within 1 % is the contract's.
pub const COMPARED: &[Compared] = &[
    Compared { name: "cpu_us_per_message", title: "CPU us/message", relevant: 0.03 },
    Compared { name: "latency_p50_us", title: "p50 ms", relevant: 0.05 },
    Compared { name: "latency_p99_us", title: "p99 ms", relevant: 0.10 },
    Compared { name: "broker_rss_max_bytes", title: "max RSS MB", relevant: 0.05 },
    Compared { name: "delivered_per_s", title: "delivered/s", relevant: 0.01 },
];

impl Compared {
    fn metric(&self) -> Option<&'static Metric> {
        metrics::named(self.name)
    }

    /// The figure of a run; nothing where it has none.
    pub(super) fn of(&self, run: &crate::result::RunResult) -> Option<f64> {
        (self.metric()?.of)(run)
    }

    /// Which way is good.
    pub(super) fn better(&self) -> Better {
        self.metric().and_then(|metric| metric.better).unwrap_or(Better::Less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_a_metric_that_is_good_one_way() {
        for compared in COMPARED {
            assert!(compared.metric().unwrap().better.is_some(), "{}", compared.name);
        }
    }
}
