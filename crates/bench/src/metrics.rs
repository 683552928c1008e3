//! Every metric of a run: its name, its meaning, which way it is good, how it is read off a
//! result, and where it is shown.
//!
//! One table, of which CSV, OpenMetrics, JUnit, comparisons, the tables of the terminal and of the
//! page, and docs/metrics.md are made. The figures of an interval are in `result::series`. Names
//! have their unit last; OpenMetrics asks for base units, so [`exposed`] makes its names of ours.

mod glossary;

use crate::numbers::{cores, grouped, mega};
use crate::result::{LatencyResult, Resources, RunResult, Status};
use crate::stats::Better;
pub use glossary::glossary;

/// A metric of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// As files have it.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Which way it is good, where one way is.
    pub better: Option<Better>,
    /// How it is read; nothing where a run has none.
    pub of: fn(&RunResult) -> Option<f64>,
    /// The files it is in.
    files: &'static [File],
    columns: &'static [Column],
}

/// Files of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Csv,
    OpenMetrics,
    Junit,
}

use File::{Csv, Junit, OpenMetrics};

/// Tables with a row a run, on the page and in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sheet {
    Deliveries,
    Connections,
    /// CPU and memory of a use case that publishes, and of one that only connects.
    Resources {
        of_messages: bool,
    },
}

/// A metric's place in a table.
#[derive(Clone, Copy, Debug)]
struct Column {
    sheets: &'static [Sheet],
    /// Its title on the page.
    page: &'static str,
    /// Its title in the terminal; empty where there is no room for it.
    terminal: &'static str,
}

/// Where a table stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Page,
    Terminal,
}

const DELIVERIES: &[Sheet] = &[Sheet::Deliveries];
const CONNECTIONS: &[Sheet] = &[Sheet::Connections];
const OF_MESSAGES: Sheet = Sheet::Resources { of_messages: true };
const OF_CONNECTS: Sheet = Sheet::Resources { of_messages: false };
const RESOURCES: &[Sheet] = &[OF_MESSAGES, OF_CONNECTS];

type Of = fn(&RunResult) -> Option<f64>;

const fn metric(name: &'static str, help: &'static str, of: Of) -> Metric {
    Metric { name, help, better: None, of, files: &[], columns: &[] }
}

const fn col(sheets: &'static [Sheet], page: &'static str, terminal: &'static str) -> Column {
    Column { sheets, page, terminal }
}

impl Metric {
    const fn more(self) -> Self {
        Self { better: Some(Better::More), ..self }
    }

    const fn less(self) -> Self {
        Self { better: Some(Better::Less), ..self }
    }

    const fn files(self, files: &'static [File]) -> Self {
        Self { files, ..self }
    }

    const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }
}

/// Where memory did not grow with the connections, a table says that it is not measurable.
const PER_CONNECTION: &str = "broker_bytes_per_connection";

/// All of them; tables and files keep this order.
pub const METRICS: &[Metric] = &[
    metric("passed", "1 if the contract was kept and the generator was healthy", |run| {
        Some(f64::from(run.verdict.status == Status::Passed))
    })
    .more()
    .files(&[OpenMetrics]),
    metric("scale_ratio", "Scale of the run, relative to the use case", |run| {
        Some(run.use_case.scale)
    })
    .files(&[OpenMetrics]),
    metric("published_per_s", "Messages sent in the measure phase", |run| {
        Some(run.rates.published)
    })
    .more()
    .files(&[Csv, OpenMetrics]),
    metric("received_per_s", "Messages received in the measure phase", |run| {
        Some(run.rates.received)
    })
    .more()
    .files(&[Csv, OpenMetrics, Junit]),
    metric("connected_per_s", "Connections made in the connect phase", |run| {
        Some(run.rates.connected)
    })
    .more()
    .files(&[Csv, OpenMetrics]),
    metric("delivered_per_s", "Messages received, or connections made if none are sent", rate)
        .more(),
    metric("connections_planned", "Connections due", |run| count(run.connections.planned))
        .columns(&[col(CONNECTIONS, "planned", "planned")]),
    metric("connections", "Connections made", |run| count(run.connections.connected))
        .more()
        .files(&[Csv, OpenMetrics])
        .columns(&[col(CONNECTIONS, "connected", "connected")]),
    metric("connections_failed", "Connections refused or unanswered", |run| {
        count(run.connections.failed.values().sum())
    })
    .less()
    .columns(&[col(CONNECTIONS, "failed", "failed")]),
    metric("connections_dropped", "Connections that the broker ended", |run| {
        count(run.connections.dropped.values().sum())
    })
    .less()
    .columns(&[col(CONNECTIONS, "dropped", "dropped")]),
    metric("intended", "Messages due", |run| count(run.measure.intended))
        .columns(&[col(DELIVERIES, "intended", "")]),
    metric("sent", "Messages sent", |run| count(run.measure.sent))
        .columns(&[col(DELIVERIES, "sent", "sent")]),
    metric("accepted", "Messages the broker accepted", |run| count(run.measure.accepted))
        .columns(&[col(DELIVERIES, "accepted", "accepted")]),
    metric("refused", "Messages the broker refused", |run| count(run.measure.refused))
        .less()
        .columns(&[col(DELIVERIES, "refused", "")]),
    metric("unacknowledged", "Messages without an answer", |run| count(run.measure.unacknowledged))
        .less()
        .columns(&[col(DELIVERIES, "no answer", "")]),
    metric("expected", "Deliveries owed", |run| count(run.measure.expected))
        .files(&[Csv, OpenMetrics])
        .columns(&[col(DELIVERIES, "expected", "expected")]),
    metric("delivered", "Deliveries that arrived", |run| count(run.measure.delivered))
        .files(&[Csv])
        .columns(&[col(DELIVERIES, "delivered", "delivered")]),
    metric("lost", "Deliveries owed that never came", |run| count(run.measure.lost))
        .less()
        .files(&[Csv, OpenMetrics, Junit])
        .columns(&[col(DELIVERIES, "lost", "lost")]),
    metric("unaudited", "Deliveries owed whose arrival nobody can tell", |run| {
        count(run.measure.unaudited)
    })
    .less()
    .files(&[Csv, OpenMetrics])
    .columns(&[col(DELIVERIES, "unaudited", "")]),
    metric("duplicated", "Duplicated deliveries", |run| count(run.measure.duplicated))
        .less()
        .files(&[Csv, OpenMetrics])
        .columns(&[col(DELIVERIES, "duplicated", "dup")]),
    metric("reordered", "Deliveries out of order", |run| count(run.measure.reordered))
        .less()
        .files(&[Csv, OpenMetrics])
        .columns(&[col(DELIVERIES, "reordered", "reord.")]),
    metric("late_after_drain", "Deliveries that arrived after the drain", |run| {
        count(run.measure.late_after_drain)
    })
    .less()
    .columns(&[col(DELIVERIES, "late", "")]),
    metric("stray", "Deliveries that were owed to nobody", |run| count(run.measure.stray))
        .less()
        .columns(&[col(DELIVERIES, "stray", "stray")]),
    metric("success_ratio", "Delivered divided by expected", |run| Some(run.rates.success))
        .more()
        .files(&[OpenMetrics])
        .columns(&[col(DELIVERIES, "success", "ok %")]),
    latency("latency_mean_us", "Latency that the use case is about, mean", |run| {
        of_latency(run, |of| of.mean_us)
    }),
    latency("latency_p50_us", "The same, median", |run| of_latency(run, |of| of.p50_us as f64))
        .files(&[Csv, Junit]),
    latency("latency_p75_us", "The same, p75", |run| of_latency(run, |of| of.p75_us as f64)),
    latency("latency_p90_us", "The same, p90", |run| of_latency(run, |of| of.p90_us as f64)),
    latency("latency_p95_us", "The same, p95", |run| of_latency(run, |of| of.p95_us as f64)),
    latency("latency_p99_us", "The same, p99", |run| of_latency(run, |of| of.p99_us as f64))
        .files(&[Csv, Junit]),
    latency("latency_p999_us", "The same, p99.9", |run| of_latency(run, |of| of.p999_us as f64)),
    latency("latency_max_us", "The same, highest", |run| of_latency(run, |of| of.max_us as f64)),
    metric("broker_cpu_cores", "Processors the broker used in the measure phase", |run| {
        of(run, |of| Some(of.cpu_cores_avg))
    })
    .less()
    .files(&[Csv, OpenMetrics])
    .columns(&[col(RESOURCES, "CPU cores avg", "CPU cores")]),
    metric("broker_cpu_cores_max", "The same in the busiest second", |run| {
        of(run, |of| Some(of.cpu_cores_max))
    })
    .less()
    .files(&[Csv])
    .columns(&[col(RESOURCES, "max", "max")]),
    metric("broker_cpu_user_cores", "Of it, in user mode", |run| {
        of(run, |of| Some(of.cpu_user_cores_avg))
    })
    .less()
    .columns(&[col(RESOURCES, "user", "")]),
    metric("broker_cpu_system_cores", "Of it, in the kernel", |run| {
        of(run, |of| Some(of.cpu_system_cores_avg))
    })
    .less()
    .columns(&[col(RESOURCES, "system", "")]),
    metric("broker_cpu_percent", "CPU of the broker, in percent of all processors", |run| {
        of(run, |of| Some(of.cpu_percent_avg))
    })
    .less()
    .columns(&[col(RESOURCES, "% of all, avg", "% avg")]),
    metric("broker_cpu_percent_max", "The same in the busiest second", |run| {
        of(run, |of| Some(of.cpu_percent_max))
    })
    .less()
    .columns(&[col(RESOURCES, "max", "% max")]),
    metric(
        "cpu_us_per_message",
        "The broker's CPU per delivery, or per connect if none are sent",
        RunResult::cpu_us_each,
    )
    .less(),
    metric(
        "softirq_us_per_message",
        "CPU of the kernel's network thread on the broker's core, by the same; it works for \
         others, too, and is in no other figure",
        softirq_us_each,
    )
    .less(),
    metric("broker_cpu_us_per_delivery", "The broker's CPU per delivery", |run| {
        of(run, |of| of.cpu_us_per_delivery)
    })
    .less()
    .files(&[Csv, OpenMetrics, Junit])
    .columns(&[col(&[OF_MESSAGES], "µs per delivery", "us/delivery")]),
    metric("broker_cpu_us_per_connection", "The broker's CPU per connect", |run| {
        of(run, |of| of.cpu_us_per_connection)
    })
    .less()
    .files(&[Csv, OpenMetrics])
    .columns(&[col(&[OF_CONNECTS], "µs per connect", "us/connect")]),
    metric("broker_rss_baseline_bytes", "Resident memory before the first connection", |run| {
        of(run, |of| Some(of.rss_baseline_bytes as f64))
    })
    .less()
    .columns(&[col(CONNECTIONS, "memory at the start", "")]),
    metric("broker_rss_max_bytes", "Highest resident memory of the broker", |run| {
        of(run, |of| Some(of.rss_max_bytes as f64))
    })
    .less()
    .files(&[Csv, OpenMetrics])
    .columns(&[col(RESOURCES, "memory max", "mem max")]),
    metric("broker_rss_avg_bytes", "Mean resident memory in the measure phase", |run| {
        of(run, |of| Some(of.rss_avg_bytes as f64))
    })
    .less()
    .columns(&[col(RESOURCES, "avg", "avg")]),
    metric(
        "broker_rss_stable_bytes",
        "Resident memory in the last third of the measure phase",
        |run| of(run, |of| Some(of.rss_stable_bytes as f64)),
    )
    .less()
    .files(&[Csv, OpenMetrics, Junit])
    .columns(&[col(RESOURCES, "stable", "stable"), col(CONNECTIONS, "memory stable at", "")]),
    metric(PER_CONNECTION, "Growth of memory per connection", RunResult::bytes_per_connection)
        .less()
        .files(&[Csv, OpenMetrics])
        .columns(&[col(CONNECTIONS, "bytes per connection", "bytes/connection")]),
    metric("broker_files_max", "Most files the broker had open", |run| {
        of(run, |of| Some(of.files_max as f64))
    })
    .columns(&[col(CONNECTIONS, "open files", "")]),
    metric("host_used_max_bytes", "Most memory of the host in use", |run| {
        of(run, |of| Some(of.host_used_max_bytes as f64))
    })
    .columns(&[col(RESOURCES, "host used max", "")]),
    metric("generator_cpu_cores", "Processors the load generator used", |run| {
        Some(run.generator.cpu_cores_avg)
    })
    .files(&[Csv, OpenMetrics])
    .columns(&[col(RESOURCES, "load CPU cores", "load CPU")]),
];

const fn latency(name: &'static str, help: &'static str, of: Of) -> Metric {
    metric(name, help, of).less().files(&[Csv])
}

#[expect(clippy::unnecessary_wraps, reason = "as the table has it")]
fn count(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn of(run: &RunResult, value: fn(&Resources) -> Option<f64>) -> Option<f64> {
    value(run.resources.as_ref()?)
}

fn of_latency(run: &RunResult, value: fn(&LatencyResult) -> f64) -> Option<f64> {
    run.latency().filter(|latency| latency.count > 0).map(value)
}

/// CPU of the kernel's network thread of the broker's core, by what `cpu_us_each` is divided by.
fn softirq_us_each(run: &RunResult) -> Option<f64> {
    let of = run.resources.as_ref()?;
    let (softirq_us, count) = if run.has_messages() {
        (of.softirq_us, of.deliveries)
    } else {
        (of.connect_softirq_us, run.connections.connected)
    };
    (count > 0).then_some(softirq_us? as f64 / count as f64)
}

fn rate(run: &RunResult) -> Option<f64> {
    let rate = if run.has_messages() { run.rates.received } else { run.rates.connected };
    (rate > 0.0).then_some(rate)
}

/// The metric of a name, if there is one.
pub fn named(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// The metrics of a file, in its order.
pub(crate) fn of_file(file: File) -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(move |metric| metric.files.contains(&file))
}

/// The columns of a table: the metric of each, and its title.
pub(crate) fn columns(
    sheet: Sheet,
    place: Place,
) -> impl Iterator<Item = (&'static Metric, &'static str)> {
    let titles =
        METRICS.iter().flat_map(|metric| metric.columns.iter().map(move |column| (metric, column)));
    titles.filter_map(move |(metric, column)| {
        let title = if place == Place::Page { column.page } else { column.terminal };
        (column.sheets.contains(&sheet) && !title.is_empty()).then_some((metric, title))
    })
}

impl Metric {
    /// The cell of a run in a table; nothing where it has no value.
    pub(crate) fn cell(&self, run: &RunResult, place: Place) -> Option<String> {
        let Some(value) = (self.of)(run) else {
            let is_too_small = self.name == PER_CONNECTION && run.resources.is_some();
            return is_too_small.then(|| "n/m".to_owned());
        };
        let has = |part: &str| self.name.contains(part);
        let whole = || match place {
            Place::Page => grouped(value.round() as u64),
            Place::Terminal => format!("{value:.0}"),
        };
        let text = match place {
            _ if has("_cores") => cores(value),
            _ if has("_us_per_") => format!("{value:.2}"),
            _ if has("_percent") => format!("{value:.1}"),
            _ if self.name.ends_with("_bytes") => mega(value as u64),
            Place::Page if has("_ratio") => format!("{:.3} %", value * 100.0),
            Place::Terminal if has("_ratio") => format!("{:.3}", value * 100.0),
            _ => whole(),
        };
        Some(text)
    }
}

/// A name and unit as OpenMetrics has them, with what a value is divided by.
pub(crate) struct Exposed {
    pub(crate) name: String,
    /// Empty where there is none.
    pub(crate) unit: &'static str,
    pub(crate) divisor: f64,
}

/// Our name as OpenMetrics asks for it: in base units, with the unit last.
pub(crate) fn exposed(name: &str) -> Exposed {
    let of = |name: String, unit, divisor| Exposed { name, unit, divisor };
    if let Some((what, each)) = name.split_once("_us_per_") {
        return of(format!("{what}_per_{each}_seconds"), "seconds", 1e6);
    }
    if let Some(what) = name.strip_suffix("_us") {
        return of(format!("{what}_seconds"), "seconds", 1e6);
    }
    if let Some(what) = name.strip_suffix("_per_s") {
        return of(format!("{what}_per_second"), "", 1.0);
    }
    if let Some((what, each)) = name.split_once("_bytes_per_") {
        return of(format!("{what}_per_{each}_bytes"), "bytes", 1.0);
    }
    let unit = ["bytes", "ratio"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
    of(name.into(), unit.unwrap_or_default(), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_metrics_have_one_name_and_each_is_written_as_files_are() {
        let names: std::collections::BTreeSet<_> = METRICS.iter().map(|of| of.name).collect();
        assert_eq!(names.len(), METRICS.len());
        let is_plain = |char: char| char.is_ascii_lowercase() || char == '_' || char.is_numeric();
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    }

    #[test]
    fn openmetrics_has_base_units_and_the_unit_last() {
        for (name, expected) in [
            ("latency_p99_us", "latency_p99_seconds"),
            ("broker_cpu_us_per_delivery", "broker_cpu_per_delivery_seconds"),
            ("broker_bytes_per_connection", "broker_per_connection_bytes"),
            ("disk_read_bytes_per_s", "disk_read_bytes_per_second"),
            ("broker_rss_max_bytes", "broker_rss_max_bytes"),
            ("lost", "lost"),
        ] {
            let exposed = exposed(name);
            assert_eq!(exposed.name, expected);
            assert!(exposed.name.ends_with(exposed.unit), "{expected}");
        }
    }

    #[test]
    fn the_kernels_network_thread_is_divided_by_what_the_broker_is() {
        use crate::result::Resources;
        let mut run = crate::result::read(include_str!("../tests/data/result-2.json")).unwrap();
        run.resources = Some(Resources {
            deliveries: 200,
            softirq_us: Some(3_000),
            connect_softirq_us: Some(700),
            ..Resources::default()
        });
        run.connections.connected = 70;
        assert_eq!(softirq_us_each(&run), Some(15.0));
        run.use_case.qos = None;
        assert_eq!(softirq_us_each(&run), Some(10.0));
        run.connections.connected = 0;
        assert_eq!(softirq_us_each(&run), None);
        run.connections.connected = 70;
        run.resources.as_mut().unwrap().connect_softirq_us = None;
        assert_eq!(softirq_us_each(&run), None);
    }
}
