//! What is compared, and how small a difference still matters.

use crate::result::RunResult;
use crate::stats::Better;

/// One figure of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As it is kept: `cpu_us_per_message`.
    pub name: &'static str,
    /// As it stands in a table, with its unit.
    pub title: &'static str,
    /// Which way is good.
    pub better: Better,
    /// Smallest difference that matters, as a share.
    pub relevant: f64,
    /// The figure of a run; nothing where it has none.
    pub of: fn(&RunResult) -> Option<f64>,
}

/// All of them, in the order of the table.
///
/// The smallest differences are what such a figure moves by for no reason of the broker's: a
/// processor's clock (3 %), a scheduler's choice in the middle (5 %) and in the tail (10 %) of the
/// latency, an allocator's arenas (5 %); a rate within 1 % is the contract's.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "cpu_us_per_message",
        title: "CPU us/message",
        better: Better::Less,
        relevant: 0.03,
        of: cpu_us,
    },
    Metric {
        name: "latency_p50_us",
        title: "p50 ms",
        better: Better::Less,
        relevant: 0.05,
        of: |run| latency(run, |of| of.p50_us),
    },
    Metric {
        name: "latency_p99_us",
        title: "p99 ms",
        better: Better::Less,
        relevant: 0.10,
        of: |run| latency(run, |of| of.p99_us),
    },
    Metric {
        name: "rss_max_bytes",
        title: "max RSS MB",
        better: Better::Less,
        relevant: 0.05,
        of: |run| run.resources.as_ref().map(|of| of.rss_max_bytes as f64),
    },
    Metric {
        name: "delivered_per_s",
        title: "delivered/s",
        better: Better::More,
        relevant: 0.01,
        of: rate,
    },
];

/// CPU of the broker and of the kernel's network thread that works for it, by deliveries; by
/// connections made where nothing is published.
fn cpu_us(run: &RunResult) -> Option<f64> {
    let of = run.resources.as_ref()?;
    let (own, softirq_us, count) = if run.use_case.qos.is_some() {
        (of.cpu_us_per_delivery?, of.softirq_us, of.deliveries)
    } else {
        (of.cpu_us_per_connection?, of.connect_softirq_us, run.connections.connected)
    };
    Some(own + softirq_us.unwrap_or(0) as f64 / count.max(1) as f64)
}

/// Of messages, or of connections where nothing is published.
fn latency(run: &RunResult, of: fn(&crate::result::LatencyResult) -> u64) -> Option<f64> {
    let name = if run.use_case.qos.is_some() { "end_to_end" } else { "connect" };
    run.latencies.get(name).filter(|latency| latency.count > 0).map(|latency| of(latency) as f64)
}

/// Messages received, or connections made, a second.
fn rate(run: &RunResult) -> Option<f64> {
    let rate = if run.use_case.qos.is_some() { run.rates.received } else { run.rates.connected };
    (rate > 0.0).then_some(rate)
}
