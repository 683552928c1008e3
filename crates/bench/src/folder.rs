//! The result folder: what is kept of a run, and read back.

use crate::result::{RunResult, SCHEMA, SeriesRow};
use anyhow::{Context, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_load::Outcome;
use weir_load::outcome::AnomalyKind;

/// Makes `out/<time>-<use case>-<broker>`.
///
/// # Errors
/// A folder that cannot be made or written.
pub fn create(out: &Path, use_case: &str, broker: &str) -> anyhow::Result<PathBuf> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let safe: String =
        broker.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = format!("{time}-{}-{safe}", use_case.trim_start_matches("singlenode-"));
    let hint = "choose a folder that can be written with --out DIR";
    for attempt in 0..100 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let folder = out.join(format!("{name}{suffix}"));
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make {}; {hint}", out.display()))?;
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot write into {}; {hint}", out.display()));
            }
        }
    }
    bail!("cannot find a free name in {}; {hint}", out.display())
}

/// Takes away a folder of a run that never began and left no log.
pub fn remove_if_empty(folder: &Path) {
    // One that is not empty stays: its log says what went wrong.
    let _ = std::fs::remove_dir(folder);
}

/// Writes a file of a run.
///
/// # Errors
/// A file that cannot be written.
pub fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes result.json, series.csv, histograms and anomalies.csv.
///
/// # Errors
/// A file that cannot be written.
pub fn keep(folder: &Path, result: &RunResult, outcome: &Outcome) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| write(folder, name, text);
    write("result.json", &(serde_json::to_string_pretty(result)? + "\n"))?;
    write("series.csv", &series_csv(&result.series)?)?;
    for (name, latency) in &result.latencies {
        if let Some(histogram) = crate::latency::restore(&latency.histogram) {
            write(&format!("{name}.hgrm"), &hgrm(&histogram))?;
        }
    }
    let mut anomalies = String::from("kind,subscriber,publisher,sequence\n");
    for anomaly in &outcome.anomalies {
        let kind = match anomaly.kind {
            AnomalyKind::Lost => "lost",
            AnomalyKind::Duplicated => "duplicated",
            AnomalyKind::Reordered => "reordered",
        };
        let (subscriber, publisher) = (anomaly.subscriber, anomaly.publisher);
        let _ = writeln!(anomalies, "{kind},{subscriber},{publisher},{}", anomaly.sequence);
    }
    write("anomalies.csv", &anomalies)
}

/// Reads the result of a folder.
///
/// # Errors
/// No result.json there, not one of ours, or of a newer schema.
pub fn read(folder: &Path) -> anyhow::Result<RunResult> {
    let path = folder.join("result.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} is not a result folder", folder.display()))?;
    let schema =
        serde_json::from_str::<Value>(&text).ok().and_then(|value| value.get("schema")?.as_u64());
    if schema.is_some_and(|schema| schema > u64::from(SCHEMA)) {
        bail!("{} was written by a newer weir; use that one", path.display());
    }
    serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))
}

/// Every result folder below `root`, or `root` itself, in the order of names.
///
/// # Errors
/// A folder that cannot be listed, or none found.
pub fn find(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if root.join("result.json").is_file() {
        return Ok(vec![root.into()]);
    }
    let entries = std::fs::read_dir(root)
        .with_context(|| format!("cannot read the folder {}", root.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.join("result.json").is_file())
        .collect();
    found.sort();
    if found.is_empty() {
        bail!("there is no result in {}", root.display());
    }
    Ok(found)
}

/// The series as CSV, its header from the names of the schema.
fn series_csv(rows: &[SeriesRow]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let value = serde_json::to_value(row)?;
        let Some(fields) = value.as_object() else { continue };
        if at == 0 {
            text += &fields.keys().cloned().collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        // What was not seen is an empty cell.
        let text_of = |cell: &Value| match cell {
            Value::Null => String::new(),
            cell => cell.to_string().trim_matches('"').to_owned(),
        };
        let cells = fields.values().map(text_of);
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    Ok(text)
}

/// The percentile distribution in the form that HdrHistogram's plotters read, in milliseconds.
fn hgrm(histogram: &hdrhistogram::Histogram<u64>) -> String {
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
