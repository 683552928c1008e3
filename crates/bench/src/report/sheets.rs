//! The tables of the page, and the tiles with the few figures one looks at first.

use super::runs::{Named, Repeats, Use, status};
use super::shape;
use crate::metrics::{self, Metric, Place, Sheet};
use crate::numbers::{count, grouped, mega, millis};
use crate::published::Published;
use crate::result::{LatencyResult, Resources, RunResult};
use crate::stats::Spread;
use crate::tables::latency_cells;
use serde::Serialize;
use serde_json::{Value, json};

const LATENCY_HEAD: [&str; 8] = ["avg", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// A table with the runs as rows.
#[derive(Serialize)]
pub(super) struct Table {
    title: &'static str,
    head: Vec<&'static str>,
    rows: Vec<Row>,
}

/// A row: a run of ours, or a published one.
#[derive(Serialize)]
struct Row {
    label: String,
    /// Absent for a published row.
    colour: Option<usize>,
    /// A verdict, where the table shows it.
    status: Option<&'static str>,
    /// The source of a published row.
    source: Option<String>,
    cells: Vec<String>,
}

impl Row {
    fn of(named: &Named<'_>, cells: Vec<String>) -> Self {
        let Named { label, colour, .. } = named;
        Self { label: label.clone(), colour: Some(*colour), status: None, source: None, cells }
    }

    fn published(row: &Published, cells: Vec<String>) -> Self {
        let label = format!("{} {}", row.broker, row.version);
        Self { label, colour: None, status: None, source: Some(row.source.clone()), cells }
    }
}

/// A use case's part of the table over all runs.
pub(super) fn summary(of: &Use<'_>) -> Value {
    let row = |named: &Named<'_>| {
        let run = named.run;
        let latency = latency_cells(run.latency());
        let resources = run.resources.as_ref();
        let each = run.cpu_us_each();
        let cells = vec![
            rate(run),
            latency[0].clone(),
            latency[5].clone(),
            latency[7].clone(),
            lost(run),
            or_dash(resources, |of| format!("{:.2}", of.cpu_cores_avg)),
            each.map_or_else(dash, |each| format!("{each:.2}")),
            or_dash(resources, |of| mega(of.rss_stable_bytes)),
        ];
        Row { status: Some(status(run)), ..Row::of(named, cells) }
    };
    json!({ "name": of.name, "rows": of.runs.iter().map(row).collect::<Vec<_>>() })
}

/// The tables of a use case.
pub(super) fn sheets(of: &Use<'_>, published: &[Published]) -> Vec<Table> {
    let has_messages = of.has_messages();
    let resources = Sheet::Resources { of_messages: has_messages };
    let contract = if has_messages { Sheet::Deliveries } else { Sheet::Connections };
    vec![
        pages(of, published),
        results(of, published),
        metrics(of, "The broker's CPU and memory", resources),
        metrics(of, if has_messages { "Every delivery" } else { "Every connection" }, contract),
        response_times(of),
    ]
}

/// The table of the suite's results page.
fn pages(of: &Use<'_>, published: &[Published]) -> Table {
    let shape = shape::metrics(of);
    let colours = of.brokers.iter().map(|broker| Some(broker.colour));
    let sources = published.iter().map(|row| Some(row.source.clone()));
    let colours = colours.chain(published.iter().map(|_| None));
    let sources = of.brokers.iter().map(|_| None).chain(sources);
    let rows = shape.rows.into_iter().zip(colours.zip(sources));
    let rows = rows.map(|((label, cells), (colour, source))| Row {
        label,
        colour,
        status: None,
        source,
        cells,
    });
    Table { title: "As on the suite's results pages", head: shape.head, rows: rows.collect() }
}

fn results(of: &Use<'_>, published: &[Published]) -> Table {
    let (title, rate_name) = if of.has_messages() {
        ("Rate and latency from the intended send to the receipt, ms", "published : received /s")
    } else {
        ("Rate and latency from connect to CONNACK, ms", "connects /s")
    };
    let ours = |named: &Named<'_>| {
        let mut cells = vec![rate(named.run)];
        cells.extend(latency_cells(named.run.latency()));
        Row { status: Some(status(named.run)), ..Row::of(named, cells) }
    };
    let theirs = |row: &Published| {
        let at = |name: &str| number(row.latency_ms.get(name).copied());
        let mut cells = vec![word(row.rate.as_ref()), number(row.latency_ms_avg)];
        cells.extend(["p50", "p75", "p90", "p95", "p99", "p999", "max"].map(at));
        Row::published(row, cells)
    };
    let rows = of.runs.iter().map(ours).chain(published.iter().map(theirs)).collect();
    let head = [rate_name].into_iter().chain(LATENCY_HEAD).collect();
    Table { title, head, rows }
}

fn metrics(of: &Use<'_>, title: &'static str, sheet: Sheet) -> Table {
    let columns = || metrics::columns(sheet, Place::Page);
    let row = |named: &Named<'_>| {
        let cell = |(metric, _): (&Metric, _)| metric.cell(named.run, Place::Page);
        Row::of(named, columns().map(|column| cell(column).unwrap_or_else(dash)).collect())
    };
    let head = columns().map(|(_, title)| title).collect();
    Table { title, head, rows: of.runs.iter().map(row).collect() }
}

/// Every latency of every run, and the generator's own part.
fn response_times(of: &Use<'_>) -> Table {
    const KINDS: [(&str, &str); 6] = [
        ("connect", "connect"),
        ("subscribe", "subscribe"),
        ("publish to acknowledgement", "acknowledge"),
        ("end to end, from the intended send", "end_to_end"),
        ("end to end, from the actual send", "end_to_end_from_send"),
        ("lag of the load generator", "generator_lag"),
    ];
    let head = ["count"].into_iter().chain(LATENCY_HEAD).collect();
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        for named in &of.runs {
            let Some(latency) = named.run.latencies.get(name) else { continue };
            let mut cells = vec![grouped(latency.count)];
            cells.extend(latency_cells(Some(latency)));
            let row = Row::of(named, cells);
            rows.push(Row { label: format!("{}: {kind}", row.label), ..row });
        }
    }
    Table { title: "Response times by kind, ms", head, rows }
}

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
                format!(
                    "median of {} runs: {} to {}",
                    broker.runs.len(),
                    text(of.low),
                    text(of.high)
                )
            }),
        };
        let bars = of.brokers.iter().zip(&spreads).map(bar).collect();
        spreads.iter().any(Option::is_some).then_some(Self { name, bars })
    }
}

/// The figures one looks at first.
pub(super) fn tiles(of: &Use<'_>) -> Vec<Tile> {
    let has_messages = of.has_messages();
    let us = |of: fn(&LatencyResult) -> u64| {
        move |run: &RunResult| {
            run.latency().filter(|of| of.count > 0).map(|latency| of(latency) as f64)
        }
    };
    let ms = |us: f64| format!("{} ms", millis(us));
    let whole = |value: f64| grouped(value as u64);
    let mut tiles = if has_messages {
        vec![
            Tile::new(of, "Received per second", |run| Some(run.rates.received), count),
            Tile::new(of, "Median latency", us(|latency| latency.p50_us), ms),
            Tile::new(of, "p99 latency", us(|latency| latency.p99_us), ms),
            Tile::new(of, "Deliveries lost", |run| Some(run.measure.lost as f64), count),
        ]
    } else {
        vec![
            Tile::new(of, "Connections made", |run| Some(run.connections.connected as f64), whole),
            Tile::new(of, "Median to CONNACK", us(|latency| latency.p50_us), ms),
            Tile::new(of, "p99 to CONNACK", us(|latency| latency.p99_us), ms),
            Tile::new(of, "Memory per connection", RunResult::bytes_per_connection, |b| {
                format!("{b:.0} B")
            }),
        ]
    };
    let name = if has_messages { "Broker CPU per delivery" } else { "Broker CPU per connect" };
    tiles
        .push(Tile::new(of, name, RunResult::cpu_us_each, |us| format!("{} µs", millis(us * 1e3))));
    let stable = |run: &RunResult| Some(run.resources.as_ref()?.rss_stable_bytes as f64);
    tiles.push(Tile::new(of, "Broker memory, stable", stable, |bytes| mega(bytes as u64)));
    tiles.into_iter().flatten().collect()
}

fn rate(run: &RunResult) -> String {
    if run.use_case.qos.is_some() {
        format!("{} : {}", count(run.rates.published), count(run.rates.received))
    } else {
        count(run.rates.connected)
    }
}

/// Deliveries that never came; of a use case without messages, connections failed or dropped.
fn lost(run: &RunResult) -> String {
    if run.use_case.qos.is_some() {
        return grouped(run.measure.lost);
    }
    let of = &run.connections;
    grouped(of.failed.values().chain(of.dropped.values()).sum())
}

fn dash() -> String {
    "–".into()
}

fn or_dash(of: Option<&Resources>, text: impl Fn(&Resources) -> String) -> String {
    of.map_or_else(dash, text)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(dash, |value| value.to_string())
}

fn word(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(dash)
}
