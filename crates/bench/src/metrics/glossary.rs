//! docs/metrics.md, made of the tables.

use super::{File, METRICS, exposed};
use crate::result::series::{DERIVED, Figure, Kind, SERIES, SYSTEM};
use crate::stats::Better;
use std::fmt::Write as _;

const HEAD: &str = "# Metrics
This page is generated from the tables in crates/bench/src/metrics.rs and
crates/bench/src/result/series.rs. `cargo xtask manual` rewrites it.

A name ends with its unit: `_us` is microseconds, `_per_s` is per second, `_cores` is processors.
OpenMetrics asks for base units, so its names begin with `weir_bench_` and end with `_seconds` where
ours end with `_us`. What was not measured is absent or empty, never zero.
";

const OF_RUNS: &str = "
## Of a run
A mark or a name says which formats of `weir bench export` contain it. OpenMetrics also has all
latencies in `weir_bench_latency_seconds`.

| name | meaning | better | csv | openmetrics | junit |
|---|---|---|---|---|---|
";

const OF_INTERVALS: &str = "
## Of an interval
Columns of series.csv, and of `series` in result.json; the last column is what `--metrics` serves.
`broker_cpu_cores` is made of two others and is not kept.

| name | meaning | of several | live |
|---|---|---|---|
";

/// The text of the page.
pub fn glossary() -> String {
    let mut text = format!("{HEAD}{OF_RUNS}");
    for metric in METRICS {
        let is_in = |file| metric.files.contains(&file);
        let mark = |file| if is_in(file) { "x" } else { "" };
        let better = match metric.better {
            Some(Better::More) => "more",
            Some(Better::Less) => "less",
            None => "",
        };
        let name = exposed(metric.name).name;
        let open = if is_in(File::OpenMetrics) { format!("`{name}`") } else { String::new() };
        let (csv, junit) = (mark(File::Csv), mark(File::Junit));
        let _ = writeln!(
            text,
            "| `{}` | {} | {better} | {csv} | {open} | {junit} |",
            metric.name, metric.help
        );
    }
    text += OF_INTERVALS;
    for figure in SERIES.iter().chain(DERIVED) {
        let live = match figure.name {
            _ if figure.is_summed() => format!("{}_total", figure.total_name()),
            name if name.starts_with("latency_") => "latency_seconds{quantile}".into(),
            name => exposed(name).name,
        };
        line(&mut text, figure, &live);
    }
    for figure in SYSTEM {
        line(&mut text, figure, &exposed(figure.name).name);
    }
    text
}

fn line<T>(text: &mut String, of: &Figure<T>, live: &str) {
    let several = match of.kind {
        Kind::State => "the last",
        Kind::Rate | Kind::Mean => "their mean",
        Kind::Count => "their sum",
        Kind::Peak => "the highest",
    };
    let _ = writeln!(text, "| `{}` | {} | {several} | `{live}` |", of.name, of.help);
}
