//! HdrHistogram's own forms: percentile distributions, and the log of intervals.

use crate::latency::restore;
use crate::report::runs::{Named, Use};
use crate::result::LatencyResult;
use anyhow::Context as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// The percentile distribution of a latency in milliseconds, as HdrHistogram's plotters read it;
/// nothing where the histogram was not kept.
pub(crate) fn hgrm(latency: &LatencyResult) -> Option<String> {
    Some(distribution(&restore(&latency.histogram)?))
}

/// Every distribution of every run, each below a line that names it.
pub(super) fn distributions(uses: &[Use<'_>]) -> String {
    let mut text = String::new();
    for named in uses.iter().flat_map(|of| &of.runs) {
        for (name, latency) in &named.run.latencies {
            let Some(lines) = hgrm(latency) else { continue };
            let of = format!("{}, {}", named.run.use_case.name, named.label).replace('\n', " ");
            let _ = write!(text, "#[{of}: {name}]\n{lines}\n");
        }
    }
    text
}

fn distribution(histogram: &Histogram<u64>) -> String {
    let mut text = String::from("       Value   Percentile   TotalCount 1/(1-Percentile)\n\n");
    let mut count = 0;
    for step in histogram.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value_ms = step.value_iterated_to() as f64 / 1e3;
        let inverse =
            if quantile < 1.0 { format!("{:.2}", 1.0 / (1.0 - quantile)) } else { "inf".into() };
        let _ = writeln!(text, "{value_ms:12.3} {quantile:12.10} {count:12} {inverse:>14}");
    }
    let mean_ms = histogram.mean() / 1e3;
    let stdev_ms = histogram.stdev() / 1e3;
    let max_ms = histogram.max() as f64 / 1e3;
    let _ = writeln!(text, "#[Mean    = {mean_ms:12.3}, StdDeviation   = {stdev_ms:12.3}]");
    let _ = writeln!(text, "#[Max     = {max_ms:12.3}, Total count    = {:12}]", histogram.len());
    text
}

/// The log of all intervals: microseconds, a tag for each run and latency. Its head names the time
/// the first run began; the others' rows count from there, too.
pub(super) fn intervals(uses: &[Use<'_>]) -> anyhow::Result<String> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let runs: Vec<&Named<'_>> = uses.iter().flat_map(|of| &of.runs).collect();
    let start = runs.iter().filter_map(|named| started(named)).min();
    let start = start.unwrap_or(SystemTime::UNIX_EPOCH);
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Values are microseconds, two significant digits]")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(1e3)
        .begin_log_with(&mut log, &mut serializer)?;
    for (at, named) in runs.iter().enumerate() {
        let begin = started(named).and_then(|time| time.duration_since(start).ok());
        let begin = begin.unwrap_or_default();
        for (name, texts) in &named.run.interval_histograms {
            let tag = tag(named, at, name, runs.len());
            let mut before_s = 0.0;
            for (row, text) in named.run.series.iter().zip(texts) {
                let seconds = |of: f64| Duration::try_from_secs_f64(of).unwrap_or_default();
                let (from, length) = (begin + seconds(before_s), seconds(row.t_s - before_s));
                before_s = row.t_s;
                let Some(histogram) = restore(text) else { continue };
                let row = writer.write_histogram(&histogram, from, length, Tag::new(&tag));
                row.map_err(|error| anyhow::anyhow!("{error}"))
                    .with_context(|| format!("cannot write the interval log of {tag}"))?;
            }
        }
    }
    Ok(String::from_utf8(log)?)
}

fn started(named: &Named<'_>) -> Option<SystemTime> {
    let time: jiff::Timestamp = named.run.suite.started.parse().ok()?;
    Some(SystemTime::from(time))
}

/// A tag may hold no comma, space or end of a line.
fn tag(named: &Named<'_>, at: usize, name: &str, runs: usize) -> String {
    if runs == 1 {
        return name.into();
    }
    let of = format!("{}/{}/{}/{name}", named.run.use_case.name, named.label, at + 1);
    of.chars()
        .map(|c| if c.is_whitespace() || c.is_control() || c == ',' { '-' } else { c })
        .collect()
}
