//! The data of the charts: a column a line, a value an interval, in the units of `SeriesRow`.

use super::heat;
use super::runs::{Named, Use};
use crate::result::series::{DERIVED, Kind, SERIES, SYSTEM};
use crate::result::{LatencyResult, SeriesRow};
use serde_json::{Map, Value, json};

/// Points of the percentile curve for each nine.
const POINTS_A_NINE: f64 = 12.0;

/// Points of a line: as many as a screen is wide, fewer where the page has many runs.
const POINTS_MAX: usize = 900;
const POINTS_MIN: usize = 150;
/// Points of a column over all runs of a page, so that it stays a page one can send.
const POINTS_OF_ALL: usize = 20_000;

/// Of the usual interval, what the last must last to be drawn.
const INTERVAL_SHARE_MIN: f64 = 0.5;

/// Use cases with their runs and columns.
pub(super) fn columns(uses: &[Use<'_>]) -> Vec<Value> {
    let runs: usize = uses.iter().map(|of| of.runs.len()).sum();
    let points = (POINTS_OF_ALL / runs.max(1)).clamp(POINTS_MIN, POINTS_MAX);
    let of = |of: &Use<'_>| {
        let case = &of.runs[0].run.use_case;
        let is_typical =
            |named: &Named<'_>| of.brokers.iter().any(|repeats| repeats.typical.at == named.at);
        json!({
            "name": of.name,
            "has_messages": of.has_messages(),
            "publish_rate": case.publish_rate_planned,
            "deliver_rate": case.deliver_rate_planned,
            "runs": of.runs.iter().map(|named| run(named, is_typical(named), points))
                .collect::<Vec<_>>(),
        })
    };
    uses.iter().map(of).collect()
}

fn run(named: &Named<'_>, is_typical: bool, points: usize) -> Value {
    let run = named.run;
    let rows = &run.series;
    let shown = shown(rows);
    let every = shown.div_ceil(points).max(1);
    let mut columns = Map::new();
    let mut insert = |name: &str, kind, values: Vec<Option<f64>>| {
        columns.insert(name.into(), thin(&values[..shown], every, kind));
    };
    for figure in SERIES.iter().chain(DERIVED) {
        insert(figure.name, figure.kind, rows.iter().map(figure.of).collect());
    }
    for figure in SYSTEM.iter().filter(|figure| figure.name.starts_with("host_")) {
        insert(figure.name, figure.kind, rows.iter().map(|row| (figure.of)(&row.system)).collect());
    }
    insert("started", Kind::State, started(rows));
    insert("loss_percent", Kind::Peak, loss_percent(rows));
    insert("succeeded_per_s", Kind::Mean, rows.iter().map(|row| Some(succeeded(row))).collect());
    insert("failed_per_s", Kind::Mean, failed_per_s(rows));
    insert("bytes_per_message", Kind::Mean, rows.iter().map(bytes_per_message).collect());
    insert("bytes_per_connection", Kind::State, bytes_per_connection(named));
    let ends = rows[..shown].chunks(every).filter_map(<[SeriesRow]>::last);
    let ends = ends.map(|row| json!((row.t_s * 1e3).round() / 1e3));
    columns.insert("t_s".into(), ends.collect());
    json!({
        "label": named.label,
        "colour": named.colour,
        "at": named.at,
        "typical": is_typical,
        "every": every,
        "local": run.resources.is_some(),
        "phases": run.phases,
        "marks": run.marks,
        "columns": columns,
        "quantiles": quantiles(run.latency()),
        "heat": if is_typical { heat::map(run) } else { Value::Null },
    })
}

/// How many of the intervals lines are drawn of. The last one ends when the run does, often after
/// a few milliseconds: a rate over so short a time is mostly chance, and would end the line in a
/// spike. What was counted in it is in the tables and in the files.
fn shown(rows: &[SeriesRow]) -> usize {
    let [.., before, last] = rows else { return rows.len() };
    let usual_s = before.t_s / (rows.len() - 1) as f64;
    let is_whole = last.t_s - before.t_s >= usual_s * INTERVAL_SHARE_MIN;
    rows.len() - usize::from(!is_whole)
}

/// One value for each `every` of them.
fn thin(values: &[Option<f64>], every: usize, kind: Kind) -> Value {
    let one = |values: &[Option<f64>]| {
        let known = || values.iter().flatten().copied();
        let count = known().count() as f64;
        let folded = match kind {
            Kind::State => known().next_back(),
            Kind::Peak => known().reduce(f64::max),
            Kind::Count => known().reduce(|a, b| a + b),
            Kind::Rate | Kind::Mean => known().reduce(|a, b| a + b).map(|sum| sum / count),
        };
        folded.map_or(Value::Null, short)
    };
    values.chunks(every).map(one).collect()
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
fn started(rows: &[SeriesRow]) -> Vec<Option<f64>> {
    let mut started = 0.0;
    let so_far = |(row, seconds): (&SeriesRow, f64)| {
        started += row.connected_per_s * seconds;
        Some(started.round())
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

fn failed_per_s(rows: &[SeriesRow]) -> Vec<Option<f64>> {
    let of = |(row, seconds): (&SeriesRow, f64)| {
        let failed = row.connect_failures + row.subscribe_failures + row.publish_failures;
        Some(if seconds > 0.0 { failed as f64 / seconds } else { 0.0 })
    };
    spans(rows).map(of).collect()
}

/// Bytes both ways by messages both ways, acknowledgements with them.
fn bytes_per_message(row: &SeriesRow) -> Option<f64> {
    let messages = row.published_per_s + row.received_per_s;
    (messages > 0.0).then(|| (row.bytes_out_per_s + row.bytes_in_per_s) / messages)
}

/// Growth of the broker's memory since before the first connection, by connections open then;
/// nothing while they are so few that the quotient says nothing.
fn bytes_per_connection(named: &Named<'_>) -> Vec<Option<f64>> {
    let run = named.run;
    let least = (run.connections.connected / 20).max(1);
    let of = |row: &SeriesRow| {
        let baseline = run.resources.as_ref()?.rss_baseline_bytes;
        // Memory that did not grow says that the scale is too small, not that connections are free.
        let grown = row.broker_rss_bytes.checked_sub(baseline).filter(|grown| *grown > 0)?;
        (row.connections >= least).then(|| grown as f64 / row.connections as f64)
    };
    run.series.iter().map(of).collect()
}

/// Deliveries owed that were never caught up with, in percent of those owed so far. What is under
/// way at the end of an interval and comes later is not lost: of the outstanding deliveries only
/// the least number at any later time counts.
fn loss_percent(rows: &[SeriesRow]) -> Vec<Option<f64>> {
    let mut never: Vec<u64> = rows.iter().map(|row| row.outstanding).collect();
    for at in (1..never.len()).rev() {
        never[at - 1] = never[at - 1].min(never[at]);
    }
    let mut received = 0.0;
    let of = |((row, seconds), never): ((&SeriesRow, f64), u64)| {
        received += row.received_per_s * seconds;
        let owed = received + never as f64;
        (owed > 0.0).then(|| never as f64 / owed * 100.0)
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
    fn the_percentile_curve_goes_from_the_least_to_the_highest_latency() {
        let run = crate::result::read(include_str!("../../tests/data/result-2.json")).unwrap();
        let latency = &run.latencies["end_to_end"];
        let curve = quantiles(Some(latency));
        let highest = curve.last().unwrap();
        assert_eq!(curve[0][0], 1.0, "all are as slow as the fastest");
        assert!(curve[0][1] <= latency.p50_us as f64, "{curve:?}");
        assert!(highest[0] >= latency.count as f64, "{curve:?}");
        assert_eq!(highest[1], latency.max_us as f64);
        assert!(curve.windows(2).all(|two| two[0][0] < two[1][0] && two[0][1] <= two[1][1]));
        assert_eq!(quantiles(None), Vec::<[f64; 2]>::new());
    }

    #[test]
    fn what_is_caught_up_later_is_no_loss() {
        let frozen = [row(1.0, 100.0, 3), row(2.0, 0.0, 100), row(3.0, 200.0, 0)];
        assert_eq!(loss_percent(&frozen), [Some(0.0); 3]);
        let lossy = [row(1.0, 99.0, 4), row(2.0, 99.0, 2), row(3.0, 0.0, 2)];
        assert_eq!(thin(&loss_percent(&lossy), 1, Kind::Peak), json!([1.98, 1, 1]));
        assert_eq!(loss_percent(&[row(1.0, 0.0, 0)]), [None]);
    }

    #[test]
    fn numbers_are_short_and_never_infinite() {
        assert_eq!(short(136_610.566_7), json!(136_611.0));
        assert_eq!(short(0.012_345_6), json!(0.01235));
        assert_eq!((short(3.0), short(0.0)), (json!(3), json!(0)));
        assert_eq!(short(f64::NAN), Value::Null);
    }

    #[test]
    fn several_intervals_become_one_point_that_hides_no_peak() {
        let values = [Some(1.0), Some(3.0), None, Some(8.0), Some(4.0)];
        assert_eq!(thin(&values, 2, Kind::Peak), json!([3, 8, 4]));
        assert_eq!(thin(&values, 2, Kind::Mean), json!([2, 8, 4]));
        assert_eq!(thin(&values, 2, Kind::Count), json!([4, 8, 4]));
        assert_eq!(thin(&values, 2, Kind::State), json!([3, 8, 4]));
        assert_eq!(thin(&[None], 2, Kind::Peak), json!([null]));
    }

    #[test]
    fn a_last_interval_of_milliseconds_is_in_no_line_but_counts() {
        let run = |last_s: f64| {
            let text = include_str!("../../tests/data/result-2.json");
            let mut run = crate::result::read(text).unwrap();
            let rows = [row(1.0, 100.0, 5), row(2.0, 100.0, 5), row(last_s, 48_000.0, 0)];
            run.series = rows.into();
            let results = [run];
            super::run(&super::super::runs::group(&results)[0].runs[0], true, 900)["columns"]
                .clone()
        };
        let short = run(2.02);
        assert_eq!(short["t_s"], json!([1.0, 2.0]));
        assert_eq!(short["received_per_s"], json!([100, 100]));
        assert_eq!(short["loss_percent"], json!([0, 0]), "the last came in the short interval");
        assert_eq!(run(2.5)["t_s"], json!([1.0, 2.0, 2.5]));
        assert_eq!((shown(&[]), shown(&[row(0.01, 1.0, 0)])), (0, 1));
    }

    /// Three intervals, of a second, of three and of one more.
    fn three() -> [SeriesRow; 3] {
        let row = |t_s: f64, factor: f64, failures: u64| SeriesRow {
            t_s,
            connected_per_s: 10.0 * factor,
            connect_failures: failures,
            subscribed_per_s: 20.0 * factor,
            subscribe_failures: 2 * failures,
            publish_failures: 3 * failures,
            published_per_s: 100.0 * factor,
            received_per_s: 300.0 * factor,
            bytes_out_per_s: 5_000.0 * factor,
            bytes_in_per_s: 7_000.0 * factor,
            ..SeriesRow::default()
        };
        [row(1.0, 1.0, 1), row(4.0, 2.0, 4), row(5.0, 0.0, 0)]
    }

    #[test]
    fn figures_of_intervals_are_made_of_all_that_belongs_to_them() {
        let rows = three();
        assert_eq!(started(&rows), [Some(10.0), Some(70.0), Some(70.0)]);
        assert_eq!(failed_per_s(&rows), [Some(6.0), Some(8.0), Some(0.0)]);
        let bytes: Vec<_> = rows.iter().map(bytes_per_message).collect();
        assert_eq!(bytes, [Some(30.0), Some(30.0), None]);
        let acknowledged = SeriesRow { acknowledged_per_s: 90.0, ..rows[0].clone() };
        assert_eq!((succeeded(&rows[0]), succeeded(&acknowledged)), (430.0, 420.0));
        assert_eq!(failed_per_s(&[row(0.0, 0.0, 0)]), [Some(0.0)]);
    }

    #[test]
    fn a_run_has_its_columns_thinned_to_so_many_points() {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run = crate::result::read(text).unwrap();
        run.series = three().to_vec();
        run.connections.connected = 100;
        run.resources.as_mut().unwrap().rss_baseline_bytes = 1_000;
        for (at, row) in run.series.iter_mut().enumerate() {
            row.system.host_cpu_cores = Some(0.5 * (at + 1) as f64);
            (row.connections, row.broker_rss_bytes) = (4 + at as u64, 11_000);
        }
        let results = [run.clone(), run];
        let uses = super::super::runs::group(&results);
        let named = &uses[0].runs[1];
        let all = super::run(named, true, 900);
        let column = |of: &Value, name: &str| of["columns"][name].clone();
        assert_eq!(column(&all, "t_s"), json!([1.0, 4.0, 5.0]));
        assert_eq!(column(&all, "published_per_s"), json!([100, 200, 0]));
        assert_eq!(column(&all, "host_cpu_cores"), json!([0.5, 1, 1.5]));
        // Four are fewer than one of twenty.
        assert_eq!(column(&all, "bytes_per_connection"), json!([null, 2000, 1667.0]));
        assert_eq!(
            (&all["every"], &all["at"], &all["typical"]),
            (&json!(1), &json!(1), &json!(true))
        );
        assert_eq!(all["label"], json!("Weir 0.1.0, run 2"));
        assert_eq!(all["local"], json!(true));
        let thinned = super::run(named, false, 2);
        assert_eq!((&thinned["every"], &thinned["heat"]), (&json!(2), &Value::Null));
        assert_eq!(column(&thinned, "t_s"), json!([4.0, 5.0]));
        assert_eq!(column(&thinned, "published_per_s"), json!([150, 0]));
        let cases = columns(&uses);
        assert_eq!(cases.len(), 1);
        let typical = |at: usize| cases[0]["runs"][at]["typical"].clone();
        assert_eq!((typical(0), typical(1)), (json!(true), json!(false)));
        assert_eq!(cases[0]["has_messages"], json!(true));
    }
}
