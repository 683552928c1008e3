//! The tables of the page.

use super::runs::{Named, Use, status};
use super::shape;
use crate::metrics::{self, Metric, Place, Sheet};
use crate::numbers::{cores, count, grouped, mega};
use crate::published::Published;
use crate::result::{Resources, RunResult};
use crate::tables::latency_cells;
use serde::Serialize;
use serde_json::{Value, json};

const LATENCY_HEAD: [&str; 8] = ["avg", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// Figures of a run in the table over all of them, as the template heads them.
const SUMMARY_CELLS: usize = 8;

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
        if !run.has_figures() {
            let cells = std::iter::repeat_with(dash).take(SUMMARY_CELLS).collect();
            return Row { status: Some(status(run)), ..Row::of(named, cells) };
        }
        let latency = latency_cells(run.latency());
        let resources = run.resources.as_ref();
        let each = run.cpu_us_each();
        let cells = vec![
            rate(run),
            latency[0].clone(),
            latency[5].clone(),
            latency[7].clone(),
            lost(run),
            or_dash(resources, |of| cores(of.cpu_cores_avg)),
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
        let run = Some(named.run).filter(|run| run.has_figures());
        let mut cells = vec![run.map_or_else(dash, rate)];
        cells.extend(latency_cells(run.and_then(RunResult::latency)));
        Row { status: Some(status(named.run)), ..Row::of(named, cells) }
    };
    let theirs = |row: &Published| {
        let at = |name: &str| number(row.latency_ms.get(name).copied());
        let mut cells = vec![word(row.rate.as_ref()), number(row.latency_ms_avg)];
        cells.extend(["p50", "p75", "p90", "p95", "p99", "p999", "max"].map(at));
        Row::published(row, cells)
    };
    // What a published row has beside percentiles stands in the table of the suite's page.
    let published = published.iter().filter(|row| !row.latency_ms.is_empty());
    let rows = of.runs.iter().map(ours).chain(published.map(theirs)).collect();
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
    Table { title, head, rows: with_figures(of).map(row).collect() }
}

/// Every latency of every run, and the generator's own part.
fn response_times(of: &Use<'_>) -> Table {
    const KINDS: [(&str, &str); 9] = [
        ("connect", "connect"),
        ("connect: TCP", "tcp_connect"),
        ("connect: handshake of TLS or WebSocket", "handshake"),
        ("connect: CONNECT to CONNACK", "connack"),
        ("subscribe", "subscribe"),
        ("publish to acknowledgement", "acknowledge"),
        ("end to end, from the intended send", "end_to_end"),
        ("end to end, from the actual send", "end_to_end_from_send"),
        ("lag of the load generator", "generator_lag"),
    ];
    let head = ["count"].into_iter().chain(LATENCY_HEAD).collect();
    let mut rows = Vec::new();
    for (kind, name) in KINDS {
        for named in with_figures(of) {
            let Some(latency) = named.run.latencies.get(name) else { continue };
            let mut cells = vec![grouped(latency.count)];
            cells.extend(latency_cells(Some(latency)));
            let row = Row::of(named, cells);
            rows.push(Row { label: format!("{}: {kind}", row.label), ..row });
        }
    }
    Table { title: "Response times by kind, ms", head, rows }
}

fn with_figures<'a, 'b>(of: &'b Use<'a>) -> impl Iterator<Item = &'b Named<'a>> {
    of.runs.iter().filter(|named| named.run.has_figures())
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

pub(super) fn dash() -> String {
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
