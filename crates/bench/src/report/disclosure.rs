//! Full disclosure, checked: complete only when every field is filled or says why not.

use crate::result::RunResult;
use serde::Serialize;

/// A name and a value, for lists.
#[derive(Debug, Serialize)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) value: String,
}

impl Pair {
    pub(super) fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// "complete", or which fields are missing.
pub(super) fn state(run: &RunResult) -> String {
    let of = &run.use_case;
    // Shown beside the facts, each in a part of its own.
    let apart = [
        Pair::new("use-case file", &of.file),
        Pair::new("hash of the use-case file", &of.file_sha256),
        Pair::new("series", if run.series.is_empty() { "" } else { "kept" }),
        Pair::new("configuration of the broker", configuration(run)),
    ];
    let all = facts(run).into_iter().chain(apart);
    let missing: Vec<String> =
        all.filter(|pair| pair.value.trim().is_empty()).map(|pair| pair.name).collect();
    if missing.is_empty() {
        "complete".into()
    } else {
        format!("incomplete, missing: {}", missing.join(", "))
    }
}

/// The configuration, or that it cannot be known: only a broker nobody started here may lack it.
fn configuration(run: &RunResult) -> &str {
    if run.broker.command.is_empty() && run.broker.configuration.is_empty() {
        "started by somebody else: not known"
    } else {
        &run.broker.configuration
    }
}

/// Everything disclosed of a run, beside configuration, use-case file and what was not measured.
pub(super) fn facts(run: &RunResult) -> Vec<Pair> {
    let mut facts = suite(run);
    facts.extend(broker(run));
    facts.extend(host(run));
    facts.extend(kernel(run));
    facts.extend(load(run));
    facts
}

fn suite(run: &RunResult) -> Vec<Pair> {
    vec![
        Pair::new("suite", format!("weir {} ({})", run.suite.version, run.suite.commit)),
        Pair::new("command", run.suite.command.join(" ")),
        Pair::new("begin and end", format!("{} to {}", run.suite.started, run.suite.ended)),
        Pair::new("interest", "the driver named weir is this suite's own broker"),
    ]
}

fn broker(run: &RunResult) -> Vec<Pair> {
    let of = &run.broker;
    let elsewhere = "started by somebody else: not known";
    let or_elsewhere = |text: String| if text.is_empty() { elsewhere.into() } else { text };
    let profile = match of.profile_changes.as_slice() {
        [] => of.profile.clone(),
        changes => format!("{}: {}", of.profile, changes.join("; ")),
    };
    vec![
        Pair::new("broker", format!("{} {}", of.name, of.version)),
        Pair::new("broker's command", or_elsewhere(of.command.join(" "))),
        Pair::new("broker's address", &of.address),
        Pair::new("profile", profile),
    ]
}

fn host(run: &RunResult) -> Vec<Pair> {
    let host = &run.host;
    let round_trip = |us: Option<f64>| us.map_or("not answered".into(), |us| format!("{us:.0} us"));
    let sysctls: Vec<String> =
        host.sysctls.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let [one, five, fifteen] = host.load_before;
    vec![
        Pair::new("CPU", format!("{}, {} cores", host.cpu_model, host.cores)),
        Pair::new("governor", &host.governor),
        Pair::new("memory", format!("{:.1} GB", host.memory_bytes as f64 / 1e9)),
        Pair::new("system", format!("{}, kernel {}", host.os, host.kernel)),
        Pair::new("virtualization", &host.virtualization),
        Pair::new("load before", format!("{one} {five} {fifteen}")),
        Pair::new("open files", host.open_files_max.to_string()),
        Pair::new("kernel settings", sysctls.join("; ")),
        Pair::new("pinning", &host.pinning),
        Pair::new("kernel's network thread", softirq(run)),
        Pair::new(
            "round trip before and after",
            format!(
                "{} and {}",
                round_trip(host.round_trip_us_before),
                round_trip(host.round_trip_us_after)
            ),
        ),
    ]
}

fn kernel(run: &RunResult) -> Vec<Pair> {
    let pairs = run.host.kernel_facts.pairs().into_iter();
    pairs.map(|(name, value)| Pair::new(name, value)).collect()
}

/// What `ksoftirqd` did on the broker's core, which is not in the broker's CPU.
fn softirq(run: &RunResult) -> String {
    let Some(of) = &run.resources else { return "the broker's core cannot be seen".into() };
    match of.softirq_us {
        None => "not known: the broker is not pinned to a core, or the thread is not seen".into(),
        Some(us) => {
            let part = us as f64 / of.deliveries.max(1) as f64;
            format!(
                "ksoftirqd of the broker's core: {us} us in measure, {part:.3} us a delivery, not \
                 in the broker's CPU"
            )
        }
    }
}

fn load(run: &RunResult) -> Vec<Pair> {
    let use_case = &run.use_case;
    let phases: Vec<String> = run
        .phases
        .iter()
        .map(|phase| format!("{} {:.1} to {:.1} s", phase.name, phase.start_s, phase.end_s))
        .collect();
    let generator = &run.generator;
    let lag = run.latencies.get("generator_lag").map_or(0, |lag| lag.p99_us);
    let who = match generator.agents.len() {
        0 => "one thread".to_owned(),
        agents => format!("{agents} agents ({})", generator.agents.join("; ")),
    };
    vec![
        Pair::new(
            "clients",
            format!(
                "{} publishers, {} subscribers, {} idle; {} topics",
                use_case.publishers, use_case.subscribers, use_case.idle_clients, use_case.topics
            ),
        ),
        Pair::new(
            "rates planned",
            format!(
                "{} published/s, {} delivered/s, {} connects/s",
                use_case.publish_rate_planned,
                use_case.deliver_rate_planned,
                use_case.connect_rate_planned
            ),
        ),
        Pair::new(
            "rates reached",
            format!(
                "{:.0} published/s, {:.0} delivered/s, {:.0} connects/s",
                run.rates.published, run.rates.received, run.rates.connected
            ),
        ),
        Pair::new(
            "packets",
            format!(
                "{:.0}/s to the broker, {:.0}/s from it",
                run.rates.packets_to_broker, run.rates.packets_from_broker
            ),
        ),
        Pair::new("phases", phases.join("; ")),
        Pair::new(
            "load generator",
            format!(
                "open loop, {who}, {:.2} cores ({:.2} user, {:.2} system), lag p99 {lag} us, \
                 ledger {} bytes",
                generator.cpu_cores_avg,
                generator.cpu_user_cores_avg,
                generator.cpu_system_cores_avg,
                generator.ledger_bytes
            ),
        ),
        Pair::new(
            "ceiling of the load generator",
            "not measured in this run: its CPU and lag say how far away it was, and `weir bench \
             doctor --measure` what a core of this host bears",
        ),
        Pair::new("errors", errors(run)),
        Pair::new("seed", "none: the schedule follows from the use case alone"),
        Pair::new(
            "raw data",
            "result.json in the folder of the run: histograms, series, nothing left out",
        ),
        Pair::new("repeats", "1: this run"),
    ]
}

/// Everything that failed, by its reason.
fn errors(run: &RunResult) -> String {
    let kinds = [
        ("connect", &run.connections.failed),
        ("dropped", &run.connections.dropped),
        ("subscribe", &run.subscriptions.failed),
    ];
    let all = kinds.into_iter().flat_map(|(kind, of)| {
        of.iter().map(move |(reason, count)| format!("{kind}: {count} x {reason}"))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() { "none".into() } else { all.join("; ") }
}
