//! Latency over time in full: how many of each interval's messages took how long.

use crate::latency::restore;
use crate::result::RunResult;
use serde_json::{Value, json};

/// Rows for each tenfold of latency.
const ROWS_A_DECADE: f64 = 8.0;

/// Columns of the map at most: intervals are put together beyond.
const COLUMNS_MAX: usize = 240;

/// The map of a run; null where its intervals were not kept.
///
/// `first` is the number of the lowest row: row `r` begins at `10^((first + r) / 8)` microseconds.
/// A column is its end in seconds, the number of its first row, and the counts from there on.
pub(super) fn map(run: &RunResult) -> Value {
    let name = if run.use_case.qos.is_some() { "end_to_end" } else { "connect" };
    let Some(texts) = run.interval_histograms.get(name) else { return Value::Null };
    let every = texts.len().div_ceil(COLUMNS_MAX).max(1);
    let times: Vec<f64> = run.series.iter().map(|row| row.t_s).collect();
    let columns = texts.chunks(every).zip(times.chunks(every));
    let columns: Vec<(f64, Vec<(i32, u64)>)> = columns
        .map(|(texts, times)| (times.last().copied().unwrap_or_default(), counts(texts)))
        .collect();
    let rows = || columns.iter().flat_map(|(_, counts)| counts.iter().map(|(row, _)| *row));
    let (Some(first), Some(last)) = (rows().min(), rows().max()) else { return Value::Null };
    let columns: Vec<Value> = columns.iter().map(|(end, counts)| column(*end, counts)).collect();
    json!({
        "first": first,
        "rows": last - first + 1,
        "rows_a_decade": ROWS_A_DECADE,
        "p99_us": run.latency().map(|latency| latency.p99_us),
        "columns": columns,
    })
}

/// Counts by row, in the order of rows.
fn counts(texts: &[String]) -> Vec<(i32, u64)> {
    let mut counts: Vec<(i32, u64)> = Vec::new();
    for histogram in texts.iter().filter_map(|text| restore(text)) {
        for step in histogram.iter_recorded() {
            let us = step.value_iterated_to().max(1) as f64;
            let row = (us.log10() * ROWS_A_DECADE).floor() as i32;
            let count = step.count_since_last_iteration();
            match counts.binary_search_by_key(&row, |(row, _)| *row) {
                Ok(at) => counts[at].1 += count,
                Err(at) => counts.insert(at, (row, count)),
            }
        }
    }
    counts
}

fn column(end_s: f64, counts: &[(i32, u64)]) -> Value {
    let Some((first, _)) = counts.first() else { return json!([end_s]) };
    let mut values = vec![json!((end_s * 1e3).round() / 1e3), json!(first)];
    let mut next = *first;
    for (row, count) in counts {
        values.extend((next..*row).map(|_| json!(0)));
        values.push(json!(count));
        next = row + 1;
    }
    Value::Array(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::encode;
    use hdrhistogram::Histogram;

    #[test]
    fn every_message_is_in_the_map_at_its_time_and_latency() {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run = crate::result::read(text).unwrap();
        let texts = [&[100, 150, 1_000][..], &[], &[1_000_000]].map(|values| {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 2).unwrap();
            values.iter().for_each(|value| histogram.record(*value).unwrap());
            if values.is_empty() { String::new() } else { encode(&histogram) }
        });
        run.series.truncate(3);
        run.series.iter_mut().zip([1.0, 2.0, 3.0]).for_each(|(row, t_s)| row.t_s = t_s);
        run.interval_histograms = [("end_to_end".to_owned(), texts.to_vec())].into();
        let map = map(&run);
        // 100 us is the 16th eighth of a decade from 1 us, 1 s the 48th.
        assert_eq!((&map["first"], &map["rows"]), (&json!(16), &json!(33)));
        let columns =
            [json!([1.0, 16, 1, 1, 0, 0, 0, 0, 0, 0, 1]), json!([2.0]), json!([3.0, 48, 1])];
        assert_eq!(map["columns"], json!(columns));
        run.interval_histograms.clear();
        assert_eq!(super::map(&run), Value::Null);
    }
}
