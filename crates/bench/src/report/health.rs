//! Whether the host let the runs be: what else took its processors, and how late the load was.

use super::runs::{Named, Use};
use super::section::{Section, SectionRow};
use crate::numbers::{cores, millis};
use crate::result::{Status, System};

const HEAD: [&str; 8] = [
    "run",
    "host CPU, cores busy",
    "other programs, cores",
    "stolen by other guests",
    "load generator, cores",
    "its lag p99, ms",
    "TCP round trip before, µs",
    "after, µs",
];

/// A row a run that was made.
pub(super) fn section(uses: &[Use<'_>]) -> Section {
    let runs = uses
        .iter()
        .flat_map(|of| &of.runs)
        .filter(|named| !named.run.phases.is_empty())
        .filter(|named| named.run.has_figures());
    Section {
        title: "Health of the host".into(),
        about: vec![
            "In the measure phase. Figures mean little where the host had no core left, another \
             guest took its time, or the load generator was late."
                .into(),
        ],
        head: HEAD.map(Into::into).into(),
        rows: runs.map(row).collect(),
    }
}

fn row(named: &Named<'_>) -> SectionRow {
    let run = named.run;
    let measure = |of: fn(&System) -> Option<f64>| run.system.as_ref().and_then(of);
    let text =
        |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(super::sheets::dash, text);
    let all = run.host.cores;
    let busy = measure(|of| of.measure.host_cpu_cores);
    let lag_us = run.latencies.get("generator_lag").filter(|of| of.count > 0);
    let whole = |us: f64| format!("{us:.1}");
    let cells = [
        format!("{}, {}", super::tiles::short(&run.use_case.name), named.label),
        busy.map_or_else(super::sheets::dash, |busy| format!("{} of {all}", cores(busy))),
        text(run.host.disturbance.others_cores, cores),
        text(measure(|of| of.measure.host_steal_cores), cores),
        cores(run.generator.cpu_cores_avg),
        text(lag_us.map(|of| of.p99_us as f64), millis),
        text(run.host.round_trip_us_before, whole),
        text(run.host.round_trip_us_after, whole),
    ];
    let badge = match run.verdict.status {
        Status::Invalid => Some("invalid"),
        _ if !run.host.disturbance.reasons.is_empty() => Some("not quiet"),
        _ => None,
    };
    SectionRow { cells: cells.into(), badge: badge.map(Into::into) }
}
