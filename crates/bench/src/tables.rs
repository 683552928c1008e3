//! The tables of mqttbs, in the terminal.

use crate::published::{self, Published};
use crate::result::{LatencyResult, RunResult, Status};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// Longest name of a broker in a table.
const NAME_CHARS_MAX: usize = 26;

/// Every use case with its runs, and the published figures beneath.
pub fn render(results: &[RunResult]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for result in results {
        if !names.contains(&result.use_case.name.as_str()) {
            names.push(&result.use_case.name);
        }
    }
    let mut text = String::new();
    for name in names {
        let runs: Vec<&RunResult> =
            results.iter().filter(|result| result.use_case.name == name).collect();
        use_case(&mut text, name, &runs);
    }
    text
}

fn use_case(text: &mut String, name: &str, runs: &[&RunResult]) {
    let Some(first) = runs.first() else { return };
    let _ = writeln!(text, "\n{name}");
    let _ = writeln!(
        text,
        "  {}; measured {} s{}",
        first.use_case.about,
        first.use_case.duration_s,
        scale_of(first)
    );
    let has_messages = first.use_case.qos.is_some();
    let mut tables = vec![latency_table(runs, has_messages), resource_table(runs, has_messages)];
    tables.push(if has_messages { delivery_table(runs) } else { connection_table(runs) });
    for table in tables {
        let _ = writeln!(text, "{table}");
    }
    for run in runs {
        for reason in &run.verdict.reasons {
            let _ = writeln!(text, "  {} {}: {reason}", broker(run), status(run));
        }
    }
    let rows = published::of(name);
    if !rows.is_empty() {
        let _ = writeln!(text, "  published elsewhere, not measured here ({}):", published::WHERE);
        let _ = writeln!(text, "{}", published_table(&rows));
    }
}

fn scale_of(run: &RunResult) -> String {
    if run.use_case.scale >= 1.0 {
        return String::new();
    }
    format!("; SCALE {:.4} of the suite's size", run.use_case.scale)
}

/// The broker as a table names it.
pub(crate) fn broker(run: &RunResult) -> String {
    let version = run.broker.version.split(' ').next().unwrap_or_default();
    match run.broker.profile.as_str() {
        "tuned" => format!("{} {version} tuned", run.broker.name),
        _ => format!("{} {version}", run.broker.name),
    }
}

/// The same, cut to what a terminal has room for.
fn short(run: &RunResult) -> String {
    let name = broker(run);
    if name.chars().count() <= NAME_CHARS_MAX {
        return name;
    }
    name.chars().take(NAME_CHARS_MAX - 3).chain("...".chars()).collect()
}

/// The verdict in a word.
pub(crate) fn status(run: &RunResult) -> &'static str {
    match run.verdict.status {
        Status::Passed => "passed",
        Status::Failed => "FAILED",
        Status::Invalid => "INVALID",
        Status::Aborted => "ABORTED",
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn latency_table(runs: &[&RunResult], has_messages: bool) -> Table {
    let rate = if has_messages { "rate in:out /s" } else { "connects /s" };
    let mut table = table([
        "broker", "verdict", rate, "avg ms", "p50", "p75", "p90", "p95", "p99", "p99.9", "max",
    ]);
    for run in runs {
        let name = if has_messages { "end_to_end" } else { "connect" };
        let none = LatencyResult::default();
        let latency = run.latencies.get(name).unwrap_or(&none);
        let rates = &run.rates;
        let rate = if has_messages {
            format!("{}:{}", count(rates.published), count(rates.received))
        } else {
            count(rates.connected)
        };
        table.add_row([
            short(run),
            status(run).into(),
            rate,
            millis(latency.mean_us),
            millis(latency.p50_us as f64),
            millis(latency.p75_us as f64),
            millis(latency.p90_us as f64),
            millis(latency.p95_us as f64),
            millis(latency.p99_us as f64),
            millis(latency.p999_us as f64),
            millis(latency.max_us as f64),
        ]);
    }
    table
}

fn resource_table(runs: &[&RunResult], has_messages: bool) -> Table {
    let each = if has_messages { "us/delivery" } else { "us/connect" };
    let mut table = table([
        "broker",
        "CPU cores",
        "max",
        "% avg",
        "% max",
        each,
        "mem max",
        "avg",
        "stable",
        "load CPU",
    ]);
    for run in runs {
        let load = format!("{:.2}", run.generator.cpu_cores_avg);
        let Some(of) = &run.resources else {
            let missing = || "-".to_owned();
            let mut row = vec![short(run)];
            row.extend((0..8).map(|_| missing()));
            row.push(load);
            table.add_row(row);
            continue;
        };
        let each = if has_messages { of.cpu_us_per_delivery } else { of.cpu_us_per_connection };
        table.add_row([
            short(run),
            format!("{:.2}", of.cpu_cores_avg),
            format!("{:.2}", of.cpu_cores_max),
            format!("{:.0}", of.cpu_percent_avg),
            format!("{:.0}", of.cpu_percent_max),
            each.map_or_else(|| "-".into(), |each| format!("{each:.2}")),
            mega(of.rss_max_bytes),
            mega(of.rss_avg_bytes),
            mega(of.rss_stable_bytes),
            load,
        ]);
    }
    table
}

fn delivery_table(runs: &[&RunResult]) -> Table {
    let mut table = table([
        "broker",
        "sent",
        "accepted",
        "expected",
        "delivered",
        "lost",
        "dup",
        "reordered",
        "stray",
        "success %",
    ]);
    for run in runs {
        let messages = &run.measure;
        table.add_row([
            short(run),
            messages.sent.to_string(),
            messages.accepted.to_string(),
            messages.expected.to_string(),
            messages.delivered.to_string(),
            messages.lost.to_string(),
            messages.duplicated.to_string(),
            messages.reordered.to_string(),
            messages.stray.to_string(),
            format!("{:.3}", run.rates.success * 100.0),
        ]);
    }
    table
}

fn connection_table(runs: &[&RunResult]) -> Table {
    let mut table =
        table(["broker", "planned", "connected", "failed", "dropped", "bytes/connection"]);
    for run in runs {
        let connections = &run.connections;
        table.add_row([
            short(run),
            connections.planned.to_string(),
            connections.connected.to_string(),
            connections.failed.values().sum::<u64>().to_string(),
            connections.dropped.values().sum::<u64>().to_string(),
            bytes_per_connection(run).map_or_else(|| "-".into(), |bytes| format!("{bytes:.0}")),
        ]);
    }
    table
}

/// Stable less baseline memory of the broker's process, by connections.
pub(crate) fn bytes_per_connection(run: &RunResult) -> Option<f64> {
    let resources = run.resources.as_ref()?;
    let connected = run.connections.connected;
    let grown = resources.rss_stable_bytes.saturating_sub(resources.rss_baseline_bytes);
    (connected > 0).then(|| grown as f64 / connected as f64)
}

fn published_table(rows: &[Published]) -> Table {
    let mut table = table([
        "broker",
        "rate",
        "avg ms",
        "p50",
        "p90",
        "p99",
        "CPU % avg",
        "max",
        "mem avg",
        "max",
        "source",
    ]);
    for row in rows {
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v}"));
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        let at = |name: &str| number(row.latency_ms.get(name).copied());
        let memory = row.mem_avg.clone().or_else(|| row.mem_stable.clone());
        table.add_row([
            format!("{} {}", row.broker, row.version),
            word(&row.rate),
            number(row.latency_ms_avg),
            at("p50"),
            at("p90"),
            at("p99"),
            number(row.cpu_avg),
            number(row.cpu_max),
            word(&memory),
            word(&row.mem_max),
            row.source.clone(),
        ]);
    }
    table
}

/// Milliseconds with three digits that count.
pub(crate) fn millis(latency_us: f64) -> String {
    match latency_us / 1e3 {
        0.0 => "-".into(),
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// A rate without decimals nobody reads.
pub(crate) fn count(rate: f64) -> String {
    match rate {
        rate if rate >= 999_500.0 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 99_950.0 => format!("{:.0}k", rate / 1e3),
        rate if rate >= 9_995.0 => format!("{:.1}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// Megabytes.
pub(crate) fn mega(bytes: u64) -> String {
    format!("{:.1}M", bytes as f64 / 1e6)
}
