//! What the broker says of itself below `$SYS/broker`, by the names that Mosquitto has for it.
//!
//! A figure is published when it is another one than the last time. The names are a table, of the
//! counters that they are made of.

use crate::asks::Asks;
use crate::metrics::CONNECTED;
use crate::port::{Answer, Counters, Request};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// What every topic begins with.
const ROOT: &str = "$SYS/broker/";

/// Minutes that an average of a load goes back.
const MINUTES: [u8; 3] = [1, 5, 15];

/// Deliveries that were not made, whatever for.
const DROPPED: &[&str] = &[
    "dropped_output_full",
    "dropped_too_large",
    "dropped_queue_full",
    "dropped_expired",
    "dropped_absent_qos0",
    "dropped_no_member",
];

/// Topics whose figures are sums of counters.
const FIGURES: &[(&str, &[&str])] = &[
    ("bytes/received", &["bytes_in"]),
    ("bytes/sent", &["bytes_out"]),
    ("clients/active", CONNECTED),
    ("clients/connected", CONNECTED),
    ("clients/expired", &["sessions_expired"]),
    ("clients/total", &["sessions"]),
    ("publish/messages/dropped", DROPPED),
    ("publish/messages/received", &["publishes_in"]),
    ("publish/messages/sent", &["publishes_out"]),
    ("retained messages/count", &["retained"]),
    ("shared_subscriptions/count", &["shared_subscriptions"]),
    ("subscriptions/count", &["subscriptions"]),
];

/// Topics whose figures are how much a minute has of what sums of counters count.
const LOADS: [(&str, &[&str]); 7] = [
    ("load/bytes/received", &["bytes_in"]),
    ("load/bytes/sent", &["bytes_out"]),
    ("load/connections", &["connects_in"]),
    ("load/publish/dropped", DROPPED),
    ("load/publish/received", &["publishes_in"]),
    ("load/publish/sent", &["publishes_out"]),
    ("load/sockets", &["connections_opened"]),
];

/// What is to be said, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sys {
    /// What runs.
    pub version: String,
    /// The time between two looks at the counters.
    pub interval: Duration,
}

impl Sys {
    /// Has shards publish what is new, again and again. What a shard does not take, because it is
    /// busy, is new the next time too.
    pub(crate) async fn publish(self, asks: Arc<Asks>) {
        let mut figures = Figures::new(&self.version, Instant::now());
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(counters) = asks.counters().await else { continue };
            for (topic, payload) in figures.changed(Instant::now(), &counters) {
                let owner = asks.owner(&topic);
                let request =
                    Request::PublishSys { topic: (*topic).into(), payload: (*payload).into() };
                if let Ok(Answer::PublishedSys(Ok(()))) = asks.ask(owner, request).await {
                    figures.said.insert(topic, payload);
                }
            }
        }
    }
}

/// What was said of the broker, and what is to be known for the next time.
struct Figures {
    version: String,
    began: Instant,
    /// The most clients that were connected at a look.
    connected_max: u64,
    loads: Option<Loads>,
    /// By topic.
    said: HashMap<String, String>,
}

/// Moving averages, by load and then by minutes.
struct Loads {
    at: Instant,
    counts: [u64; LOADS.len()],
    averages: [[f64; MINUTES.len()]; LOADS.len()],
}

impl Figures {
    fn new(version: &str, began: Instant) -> Self {
        let said = HashMap::new();
        Self {
            version: format!("weir version {version}"),
            began,
            connected_max: 0,
            loads: None,
            said,
        }
    }

    /// Topics and what is to be published there now: all of them at first.
    fn changed(&mut self, now: Instant, shards: &[Counters]) -> Vec<(String, String)> {
        let sum = sums(shards);
        let mut all: Vec<_> = FIGURES
            .iter()
            .map(|&(topic, names)| (topic.to_owned(), sum(names).to_string()))
            .collect();
        let (connected, sessions) = (sum(CONNECTED), sum(&["sessions"]));
        self.connected_max = self.connected_max.max(connected);
        let absent = sessions.saturating_sub(connected).to_string();
        let uptime = format!("{} seconds", now.duration_since(self.began).as_secs());
        for (topic, payload) in [
            ("version", self.version.clone()),
            ("uptime", uptime),
            ("clients/disconnected", absent.clone()),
            ("clients/inactive", absent),
            ("clients/maximum", self.connected_max.to_string()),
        ] {
            all.push((topic.to_owned(), payload));
        }
        self.count_loads(now, LOADS.map(|(_, names)| sum(names)));
        for ((topic, _), averages) in LOADS.iter().zip(self.loads.iter().flat_map(|it| it.averages))
        {
            for (minutes, average) in MINUTES.iter().zip(averages) {
                all.push((format!("{topic}/{minutes}min"), format!("{average:.2}")));
            }
        }
        let all = all.into_iter().map(|(topic, payload)| (format!("{ROOT}{topic}"), payload));
        all.filter(|(topic, payload)| self.said.get(topic) != Some(payload)).collect()
    }

    /// Averages forget what was: an event counts for e to the power of minus its age in units of
    /// the average's minutes.
    fn count_loads(&mut self, now: Instant, counts: [u64; LOADS.len()]) {
        let averages = match &self.loads {
            None => Default::default(),
            Some(before) => std::array::from_fn(|load| {
                let minutes = now.duration_since(before.at).as_secs_f64() / 60.0;
                let count = counts[load].saturating_sub(before.counts[load]);
                let rate = count as f64 / minutes.max(f64::MIN_POSITIVE);
                std::array::from_fn(|at| {
                    let kept = (-minutes / f64::from(MINUTES[at])).exp();
                    rate + kept * (before.averages[load][at] - rate)
                })
            }),
        };
        self.loads = Some(Loads { at: now, counts, averages });
    }
}

/// Says the sum of some counters of all shards.
fn sums(shards: &[Counters]) -> impl Fn(&[&str]) -> u64 {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for &(name, count) in shards.iter().flat_map(|counters| &counters.shard) {
        *sums.entry(name).or_default() += count;
    }
    move |names| names.iter().map(|name| sums.get(name).copied().unwrap_or(0)).sum()
}
