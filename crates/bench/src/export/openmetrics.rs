//! OpenMetrics text: gauges of each run, latencies as summaries, in seconds and bytes.

use crate::report::runs::{Named, Use};
use crate::result::{Resources, RunResult, Status};
use crate::tables::bytes_per_connection;
use std::fmt::Write as _;

/// A gauge of a run: name, unit, help, value where there is one.
type Gauge = (&'static str, &'static str, &'static str, fn(&RunResult) -> Option<f64>);

const GAUGES: &[Gauge] = &[
    ("passed", "", "1 if the contract was kept and the generator was healthy", |run| {
        Some(f64::from(run.verdict.status == Status::Passed))
    }),
    ("scale_ratio", "ratio", "Size run, as a part of the use case's own", |run| {
        Some(run.use_case.scale)
    }),
    ("published_per_second", "", "Messages sent in measure", |run| Some(run.rates.published)),
    ("received_per_second", "", "Messages received in measure", |run| Some(run.rates.received)),
    ("connected_per_second", "", "Connections made in connect", |run| Some(run.rates.connected)),
    ("connections", "", "Connections made", |run| Some(run.connections.connected as f64)),
    ("deliveries_expected", "", "Deliveries owed", |run| Some(run.measure.expected as f64)),
    ("deliveries_lost", "", "Deliveries owed that never came", |run| Some(run.measure.lost as f64)),
    ("deliveries_duplicated", "", "Deliveries that came again", |run| {
        Some(run.measure.duplicated as f64)
    }),
    ("deliveries_reordered", "", "Deliveries that came after a later one", |run| {
        Some(run.measure.reordered as f64)
    }),
    ("success_ratio", "ratio", "Delivered by expected", |run| Some(run.rates.success)),
    ("broker_cpu_cores", "", "Processors the broker used in measure", |run| {
        of(run, |of| Some(of.cpu_cores_avg))
    }),
    ("broker_cpu_per_delivery_seconds", "seconds", "CPU of the broker a delivery", |run| {
        of(run, |of| Some(of.cpu_us_per_delivery? / 1e6))
    }),
    ("broker_cpu_per_connection_seconds", "seconds", "CPU of the broker a connect", |run| {
        of(run, |of| Some(of.cpu_us_per_connection? / 1e6))
    }),
    ("broker_rss_max_bytes", "bytes", "Highest resident memory of the broker", |run| {
        of(run, |of| Some(of.rss_max_bytes as f64))
    }),
    ("broker_rss_stable_bytes", "bytes", "Resident memory in the last third of measure", |run| {
        of(run, |of| Some(of.rss_stable_bytes as f64))
    }),
    ("broker_per_connection_bytes", "bytes", "Growth of memory a connection", bytes_per_connection),
    ("generator_cpu_cores", "", "Processors the load generator used", |run| {
        Some(run.generator.cpu_cores_avg)
    }),
];

const PREFIX: &str = "weir_bench_";

pub(super) fn text(uses: &[Use<'_>]) -> String {
    let mut text = String::new();
    let all = || uses.iter().flat_map(|of| &of.runs);
    for (name, unit, help, value) in GAUGES {
        let family = format!("{PREFIX}{name}");
        let samples = all().filter_map(|named| Some((labels(named), value(named.run)?)));
        let lines: Vec<String> = samples
            .filter(|(_, value)| value.is_finite())
            .map(|(labels, value)| format!("{family}{{{labels}}} {value}\n"))
            .collect();
        if !lines.is_empty() {
            head(&mut text, &family, "gauge", unit, help);
            text += &lines.concat();
        }
    }
    head(
        &mut text,
        &format!("{PREFIX}latency_seconds"),
        "summary",
        "seconds",
        "Latencies by kind; end_to_end counts from the intended send",
    );
    all().for_each(|named| latencies(&mut text, named));
    text + "# EOF\n"
}

fn head(text: &mut String, family: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(text, "# TYPE {family} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {family} {unit}");
    }
    let _ = writeln!(text, "# HELP {family} {help}");
}

fn latencies(text: &mut String, named: &Named<'_>) {
    let family = format!("{PREFIX}latency_seconds");
    for (kind, of) in &named.run.latencies {
        let labels = format!("{},kind=\"{}\"", labels(named), label(kind));
        let quantiles = [
            ("0", of.min_us),
            ("0.5", of.p50_us),
            ("0.75", of.p75_us),
            ("0.9", of.p90_us),
            ("0.95", of.p95_us),
            ("0.99", of.p99_us),
            ("0.999", of.p999_us),
            ("1", of.max_us),
        ];
        for (quantile, us) in quantiles {
            let seconds = us as f64 / 1e6;
            let _ = writeln!(text, "{family}{{{labels},quantile=\"{quantile}\"}} {seconds}");
        }
        let sum = of.mean_us * of.count as f64 / 1e6;
        let _ = writeln!(text, "{family}_count{{{labels}}} {}", of.count);
        let _ = writeln!(text, "{family}_sum{{{labels}}} {sum}");
    }
}

fn of(run: &RunResult, value: fn(&Resources) -> Option<f64>) -> Option<f64> {
    value(run.resources.as_ref()?)
}

fn labels(named: &Named<'_>) -> String {
    let run = named.run;
    let pairs = [
        ("use_case", run.use_case.name.as_str()),
        ("broker", &run.broker.name),
        ("version", &run.broker.version),
        ("profile", &run.broker.profile),
    ];
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", label(value)));
    format!("{},repeat=\"{}\"", pairs.join(","), named.repeat)
}

/// Text of the outside as the value of a label: a broker may call itself anything.
pub(crate) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
