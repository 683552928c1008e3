//! Comma-separated values, quoted where a text needs it.

use crate::report::runs::{Named, Use};
use crate::tables::bytes_per_connection;
use serde_json::Value;

/// A column of the table of runs.
type Column = (&'static str, fn(&Named<'_>) -> String);

const COLUMNS: &[Column] = &[
    ("use_case", |of| of.run.use_case.name.clone()),
    ("broker", |of| of.run.broker.name.clone()),
    ("version", |of| of.run.broker.version.clone()),
    ("profile", |of| of.run.broker.profile.clone()),
    ("repeat", |of| of.repeat.to_string()),
    ("started", |of| of.run.suite.started.clone()),
    ("status", |of| of.run.verdict.status.name().into()),
    ("scale", |of| of.run.use_case.scale.to_string()),
    ("duration_s", |of| of.run.use_case.duration_s.to_string()),
    ("published_per_s", |of| of.run.rates.published.to_string()),
    ("received_per_s", |of| of.run.rates.received.to_string()),
    ("connected_per_s", |of| of.run.rates.connected.to_string()),
    ("connections", |of| of.run.connections.connected.to_string()),
    ("expected", |of| of.run.measure.expected.to_string()),
    ("delivered", |of| of.run.measure.delivered.to_string()),
    ("lost", |of| of.run.measure.lost.to_string()),
    ("duplicated", |of| of.run.measure.duplicated.to_string()),
    ("reordered", |of| of.run.measure.reordered.to_string()),
    ("latency_mean_us", |of| latency(of, |latency| latency.mean_us)),
    ("latency_p50_us", |of| latency(of, |latency| latency.p50_us as f64)),
    ("latency_p75_us", |of| latency(of, |latency| latency.p75_us as f64)),
    ("latency_p90_us", |of| latency(of, |latency| latency.p90_us as f64)),
    ("latency_p95_us", |of| latency(of, |latency| latency.p95_us as f64)),
    ("latency_p99_us", |of| latency(of, |latency| latency.p99_us as f64)),
    ("latency_p999_us", |of| latency(of, |latency| latency.p999_us as f64)),
    ("latency_max_us", |of| latency(of, |latency| latency.max_us as f64)),
    ("broker_cpu_cores_avg", |of| resource(of, |of| Some(of.cpu_cores_avg))),
    ("broker_cpu_cores_max", |of| resource(of, |of| Some(of.cpu_cores_max))),
    ("broker_cpu_us_per_delivery", |of| resource(of, |of| of.cpu_us_per_delivery)),
    ("broker_cpu_us_per_connection", |of| resource(of, |of| of.cpu_us_per_connection)),
    ("broker_rss_max_bytes", |of| resource(of, |of| Some(of.rss_max_bytes as f64))),
    ("broker_rss_stable_bytes", |of| resource(of, |of| Some(of.rss_stable_bytes as f64))),
    ("broker_bytes_per_connection", |of| number(bytes_per_connection(of.run))),
    ("generator_cpu_cores_avg", |of| of.run.generator.cpu_cores_avg.to_string()),
];

/// A row a run. What was not measured is empty.
pub(super) fn runs(uses: &[Use<'_>]) -> String {
    let head: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut text = head.join(",") + "\n";
    for named in uses.iter().flat_map(|of| &of.runs) {
        let cells: Vec<String> = COLUMNS.iter().map(|(_, of)| cell(&of(named))).collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// A row an interval, behind the names of its run; the head from the names of the schema.
pub(super) fn series(uses: &[Use<'_>]) -> anyhow::Result<String> {
    let mut text = String::new();
    for named in uses.iter().flat_map(|of| &of.runs) {
        let run = named.run;
        let who = [&run.use_case.name, &named.label].map(|name| cell(name)).join(",");
        for row in &run.series {
            let value = serde_json::to_value(row)?;
            let Some(fields) = value.as_object() else { continue };
            if text.is_empty() {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                text = format!("use_case,broker,{}\n", names.join(","));
            }
            let cells = fields.values().map(|value| match value {
                Value::String(text) => cell(text),
                // What was not seen is an empty cell.
                Value::Null => String::new(),
                other => other.to_string(),
            });
            text += &format!("{who},{}\n", cells.collect::<Vec<_>>().join(","));
        }
    }
    Ok(text)
}

fn latency(of: &Named<'_>, value: fn(&crate::result::LatencyResult) -> f64) -> String {
    number(runs_latency(of).map(value))
}

fn runs_latency<'a>(of: &Named<'a>) -> Option<&'a crate::result::LatencyResult> {
    crate::report::latency(of.run).filter(|latency| latency.count > 0)
}

fn resource(of: &Named<'_>, value: fn(&crate::result::Resources) -> Option<f64>) -> String {
    number(of.run.resources.as_ref().and_then(value))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// RFC 4180; and no cell begins as a formula would, which a spreadsheet would run.
fn cell(text: &str) -> String {
    let is_formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be_and_is_never_a_formula() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("-2.5", "-2.5"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
