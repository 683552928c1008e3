//! The data of the charts: a column a line, a value an interval, in the units of `SeriesRow`.

use super::runs::{Named, Use};
use crate::result::{LatencyResult, RunResult, SeriesRow};
use serde_json::{Map, Value, json};

/// Points of the percentile curve for each nine.
const POINTS_A_NINE: f64 = 12.0;

/// A name, and how to read it off a row.
type Column = (&'static str, fn(&SeriesRow) -> f64);

/// What the charts draw as it was kept.
const COLUMNS: &[Column] = &[
    ("connections", |row| row.connections as f64),
    ("subscribers", |row| row.subscribers as f64),
    ("publishers", |row| row.publishers as f64),
    ("connected_per_s", |row| row.connected_per_s),
    ("subscribed_per_s", |row| row.subscribed_per_s),
    ("published_per_s", |row| row.published_per_s),
    ("acknowledged_per_s", |row| row.acknowledged_per_s),
    ("received_per_s", |row| row.received_per_s),
    ("connect_failures", |row| row.connect_failures as f64),
    ("subscribe_failures", |row| row.subscribe_failures as f64),
    ("publish_failures", |row| row.publish_failures as f64),
    ("outstanding", |row| row.outstanding as f64),
    ("duplicated", |row| row.duplicated as f64),
    ("reordered", |row| row.reordered as f64),
    ("bytes_out_per_s", |row| row.bytes_out_per_s),
    ("bytes_in_per_s", |row| row.bytes_in_per_s),
    ("connect_mean_us", |row| row.connect_mean_us),
    ("connect_p99_us", |row| row.connect_p99_us as f64),
    ("subscribe_mean_us", |row| row.subscribe_mean_us),
    ("subscribe_p99_us", |row| row.subscribe_p99_us as f64),
    ("acknowledge_mean_us", |row| row.acknowledge_mean_us),
    ("acknowledge_p99_us", |row| row.acknowledge_p99_us as f64),
    ("latency_p50_us", |row| row.latency_p50_us as f64),
    ("latency_p90_us", |row| row.latency_p90_us as f64),
    ("latency_p99_us", |row| row.latency_p99_us as f64),
    ("latency_max_us", |row| row.latency_max_us as f64),
    ("generator_lag_p99_us", |row| row.generator_lag_p99_us as f64),
    ("generator_lag_max_us", |row| row.generator_lag_max_us as f64),
    ("generator_cpu_cores", |row| row.generator_cpu_cores),
    ("broker_cpu_cores", |row| row.broker_cpu_user_cores + row.broker_cpu_system_cores),
    ("broker_cpu_user_cores", |row| row.broker_cpu_user_cores),
    ("broker_cpu_system_cores", |row| row.broker_cpu_system_cores),
    ("broker_rss_bytes", |row| row.broker_rss_bytes as f64),
    ("host_used_bytes", |row| row.host_used_bytes as f64),
];

/// Use cases with their runs and columns.
pub(super) fn columns(uses: &[Use<'_>]) -> Vec<Value> {
    let of = |of: &Use<'_>| {
        let case = &of.runs[0].run.use_case;
        json!({
            "name": of.name,
            "has_messages": of.has_messages(),
            "publish_rate": case.publish_rate_planned,
            "deliver_rate": case.deliver_rate_planned,
            "runs": of.runs.iter().map(run).collect::<Vec<_>>(),
        })
    };
    uses.iter().map(of).collect()
}

fn run(named: &Named<'_>) -> Value {
    let run = named.run;
    let rows = &run.series;
    let mut columns: Map<String, Value> = COLUMNS
        .iter()
        .map(|(name, of)| ((*name).to_owned(), rows.iter().map(|row| short(of(row))).collect()))
        .collect();
    let times = rows.iter().map(|row| json!((row.t_s * 1e3).round() / 1e3));
    columns.insert("t_s".into(), times.collect());
    columns.insert("started".into(), started(rows));
    columns.insert("loss_percent".into(), loss_percent(rows));
    columns
        .insert("succeeded_per_s".into(), rows.iter().map(|row| short(succeeded(row))).collect());
    columns.insert("failed_per_s".into(), failed_per_s(rows));
    columns.insert("bytes_per_message".into(), rows.iter().map(bytes_per_message).collect());
    json!({
        "label": named.label,
        "colour": named.colour,
        "local": run.resources.is_some(),
        "phases": run.phases,
        "columns": columns,
        "quantiles": quantiles(latency(run)),
    })
}

/// A number with four digits that count: the page holds thousands of them.
fn short(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return json!(value as i64);
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let rounded = format!("{value:.*}", digits.clamp(0, 9) as usize);
    rounded.parse().map_or(Value::Null, |value: f64| json!(value))
}

/// The latency that a use case is about: of messages, or of connections.
pub(super) fn latency(run: &RunResult) -> Option<&LatencyResult> {
    let name = if run.use_case.qos.is_some() { "end_to_end" } else { "connect" };
    run.latencies.get(name)
}

/// Each row with the seconds it covers.
fn spans(rows: &[SeriesRow]) -> impl Iterator<Item = (&SeriesRow, f64)> {
    let mut before_s = 0.0;
    rows.iter().map(move |row| {
        let seconds = row.t_s - before_s;
        before_s = row.t_s;
        (row, seconds)
    })
}

/// Connections made so far.
fn started(rows: &[SeriesRow]) -> Value {
    let mut started = 0.0;
    let so_far = |(row, seconds): (&SeriesRow, f64)| {
        started += row.connected_per_s * seconds;
        short(started.round())
    };
    spans(rows).map(so_far).collect()
}

/// Operations that succeeded: connects, subscribes, publishes (acknowledged if they are at all),
/// and receipts.
fn succeeded(row: &SeriesRow) -> f64 {
    let published = match row.acknowledged_per_s {
        0.0 => row.published_per_s,
        acknowledged => acknowledged,
    };
    row.connected_per_s + row.subscribed_per_s + published + row.received_per_s
}

fn failed_per_s(rows: &[SeriesRow]) -> Value {
    let of = |(row, seconds): (&SeriesRow, f64)| {
        let failed = row.connect_failures + row.subscribe_failures + row.publish_failures;
        short(if seconds > 0.0 { failed as f64 / seconds } else { 0.0 })
    };
    spans(rows).map(of).collect()
}

/// Bytes both ways by messages both ways, acknowledgements with them.
fn bytes_per_message(row: &SeriesRow) -> Value {
    let messages = row.published_per_s + row.received_per_s;
    if messages > 0.0 {
        short((row.bytes_out_per_s + row.bytes_in_per_s) / messages)
    } else {
        Value::Null
    }
}

/// Deliveries owed that were never caught up with, in percent of those owed so far. What is under
/// way at the end of an interval and comes later is not lost: of the outstanding deliveries only
/// the least number at any later time counts.
fn loss_percent(rows: &[SeriesRow]) -> Value {
    let mut never: Vec<u64> = rows.iter().map(|row| row.outstanding).collect();
    for at in (1..never.len()).rev() {
        never[at - 1] = never[at - 1].min(never[at]);
    }
    let mut received = 0.0;
    let of = |((row, seconds), never): ((&SeriesRow, f64), u64)| {
        received += row.received_per_s * seconds;
        let owed = received + never as f64;
        if owed > 0.0 { short(never as f64 / owed * 100.0) } else { Value::Null }
    };
    spans(rows).zip(never).map(of).collect()
}

/// Points of the percentile curve: 1 / (1 - quantile) and the latency there, in microseconds.
fn quantiles(latency: Option<&LatencyResult>) -> Vec<[f64; 2]> {
    let histogram = latency.and_then(|latency| crate::latency::restore(&latency.histogram));
    let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else {
        return Vec::new();
    };
    let last = (histogram.len() as f64).log10() * POINTS_A_NINE;
    let point = |step: u32| {
        let inverse = 10f64.powf(f64::from(step) / POINTS_A_NINE);
        let at = histogram.value_at_quantile(1.0 - 1.0 / inverse);
        [(inverse * 1e4).round() / 1e4, at as f64]
    };
    (0..=last.ceil() as u32).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(t_s: f64, received_per_s: f64, outstanding: u64) -> SeriesRow {
        SeriesRow { t_s, received_per_s, outstanding, ..SeriesRow::default() }
    }

    #[test]
    fn what_is_caught_up_later_is_no_loss() {
        let frozen = [row(1.0, 100.0, 3), row(2.0, 0.0, 100), row(3.0, 200.0, 0)];
        assert_eq!(loss_percent(&frozen), json!([0, 0, 0]));
        let lossy = [row(1.0, 99.0, 4), row(2.0, 99.0, 2), row(3.0, 0.0, 2)];
        assert_eq!(loss_percent(&lossy), json!([1.98, 1, 1]));
        assert_eq!(loss_percent(&[row(1.0, 0.0, 0)]), json!([null]));
    }

    #[test]
    fn numbers_are_short_and_never_infinite() {
        assert_eq!(short(136_610.566_7), json!(136_611.0));
        assert_eq!(short(0.012_345_6), json!(0.01235));
        assert_eq!((short(3.0), short(0.0)), (json!(3), json!(0)));
        assert_eq!(short(f64::NAN), Value::Null);
    }
}
