//! Metrics as text for Prometheus and whoever else reads OpenMetrics.

use super::{Family, Kind, Measured, Number, Point, metrics, mosquitto};
use crate::port::Histogram;
use std::fmt::Write;

/// Text for scrapers, in one of two forms that differ in little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a header `Accept` asks for.
    pub(crate) fn accepted(header: &str) -> Self {
        match header.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All of it.
pub(crate) fn text(measured: &Measured, format: Format) -> String {
    let mut out = String::new();
    for metric in metrics(measured) {
        if metric.points.is_empty() {
            continue;
        }
        describe(&mut out, metric.family, format);
        for Point { labels, value } in &metric.points {
            match value {
                Number::Of(value) => sample(&mut out, metric.family, labels, *value),
                Number::Times(of) => histogram(&mut out, metric.family, labels, of),
            }
        }
    }
    let Measured { shards, about, .. } = measured;
    if about.has_mosquitto_names {
        let untyped = if format == Format::OpenMetrics { "unknown" } else { "untyped" };
        mosquitto::text(&mut out, shards, about.uptime_s, untyped);
    }
    if format == Format::OpenMetrics {
        out += "# EOF\n";
    }
    out
}

/// What a family is.
fn describe(out: &mut String, family: &Family, format: Format) {
    let name = match format {
        Format::Prometheus => family.sample_name(),
        Format::OpenMetrics => family.name.to_owned(),
    };
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    *out += &format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help);
}

/// With braces, if there are some.
fn braced(labels: &[(&str, String)]) -> String {
    let one = |(name, value): &(&str, String)| {
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let all: Vec<_> = labels.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// One sample: microseconds are told in seconds.
fn sample(out: &mut String, family: &Family, labels: &[(&str, String)], value: u64) {
    let (name, labels) = (family.sample_name(), braced(labels));
    let written = match family.is_us {
        true => writeln!(out, "{name}{labels} {}.{:06}", value / 1_000_000, value % 1_000_000),
        false => writeln!(out, "{name}{labels} {value}"),
    };
    written.unwrap_or_default();
}

/// The samples of a histogram: how often it took at most so long, how often and how long in all.
fn histogram(out: &mut String, family: &Family, labels: &[(&str, String)], of: &Histogram) {
    let (name, mut count) = (family.name, 0);
    let bounds = of.bounds_us.iter().map(|&us| (us as f64 / 1e6).to_string());
    for (bound, counted) in bounds.chain(["+Inf".into()]).zip(&of.counts) {
        count += counted;
        let labels = braced(&[&[("le", bound)], labels].concat());
        writeln!(out, "{name}_bucket{labels} {count}").unwrap_or_default();
    }
    let (labels, sum) = (braced(labels), of.us_sum as f64 / 1e6);
    writeln!(out, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}").unwrap_or_default();
}
