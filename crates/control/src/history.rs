//! The last hour of what the dashboard draws, so that a page that is opened has a past.
//!
//! Nothing is read of the shards for it: a sample is kept of counters that somebody has asked for,
//! be it a page or a scraper of metrics. Where nobody asks, nothing is kept and there is a gap.

use crate::port::{Counters, Histogram};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Two samples are at least this far apart.
const EVERY: Duration = Duration::from_secs(10);

/// An hour of them: 150 KB.
const SAMPLES_MAX: usize = 360;

/// Counters that are kept.
const KEPT: [&str; 24] = [
    "connections",
    "sessions",
    "connections_opened",
    "publishes_in",
    "publishes_out",
    "bytes_in",
    "bytes_out",
    "turns",
    "rss_bytes",
    "dropped_output_full",
    "dropped_queue_full",
    "dropped_too_large",
    "dropped_expired",
    "dropped_absent_qos0",
    "dropped_no_member",
    "reads_forbidden",
    "connections_refused",
    "refused_count",
    "refused_address",
    "refused_rate",
    "cut",
    "banned",
    "cut_strangers",
    "transport_errors",
];

#[derive(Default)]
pub(crate) struct History {
    samples: Mutex<VecDeque<Sample>>,
}

/// What is kept of the past.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Past {
    /// How many seconds old each sample is, the oldest first.
    age_s: Vec<f64>,
    /// Of each counter its sums in these samples.
    counters: BTreeMap<&'static str, Vec<u64>>,
    /// How long messages were in the broker, up to each sample.
    latency: Vec<Option<Histogram>>,
}

struct Sample {
    at: Instant,
    /// Sums of all shards, in the order of [`KEPT`].
    counts: [u64; KEPT.len()],
    /// How long messages were in the broker.
    latency: Option<Histogram>,
}

impl History {
    /// Keeps what the shards said, if it is time for another sample.
    pub(crate) fn note(&self, now: Instant, shards: &[Counters]) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|last| now.duration_since(last.at) < EVERY) {
            return;
        }
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(Sample { at: now, counts: kept(shards), latency: latency(shards) });
    }

    /// All that is kept.
    pub(crate) fn shown(&self, now: Instant) -> Past {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let ages = samples.iter().map(|sample| now.duration_since(sample.at).as_secs_f64());
        let list = |at: usize| samples.iter().map(|sample| sample.counts[at]).collect();
        let lists = KEPT.iter().enumerate().map(|(at, &name)| (name, list(at)));
        let latency = samples.iter().map(|sample| sample.latency.clone()).collect();
        Past { age_s: ages.collect(), counters: lists.collect(), latency }
    }
}

fn latency(shards: &[Counters]) -> Option<Histogram> {
    let all = shards.iter().flat_map(|shard| &shard.histograms).filter(|of| of.name == "latency");
    all.cloned().reduce(|mut sum, one| {
        sum.add(&one);
        sum
    })
}

fn kept(shards: &[Counters]) -> [u64; KEPT.len()] {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    // What the first shard says of the process holds for all.
    let process = shards.iter().take(1).flat_map(|counters| &counters.process);
    for &(name, count) in shards.iter().flat_map(|counters| &counters.shard).chain(process) {
        *sums.entry(name).or_default() += count;
    }
    KEPT.map(|name| sums.get(name).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_sums_is_kept_ten_seconds_apart() {
        let shard = |publishes| Counters {
            shard: vec![("publishes_in", publishes), ("reads", 9)],
            process: vec![("rss_bytes", 77)],
            ..Counters::default()
        };
        let (history, start) = (History::default(), Instant::now());
        assert!(history.shown(start).age_s.is_empty());
        for second in 0..5_000 {
            history.note(start + Duration::from_secs(second), &[shard(second), shard(1)]);
        }
        let Past { age_s, counters, .. } = history.shown(start + Duration::from_secs(5_000));
        assert_eq!((age_s.len(), age_s[0], age_s[359]), (360, 3600.0, 10.0));
        assert_eq!(counters["publishes_in"][359], 4_991);
        assert_eq!((counters["rss_bytes"][0], counters.get("reads")), (77, None));
    }
}
