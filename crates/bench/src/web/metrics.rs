//! The state as Prometheus reads it: the text format, version 0.0.4.

use crate::export::label;
use crate::live::state::{Run, State};
use crate::result::{SYSTEM_COLUMNS, SeriesRow, Status};
use std::fmt::Write as _;

/// Of the text format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number of a run: its name, its meaning, and how to read it off. A sum from the run's begin is
/// named `_total` and is a counter; it begins anew with every run.
struct Metric<T> {
    name: &'static str,
    help: &'static str,
    of: fn(&T) -> f64,
}

const fn metric<T>(name: &'static str, help: &'static str, of: fn(&T) -> f64) -> Metric<T> {
    Metric { name, help, of }
}

/// Sums from the run's begin.
const TOTALS: &[Metric<Run>] = &[
    metric("connects_total", "Connections accepted.", |run| run.totals.connected as f64),
    metric("connect_failures_total", "Connections failed or dropped.", |run| {
        run.totals.connect_failures as f64
    }),
    metric("published_total", "Messages sent.", |run| run.totals.published as f64),
    metric("publish_failures_total", "Messages refused.", |run| run.totals.publish_failures as f64),
    metric("acknowledged_total", "Messages acknowledged with success.", |run| {
        run.totals.acknowledged as f64
    }),
    metric("received_total", "Messages received.", |run| run.totals.received as f64),
    metric("duplicated_total", "Deliveries that came again.", |run| run.totals.duplicated as f64),
    metric("reordered_total", "Deliveries that came after a later one.", |run| {
        run.totals.reordered as f64
    }),
    metric("sent_bytes_total", "Bytes written to sockets.", |run| run.totals.bytes_out as f64),
    metric("received_bytes_total", "Bytes read from sockets.", |run| run.totals.bytes_in as f64),
];

/// What the newest interval says.
const GAUGES: &[Metric<SeriesRow>] = &[
    metric("run_seconds", "Seconds from the run's begin.", |row| row.t_s),
    metric("connections", "Connections open.", |row| row.connections as f64),
    metric("publishers", "Publishers connected.", |row| row.publishers as f64),
    metric("subscribers", "Subscribers connected.", |row| row.subscribers as f64),
    metric("outstanding", "Deliveries owed and not come yet.", |row| row.outstanding as f64),
    metric("generator_lag_seconds", "p99 of the generator's own lag.", |row| {
        row.generator_lag_p99_us as f64 / 1e6
    }),
    metric("generator_cpu_cores", "CPU of the generator.", |row| row.generator_cpu_cores),
];

/// What the newest interval says of a broker that is watched.
const BROKER: &[Metric<SeriesRow>] = &[
    metric("broker_cpu_cores", "CPU of the broker's processes.", |row| {
        row.broker_cpu_user_cores + row.broker_cpu_system_cores
    }),
    metric("broker_resident_bytes", "Resident memory of the broker's processes.", |row| {
        row.broker_rss_bytes as f64
    }),
    metric("broker_open_files", "Open files of the broker's processes.", |row| {
        row.broker_files as f64
    }),
    metric("broker_threads", "Threads of the broker's processes.", |row| row.broker_threads as f64),
    metric("host_used_bytes", "Memory of the host in use.", |row| row.host_used_bytes as f64),
];

/// A quantile as its label says it, and how to read it off a row, in microseconds.
type Quantile = (&'static str, fn(&SeriesRow) -> u64);

/// Of the latency from the intended time to receipt.
const QUANTILES: &[Quantile] = &[
    ("0.5", |row| row.latency_p50_us),
    ("0.9", |row| row.latency_p90_us),
    ("0.99", |row| row.latency_p99_us),
    ("1", |row| row.latency_max_us),
];

/// All of it; an empty text before the first run.
pub(super) fn render(state: &State) -> String {
    let mut text = String::new();
    runs(&mut text, state);
    let Some(run) = &state.run else { return text };
    let labels = labels(run);
    phase(&mut text, run, &labels);
    all(&mut text, TOTALS, "counter", &labels, run);
    let Some(row) = run.row() else { return text };
    all(&mut text, GAUGES, "gauge", &labels, row);
    if run.started.is_watched {
        all(&mut text, BROKER, "gauge", &labels, row);
    }
    system(&mut text, &labels, row);
    if run.has_messages() && row.latency_max_us > 0 {
        let help = "Intended time to receipt, of what came in the newest interval.";
        head(&mut text, "latency_seconds", help, "gauge");
        for (quantile, of) in QUANTILES {
            let value = of(row) as f64 / 1e6;
            let line = format!("weir_bench_latency_seconds{{{labels},quantile=\"{quantile}\"}}");
            let _ = writeln!(text, "{line} {value}");
        }
    }
    text
}

/// What the monitor could see beside CPU and memory.
fn system(text: &mut String, labels: &str, row: &SeriesRow) {
    for column in SYSTEM_COLUMNS {
        let Some(value) = (column.of)(&row.system) else { continue };
        let name = column.name.replace("_per_s", "_per_second");
        head(text, &name, &format!("{}, in {}.", column.label, column.unit), "gauge");
        let _ = writeln!(text, "weir_bench_{name}{{{labels}}} {value}");
    }
}

/// How many runs of the command ended how.
fn runs(text: &mut String, state: &State) {
    head(text, "runs", "Runs of this command by what became of them.", "gauge");
    let ended = |status| {
        let all = state.cells.iter().filter_map(|cell| cell.ended.as_ref());
        all.filter(|ended| ended.status == status).count()
    };
    let all =
        [Status::Passed, Status::Failed, Status::Invalid, Status::Aborted, Status::Unsupported];
    let open = state.cells.iter().filter(|cell| cell.ended.is_none()).count();
    let counts = all.map(|status| (status.name(), ended(status)));
    for (name, count) in counts.into_iter().chain([("open", open)]) {
        let _ = writeln!(text, "weir_bench_runs{{status=\"{name}\"}} {count}");
    }
}

/// 1 for the phase under way.
fn phase(text: &mut String, run: &Run, labels: &str) {
    head(text, "phase", "1 for the phase under way.", "gauge");
    let now = run.phases.last().filter(|_| run.ended.is_none()).map(|phase| phase.name);
    for phase in &run.started.phases {
        let is_now = u8::from(now == Some(phase.name));
        let name = phase.name;
        let _ = writeln!(text, "weir_bench_phase{{{labels},phase=\"{name}\"}} {is_now}");
    }
}

fn all<T>(text: &mut String, metrics: &[Metric<T>], kind: &str, labels: &str, of: &T) {
    for metric in metrics {
        head(text, metric.name, metric.help, kind);
        let value = (metric.of)(of);
        let _ = writeln!(text, "weir_bench_{}{{{labels}}} {value}", metric.name);
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP weir_bench_{name} {help}");
    let _ = writeln!(text, "# TYPE weir_bench_{name} {kind}");
}

fn labels(run: &Run) -> String {
    let (use_case, broker) = (label(&run.started.use_case), label(&run.started.broker));
    format!("use_case=\"{use_case}\",broker=\"{broker}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::sample;

    fn text(rows: usize, broker: &str) -> String {
        let mut state = State::default();
        sample::events(rows).iter().for_each(|event| state.handle(event));
        if let Some(run) = &mut state.run {
            run.started.broker = broker.into();
        }
        render(&state)
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample_with_its_type_before_it() {
        let text = text(3, "a \"b\\\n");
        let mut types = std::collections::BTreeMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(types.insert(name, kind).is_none(), "{name} twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            } else if !line.starts_with("# HELP ") {
                let name = line.split_once('{').unwrap().0;
                assert!(types.contains_key(name), "{line}");
                assert!(line.rsplit_once("} ").unwrap().1.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(types.len() > 20, "{types:?}");
        assert!(text.contains(r#"broker="a \"b\\\n""#), "{text}");
    }

    #[test]
    fn figures_are_those_of_the_run() {
        let text = text(4, "Weir");
        let labels = "{use_case=\"singlenode-p2p-1K-1K-1K-1K\",broker=\"Weir\"";
        for part in [
            format!("weir_bench_published_total{labels}}} 4000\n"),
            format!("weir_bench_latency_seconds{labels},quantile=\"0.5\"}} 0.00012\n"),
            format!("weir_bench_phase{labels},phase=\"measure\"}} 1\n"),
            format!("weir_bench_broker_cpu_cores{labels}}} 0.25\n"),
            format!("weir_bench_context_switches_per_second{labels}}} 1500\n"),
            "weir_bench_runs{status=\"open\"} 3\n".into(),
        ] {
            assert!(text.contains(&part), "{part} is missing in:\n{text}");
        }
    }

    #[test]
    fn before_the_first_run_there_are_only_the_planned_ones() {
        assert!(!render(&State::default()).contains("published_total"));
    }
}
