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
use tokio::sync::watch;
use tokio::time::Instant;

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

/// What is to be said; it may be another while it is said.
#[derive(Clone, Debug)]
pub struct SysBook(Arc<watch::Sender<Option<Sys>>>);

impl SysBook {
    /// Nothing is said without a value.
    pub(crate) fn new(sys: Option<Sys>) -> Self {
        Self(Arc::new(watch::Sender::new(sys)))
    }

    /// This is said from now on; without a value nothing is, and what was said is taken back.
    pub fn set(&self, sys: Option<Sys>) {
        self.0.send_if_modified(|old| {
            let is_other = *old != sys;
            *old = sys;
            is_other
        });
    }

    /// Has shards publish what is new, again and again. What a shard does not take, because it is
    /// busy, is new the next time too.
    pub(crate) async fn publish(self, asks: Arc<Asks>) {
        let (mut changed, began) = (self.0.subscribe(), Instant::now());
        let mut figures: Option<Figures> = None;
        loop {
            let sys = changed.borrow_and_update().clone();
            let interval = match sys {
                Some(Sys { version, interval }) => {
                    let figures = figures.get_or_insert_with(|| Figures::new(&version, began));
                    figures.publish(&asks).await;
                    interval
                }
                None => {
                    if let Some(figures) = figures.take() {
                        figures.take_back(&asks).await;
                    }
                    Duration::MAX
                }
            };
            // This task has a sender, so there is always one.
            let _ = tokio::time::timeout(interval, changed.changed()).await;
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
    /// Has shards publish what is new.
    async fn publish(&mut self, asks: &Asks) {
        let Ok(counters) = asks.counters().await else { return };
        for (topic, payload) in self.changed(Instant::now(), &counters) {
            if say(asks, &topic, &payload).await {
                self.said.insert(topic, payload);
            }
        }
    }

    /// Has nothing of it be retained any more.
    async fn take_back(self, asks: &Asks) {
        for topic in self.said.into_keys() {
            // A shard that is busy keeps an old figure, which nobody changes any more.
            let _ = say(asks, &topic, "").await;
        }
    }

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

/// Has the shard of a topic publish there. Says whether it did.
async fn say(asks: &Asks, topic: &str, payload: &str) -> bool {
    let request = Request::PublishSys { topic: topic.into(), payload: payload.into() };
    let answer = asks.ask(asks.owner(topic), request).await;
    matches!(answer, Ok(Answer::PublishedSys(Ok(()))))
}

/// Says the sum of some counters of all shards.
fn sums(shards: &[Counters]) -> impl Fn(&[&str]) -> u64 {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for &(name, count) in shards.iter().flat_map(|counters| &counters.shard) {
        *sums.entry(name).or_default() += count;
    }
    move |names| names.iter().map(|name| sums.get(name).copied().unwrap_or(0)).sum()
}
