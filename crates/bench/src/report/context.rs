//! What the template is filled with: texts, ready to be read.

use super::disclosure::{self, Pair};
use crate::published;
use crate::result::{Host, LatencyResult, RunResult, Status};
use crate::tables::{broker, bytes_per_connection, count, mega, millis};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The names of the use cases, in the order they were run.
fn names(results: &[RunResult]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for result in results {
        if !names.contains(&result.use_case.name.as_str()) {
            names.push(&result.use_case.name);
        }
    }
    names
}

fn runs_of<'a>(results: &'a [RunResult], name: &str) -> Vec<&'a RunResult> {
    results.iter().filter(|result| result.use_case.name == name).collect()
}

pub(super) fn title(results: &[RunResult]) -> String {
    let mut brokers: Vec<String> = Vec::new();
    for result in results {
        let name = broker(result);
        if !brokers.contains(&name) {
            brokers.push(name);
        }
    }
    brokers.join(" and ")
}

pub(super) fn host(host: &Host) -> Value {
    json!({
        "cpu_model": host.cpu_model,
        "cores": host.cores,
        "memory": format!("{:.1} GB", host.memory_bytes as f64 / 1e9),
        "os": host.os,
        "kernel": host.kernel,
        "pinning": host.pinning,
    })
}

pub(super) fn sources(results: &[RunResult]) -> Vec<Pair> {
    let mut titles = BTreeMap::new();
    for name in names(results) {
        for row in published::of(name) {
            titles.insert(row.source.clone(), published::title(&row.source));
        }
    }
    titles.into_iter().map(|(name, value)| Pair { name, value }).collect()
}

/// A run's label: its broker, with a number if it ran more than once.
fn labels(runs: &[&RunResult]) -> Vec<String> {
    let name = |at: usize| broker(runs[at]);
    (0..runs.len())
        .map(|at| {
            let before = (0..at).filter(|&other| name(other) == name(at)).count();
            if before == 0 { name(at) } else { format!("{} run {}", name(at), before + 1) }
        })
        .collect()
}

pub(super) fn use_cases(results: &[RunResult]) -> Vec<Value> {
    names(results).into_iter().map(|name| use_case(name, &runs_of(results, name))).collect()
}

fn use_case(name: &str, runs: &[&RunResult]) -> Value {
    let of = &runs[0].use_case;
    let rows: Vec<Value> =
        runs.iter().zip(labels(runs)).map(|(run, label)| row(run, &label)).collect();
    json!({
        "name": name,
        "about": of.about,
        "mqtt_version": of.mqtt_version,
        "qos": of.qos,
        "payload_bytes": of.payload_bytes,
        "publish_bytes_on_wire": of.publish_bytes_on_wire,
        "duration_s": of.duration_s,
        "scale": format!("{:.4}", of.scale).trim_end_matches('0').trim_end_matches('.'),
        "scale_reason": of.scale_reason,
        "revision": of.revision,
        "sha256": of.file_sha256,
        "file": of.file,
        "has_messages": of.qos.is_some(),
        "runs": rows,
        "published": published::of(name).iter().map(published_row).collect::<Vec<_>>(),
    })
}

fn published_row(row: &published::Published) -> Value {
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| value.to_string());
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let at = |name: &str| number(row.latency_ms.get(name).copied());
    json!({
        "broker": row.broker, "version": row.version, "source": row.source,
        "rate": word(&row.rate), "avg": number(row.latency_ms_avg),
        "p50": at("p50"), "p75": at("p75"), "p90": at("p90"), "p95": at("p95"), "p99": at("p99"),
        "cpu_avg": number(row.cpu_avg), "cpu_max": number(row.cpu_max),
        "mem_max": word(&row.mem_max), "mem_avg": word(&row.mem_avg),
        "mem_stable": word(&row.mem_stable),
    })
}

fn status(run: &RunResult) -> &'static str {
    match run.verdict.status {
        Status::Passed => "passed",
        Status::Failed => "failed",
        Status::Invalid => "invalid",
        Status::Aborted => "aborted",
    }
}

/// The latency that a use case is about: of messages, or of connections.
fn latency(run: &RunResult) -> LatencyResult {
    let name = if run.use_case.qos.is_some() { "end_to_end" } else { "connect" };
    run.latencies.get(name).cloned().unwrap_or_default()
}

fn row(run: &RunResult, label: &str) -> Value {
    let has_messages = run.use_case.qos.is_some();
    let latency = latency(run);
    let rates = &run.rates;
    let rate = if has_messages {
        format!("{} : {}", count(rates.published), count(rates.received))
    } else {
        count(rates.connected)
    };
    let mut fields = json!({
        "label": label,
        "status": status(run),
        "reasons": run.verdict.reasons,
        "rate": rate,
        "avg": millis(latency.mean_us),
        "lost": if has_messages { run.measure.lost.to_string() } else { "-".into() },
        "success": format!("{:.3} %", rates.success * 100.0),
        "messages": run.measure,
        "planned": run.connections.planned,
        "connected": run.connections.connected,
        "failed": run.connections.failed.values().sum::<u64>(),
        "dropped": run.connections.dropped.values().sum::<u64>(),
        "bytes_each": bytes_per_connection(run).map_or_else(|| "-".into(), |b| format!("{b:.0}")),
        "figures": figures(run, &latency),
        "disclosure": disclosure::state(run),
        "facts": disclosure::facts(run),
        "configuration": run.broker.configuration,
        "not_measured": run.not_measured.iter()
            .map(|(name, reason)| Pair::new(name, reason)).collect::<Vec<_>>(),
    });
    let more = latency_texts(&latency).into_iter().chain(resource_texts(run, has_messages));
    if let Some(fields) = fields.as_object_mut() {
        fields.extend(more.map(|(name, text)| (name.to_owned(), Value::String(text))));
    }
    fields
}

fn latency_texts(latency: &LatencyResult) -> Vec<(&'static str, String)> {
    let values = [
        ("p50", latency.p50_us),
        ("p75", latency.p75_us),
        ("p90", latency.p90_us),
        ("p95", latency.p95_us),
        ("p99", latency.p99_us),
        ("p999", latency.p999_us),
        ("max", latency.max_us),
    ];
    values.into_iter().map(|(name, us)| (name, millis(us as f64))).collect()
}

fn resource_texts(run: &RunResult, has_messages: bool) -> Vec<(&'static str, String)> {
    let names = [
        "cpu_avg",
        "cpu_max",
        "percent_avg",
        "percent_max",
        "cpu_each",
        "mem_max",
        "mem_avg",
        "mem_stable",
    ];
    let Some(of) = &run.resources else {
        return names.into_iter().map(|name| (name, "-".to_owned())).collect();
    };
    let each = if has_messages { of.cpu_us_per_delivery } else { of.cpu_us_per_connection };
    let texts = [
        format!("{:.2}", of.cpu_cores_avg),
        format!("{:.2}", of.cpu_cores_max),
        format!("{:.0}", of.cpu_percent_avg),
        format!("{:.0}", of.cpu_percent_max),
        each.map_or_else(|| "-".into(), |each| format!("{each:.2}")),
        mega(of.rss_max_bytes),
        mega(of.rss_avg_bytes),
        mega(of.rss_stable_bytes),
    ];
    names.into_iter().zip(texts).collect()
}

/// The few numbers one looks at first.
fn figures(run: &RunResult, latency: &LatencyResult) -> Vec<Pair> {
    let milliseconds = |us: u64| format!("{} ms", millis(us as f64));
    let mut figures = if run.use_case.qos.is_some() {
        vec![
            Pair::new("deliveries a second", count(run.rates.received)),
            Pair::new("p50 latency", milliseconds(latency.p50_us)),
            Pair::new("p99 latency", milliseconds(latency.p99_us)),
            Pair::new("deliveries lost", run.measure.lost.to_string()),
        ]
    } else {
        vec![
            Pair::new("connections", run.connections.connected.to_string()),
            Pair::new("p99 to CONNACK", milliseconds(latency.p99_us)),
            Pair::new(
                "bytes a connection",
                bytes_per_connection(run).map_or_else(|| "-".into(), |b| format!("{b:.0}")),
            ),
        ]
    };
    if let Some(resources) = &run.resources {
        figures.push(Pair::new("broker CPU, cores", format!("{:.2}", resources.cpu_cores_avg)));
        figures.push(Pair::new("broker memory, stable", mega(resources.rss_stable_bytes)));
    }
    let load = format!("{:.2}", run.generator.cpu_cores_avg);
    figures.push(Pair::new("load generator CPU, cores", load));
    figures
}

/// The data of the charts: a column a metric, a value an interval.
pub(super) fn charts(results: &[RunResult]) -> Vec<Value> {
    let chart = |name: &str| {
        let runs = runs_of(results, name);
        let labels = labels(&runs);
        json!({
            "name": name,
            "has_messages": runs[0].use_case.qos.is_some(),
            "runs": runs.iter().zip(labels).map(|(run, label)| chart_run(run, &label))
                .collect::<Vec<_>>(),
        })
    };
    names(results).into_iter().map(chart).collect()
}

fn chart_run(run: &RunResult, label: &str) -> Value {
    let mut columns: Map<String, Value> = Map::new();
    for series_row in &run.series {
        let Ok(Value::Object(fields)) = serde_json::to_value(series_row) else { continue };
        for (name, value) in fields {
            let column = columns.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(column) = column {
                column.push(value);
            }
        }
    }
    columns.insert("success_percent".into(), Value::Array(success(run)));
    json!({
        "label": label,
        "local": run.resources.is_some(),
        "phases": run.phases,
        "columns": columns,
        "quantiles": quantiles(&latency(run)),
    })
}

/// Deliveries come by deliveries owed, up to the end of each interval, in percent.
fn success(run: &RunResult) -> Vec<Value> {
    let mut received = 0.0;
    let mut before_s = 0.0;
    let mut percent = Vec::new();
    for row in &run.series {
        received += row.received_per_s * (row.t_s - before_s);
        before_s = row.t_s;
        let owed = received + row.outstanding as f64;
        percent.push(if owed > 0.0 { json!(received / owed * 100.0) } else { Value::Null });
    }
    percent
}

/// Points of the percentile curve: 1 / (1 - quantile) and the latency there, in microseconds.
fn quantiles(latency: &LatencyResult) -> Vec<[f64; 2]> {
    let Some(histogram) = crate::latency::restore(&latency.histogram) else { return Vec::new() };
    let mut points = Vec::new();
    // Twelve points for each nine, as far as there are messages.
    let last = (histogram.len().max(1) as f64).log10() * 12.0;
    for step in 0..=last.ceil() as u32 {
        let inverse = 10f64.powf(f64::from(step) / 12.0);
        points.push([inverse, histogram.value_at_quantile(1.0 - 1.0 / inverse) as f64]);
    }
    points
}
