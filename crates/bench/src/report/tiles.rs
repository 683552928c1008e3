//! The figures one looks at first, as bars: those of a use case, and four of them over all.

use super::runs::{Repeats, Use};
use super::sheets::dash;
use crate::numbers::{count, grouped, megabytes, millis};
use crate::result::{LatencyResult, RunResult};
use crate::stats::Spread;
use serde::Serialize;
use serde_json::{Value, json};

/// A figure of each broker side by side, with bars.
#[derive(Serialize)]
pub(super) struct Tile {
    name: &'static str,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Bar {
    label: String,
    colour: usize,
    text: String,
    /// Length in percent of the longest.
    share: f64,
    /// Least and highest of several runs, in the same percent, and in words.
    low: f64,
    high: f64,
    range: Option<String>,
    /// Why the figure says nothing of the broker, in a word.
    doubt: Option<&'static str>,
    /// Why there is no figure.
    missing: Option<&'static str>,
}

impl Tile {
    /// Nothing where no run has the figure.
    fn new(
        of: &Use<'_>,
        name: &'static str,
        value: impl Fn(&RunResult) -> Option<f64>,
        text: impl Fn(f64) -> String,
    ) -> Option<Self> {
        let spreads: Vec<_> = of.brokers.iter().map(|broker| broker.spread(&value)).collect();
        let longest = spreads.iter().flatten().map(|spread| spread.high).fold(0.0, f64::max);
        let share = |value: f64| {
            if longest > 0.0 { (value / longest * 1000.0).round() / 10.0 } else { 0.0 }
        };
        let bar = |(broker, spread): (&Repeats<'_>, &Option<Spread>)| Bar {
            label: broker.label.clone(),
            colour: broker.colour,
            text: spread.map_or_else(dash, |of| text(of.median)),
            share: spread.map_or(0.0, |of| share(of.median)),
            low: spread.map_or(0.0, |of| share(of.low)),
            high: spread.map_or(0.0, |of| share(of.high)),
            range: spread.filter(|_| broker.runs.len() > 1).map(|of| {
                format!("median of {} runs: {} to {}", of.count, text(of.low), text(of.high))
            }),
            doubt: broker.doubt(),
            missing: None,
        };
        let bars = of.brokers.iter().zip(&spreads).map(bar).collect();
        spreads.iter().any(Option::is_some).then_some(Self { name, bars })
    }
}

/// What a latency is at a place of its distribution; nothing where nothing was measured.
fn us(of: fn(&LatencyResult) -> u64) -> impl Fn(&RunResult) -> Option<f64> {
    move |run| run.latency().filter(|of| of.count > 0).map(|latency| of(latency) as f64)
}

fn ms(us: f64) -> String {
    format!("{} ms", millis(us))
}

/// The four figures of a use case that stand above all others: what it did, how fast, at what cost.
fn first(of: &Use<'_>) -> [Option<Tile>; 4] {
    let has_messages = of.has_messages();
    let rate = if has_messages {
        Tile::new(of, "Received per second", |run| Some(run.rates.received), count)
    } else {
        Tile::new(of, "Connected per second", |run| Some(run.rates.connected), count)
    };
    let p99 = if has_messages { "p99 latency" } else { "p99 to CONNACK" };
    let cpu = if has_messages { "Broker CPU per delivery" } else { "Broker CPU per connect" };
    let stable = |run: &RunResult| Some(run.resources.as_ref()?.rss_stable_bytes as f64);
    [
        Tile::new(of, cpu, RunResult::cpu_us_each, |us| format!("{} µs", millis(us * 1e3))),
        Tile::new(of, p99, us(|latency| latency.p99_us), ms),
        Tile::new(of, "Broker memory, stable", stable, |bytes| megabytes(bytes as u64)),
        rate,
    ]
}

/// The first figures of all use cases: a panel a figure, in it the bars of each use case.
pub(super) fn panels(uses: &[Use<'_>]) -> Vec<Value> {
    const NAMES: [&str; 4] =
        ["CPU per delivery or connect", "p99 latency", "Broker memory, stable", "Rate per second"];
    let all: Vec<_> = uses.iter().map(first).collect();
    let panel = |(at, name): (usize, &&str)| {
        let of_use = |(place, (of, tiles)): (usize, (&Use<'_>, &[Option<Tile>; 4]))| {
            let bars = &tiles[at].as_ref()?.bars;
            Some(json!({ "at": place, "name": short(of.name), "bars": bars }))
        };
        let rows: Vec<Value> = uses.iter().zip(&all).enumerate().filter_map(of_use).collect();
        json!({ "name": name, "uses": rows })
    };
    NAMES.iter().enumerate().map(panel).collect()
}

/// A use case's name without what all of the suite's have in common.
pub(super) fn short(name: &str) -> &str {
    name.trim_start_matches("singlenode-")
}

/// What a connection takes of the broker's memory, where enough of them made a difference.
fn per_connection(of: &Use<'_>) -> Option<Tile> {
    let text = |bytes: f64| format!("{bytes:.0} B");
    let mut tile = Tile::new(of, "Memory per connection", RunResult::bytes_per_connection, text)?;
    for (bar, broker) in tile.bars.iter_mut().zip(&of.brokers) {
        let is_measured = broker.spread(RunResult::bytes_per_connection).is_some();
        let is_watched = broker.runs.iter().any(|named| named.run.resources.is_some());
        bar.missing = (!is_measured && is_watched).then_some("not measurable at this scale");
    }
    Some(tile)
}

/// The figures of a use case.
pub(super) fn of(of: &Use<'_>) -> Vec<Tile> {
    let [cpu, p99, memory, rate] = first(of);
    let more = if of.has_messages() {
        [
            Tile::new(of, "Median latency", us(|latency| latency.p50_us), ms),
            Tile::new(of, "Deliveries lost", |run| Some(run.measure.lost as f64), count),
        ]
    } else {
        let made = |run: &RunResult| Some(run.connections.connected as f64);
        [Tile::new(of, "Connections made", made, |value| grouped(value as u64)), per_connection(of)]
    };
    let [one, other] = more;
    [cpu, p99, memory, rate, one, other].into_iter().flatten().collect()
}
