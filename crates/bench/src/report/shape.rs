//! The suite's own results pages: what they tell of a use case, in their words and their order.

use super::runs::{Repeats, Use};
use crate::numbers::{count, mega};
use crate::published::{self, Published};
use crate::result::RunResult;

/// A table of the suite's results page.
pub(crate) struct Shape {
    pub(crate) head: Vec<&'static str>,
    /// A broker, or a published row, with its cells.
    pub(crate) rows: Vec<(String, Vec<String>)>,
}

/// Memory is the whole host's, which here runs the load, too.
const RESOURCES: [&str; 4] = [
    "Max CPU user+system",
    "Avg CPU user+system",
    "Max memory used (host)",
    "Avg memory used (host)",
];

/// The table headed Metrics. A broker that ran several times has its medians in it.
pub(crate) fn metrics(of: &Use<'_>) -> Shape {
    let has_messages = of.has_messages();
    let mut head = if has_messages {
        vec!["Actual msg rate", "Average pub-to-sub latency (ms)"]
    } else {
        vec!["Average latency (ms)"]
    };
    head.extend(RESOURCES);
    if !has_messages {
        head.push("Memory used stable at (host)");
    }
    let ours = of.brokers.iter().map(|broker| (label(broker), cells(broker, has_messages)));
    let theirs = published::of(of.name).into_iter().map(|row| {
        let label = format!("{} {} (published 2023)", row.broker, row.version);
        (label, published_cells(&row, has_messages))
    });
    Shape { head, rows: ours.chain(theirs).collect() }
}

fn label(of: &Repeats<'_>) -> String {
    match (of.runs.len(), of.counted()) {
        (1, _) => of.label.clone(),
        (_, 1) => format!("{} (one run)", of.label),
        (_, counted) => format!("{} (median of {counted} runs)", of.label),
    }
}

fn cells(broker: &Repeats<'_>, has_messages: bool) -> Vec<String> {
    let of = broker;
    let median = |value: fn(&RunResult) -> Option<f64>| of.spread(value).map(|of| of.median);
    let resource = |value: fn(&crate::result::Resources) -> f64| {
        of.spread(|run| run.resources.as_ref().map(value)).map(|of| of.median)
    };
    // Of the whole host, as the suite has it. Results of before have only the highest.
    let host = |bytes: fn(&crate::result::Resources) -> u64| {
        let of = |run: &RunResult| Some(bytes(run.resources.as_ref()?)).filter(|&of| of > 0);
        broker.spread(|run| Some(of(run)? as f64)).map(|of| of.median)
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let percent = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.1}%")));
    let memory = |value: Option<f64>| or_dash(value.map(|bytes| mega(bytes as u64)));
    let mean_ms = median(|run| Some(run.latency().filter(|of| of.count > 0)?.mean_us / 1e3));
    let mut cells = Vec::new();
    if has_messages {
        let published = median(|run| Some(run.rates.published));
        let received = median(|run| Some(run.rates.received));
        let rates = published.zip(received);
        cells.push(or_dash(
            rates.map(|(published, received)| rate(of.typical.run, published, received)),
        ));
    }
    cells.extend([
        or_dash(mean_ms.map(|ms| format!("{ms:.2}"))),
        percent(resource(|of| of.cpu_percent_max)),
        percent(resource(|of| of.cpu_percent_avg)),
        memory(host(|of| of.host_used_max_bytes)),
        memory(host(|of| of.host_used_avg_bytes)),
    ]);
    if !has_messages {
        cells.push(memory(host(|of| of.host_used_stable_bytes)));
    }
    cells
}

/// As the page of each kind of use case writes it: what comes out of a fan-out, both ways of pairs,
/// both by name of a shared subscription.
fn rate(run: &RunResult, published: f64, received: f64) -> String {
    let case = &run.use_case;
    if case.name.contains("fanout") {
        count(received)
    } else if case.name.contains("sharedsub") {
        format!("pub: {} sub: {}", count(published), count(received))
    } else {
        format!("{}:{}", count(published), count(received))
    }
}

fn published_cells(row: &Published, has_messages: bool) -> Vec<String> {
    let word = |word: Option<&String>| word.cloned().unwrap_or_else(|| "-".into());
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value}%"));
    let mut cells = Vec::new();
    if has_messages {
        cells.push(word(row.rate.as_ref()));
    }
    cells.extend([
        row.latency_ms_avg.map_or_else(|| "-".into(), |ms| format!("{ms}")),
        percent(row.cpu_max),
        percent(row.cpu_avg),
        word(row.mem_max.as_ref()),
        word(row.mem_avg.as_ref()),
    ]);
    if !has_messages {
        cells.push(word(row.mem_stable.as_ref()));
    }
    cells
}

/// The properties that the pages list, with what is ours to add.
pub(crate) fn terms(run: &RunResult) -> Vec<[String; 2]> {
    let case = &run.use_case;
    let file: toml::Table = case.file.parse().unwrap_or_default();
    let keep_alive = file.get("keep_alive_s").and_then(toml::Value::as_integer).unwrap_or(300);
    let is_clean = file.get("clean_start").and_then(toml::Value::as_bool).unwrap_or(true);
    let pair = |name: &str, value: String| [name.to_owned(), value];
    let mut terms = vec![
        pair("MQTT protocol", case.mqtt_version.clone()),
        pair("TLS authentication enablement", enabled(&run.disclosed.broker.tls)),
        pair("Authentication enablement", enabled(&run.disclosed.broker.authentication)),
        pair("Keep Alive (seconds)", keep_alive.to_string()),
        pair("Clean Session", u8::from(is_clean).to_string()),
    ];
    if let Some(qos) = case.qos {
        terms.push(pair("QoS", qos.to_string()));
    }
    if let Some(bytes) = case.payload_bytes {
        terms.push(pair("Payload size (bytes)", bytes.to_string()));
    }
    terms.push(pair("Measured (seconds)", case.duration_s.to_string()));
    terms.push(pair("Part of the full size", case.scale.to_string()));
    terms
}

/// What was disclosed of something that is on or off.
fn enabled(told: &str) -> String {
    match told {
        told if told.starts_with("none") => "No".into(),
        told if told.is_empty() || told.starts_with("not known") => "not known".into(),
        told => format!("Yes: {told}"),
    }
}

/// The lines about the host.
pub(crate) fn testbed(run: &RunResult) -> Vec<String> {
    let host = &run.host;
    vec![
        format!("tool: weir {} ({})", run.suite.version, run.suite.commit),
        format!("CPU: {}, {} cores", host.cpu_model, host.cores),
        format!("memory: {:.1} GB", host.memory_bytes as f64 / 1e9),
        format!("OS: {}, kernel {}", host.os, host.kernel),
        format!("virtualization: {}", host.virtualization),
        format!("pinning: {}", host.pinning),
        format!("network: {}", run.disclosed.network.topology),
    ]
}
