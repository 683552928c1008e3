//! OpenMetrics text: gauges of each run, latencies as summaries, in seconds and bytes.

use crate::metrics::{self, Exposed, File};
use crate::report::runs::{Named, Use};
use std::fmt::Write as _;

const PREFIX: &str = "weir_bench_";

pub(super) fn text(uses: &[Use<'_>]) -> String {
    let mut text = String::new();
    let all = || uses.iter().flat_map(|of| &of.runs);
    for metric in metrics::of_file(File::OpenMetrics) {
        let Exposed { name, unit, divisor } = metrics::exposed(metric.name);
        let family = format!("{PREFIX}{name}");
        let samples = all().filter_map(|named| Some((labels(named), (metric.of)(named.run)?)));
        let lines: Vec<String> = samples
            .filter(|(_, value)| value.is_finite())
            .map(|(labels, value)| format!("{family}{{{labels}}} {}\n", value / divisor))
            .collect();
        if !lines.is_empty() {
            head(&mut text, &family, "gauge", unit, metric.help);
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
