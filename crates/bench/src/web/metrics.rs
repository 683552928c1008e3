//! The state as Prometheus reads it: the text format, version 0.0.4.

use crate::export::label;
use crate::live::state::{Run, State};
use crate::metrics::{Exposed, exposed};
use crate::result::series::{DERIVED, Figure, SERIES, SYSTEM};
use crate::result::{SeriesRow, Status};
use std::fmt::Write as _;

/// Of the text format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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
    for figure in SERIES.iter().filter(|figure| figure.is_summed()) {
        // A sum from the run's begin: it begins anew with every run.
        let (name, value) = (format!("{}_total", figure.total_name()), run.totals.of(figure));
        sample(&mut text, &name, figure.help, "counter", &labels, value as f64);
    }
    let Some(row) = run.row() else { return text };
    sample(
        &mut text,
        "run_seconds",
        "Seconds since the start of the run.",
        "gauge",
        &labels,
        row.t_s,
    );
    let is_seen = |name: &str| run.started.is_watched || !name.starts_with("broker_");
    for figure in SERIES.iter().chain(DERIVED).filter(|of| is_gauge(of) && is_seen(of.name)) {
        gauge(&mut text, figure, &labels, row);
    }
    for figure in SYSTEM {
        gauge(&mut text, figure, &labels, &row.system);
    }
    if run.has_messages() && row.latency_max_us > 0 {
        let help = "Intended time to receipt, of the messages of the latest interval.";
        head(&mut text, "latency_seconds", help, "gauge");
        for (quantile, of) in QUANTILES {
            let value = of(row) as f64 / 1e6;
            let line = format!("weir_bench_latency_seconds{{{labels},quantile=\"{quantile}\"}}");
            let _ = writeln!(text, "{line} {value}");
        }
    }
    text
}

/// Whether a figure is what the newest interval says, and no latency of messages: these are one
/// family.
fn is_gauge(figure: &Figure<SeriesRow>) -> bool {
    !figure.is_summed() && !figure.name.starts_with("latency_")
}

/// What the newest interval says, where it says something.
fn gauge<T>(text: &mut String, figure: &Figure<T>, labels: &str, row: &T) {
    let Some(value) = (figure.of)(row) else { return };
    let Exposed { name, divisor, .. } = exposed(figure.name);
    sample(text, &name, figure.help, "gauge", labels, value / divisor);
}

/// How many runs of the command ended how.
fn runs(text: &mut String, state: &State) {
    head(text, "runs", "Runs of this command by outcome.", "gauge");
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

/// 1 for the current phase.
fn phase(text: &mut String, run: &Run, labels: &str) {
    head(text, "phase", "1 for the current phase.", "gauge");
    let now = run.phases.last().filter(|_| run.ended.is_none()).map(|phase| phase.name);
    for phase in &run.started.phases {
        let is_now = u8::from(now == Some(phase.name));
        let name = phase.name;
        let _ = writeln!(text, "weir_bench_phase{{{labels},phase=\"{name}\"}} {is_now}");
    }
}

fn sample(text: &mut String, name: &str, help: &str, kind: &str, labels: &str, value: f64) {
    head(text, name, help, kind);
    let _ = writeln!(text, "weir_bench_{name}{{{labels}}} {value}");
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
        // What is summed, and what is of one family, has no gauge of its own.
        for part in ["weir_bench_latency_p99", "weir_bench_published_per"] {
            assert!(!text.contains(part), "{part} in:\n{text}");
        }
    }

    #[test]
    fn before_the_first_run_there_are_only_the_planned_ones() {
        assert!(!render(&State::default()).contains("published_total"));
    }
}
