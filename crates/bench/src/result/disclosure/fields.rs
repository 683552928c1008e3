//! The fields of full disclosure: what each is called, what it is made of, how a person reads it.

use crate::result::RunResult;
use std::collections::BTreeMap;

/// One field.
pub(super) struct Field {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    /// JSON pointers into `result.json`; each must be filled. None: a rule of the suite.
    pub(super) at: &'static [&'static str],
    pub(super) text: fn(&RunResult) -> String,
}

/// Places that may hold nothing, which then is the finding.
pub(super) const MAY_BE_NONE: &[&str] = &[
    "/host/round_trip_us_before",
    "/host/round_trip_us_after",
    "/broker/profile_changes",
    "/connections/failed",
    "/connections/dropped",
    "/subscriptions/failed",
    "/not_measured",
    "/verdict/reasons",
    "/generator/agents",
    "/generator/invalid",
];

/// Places of which zero says nothing.
pub(super) const ABOVE_ZERO: &[&str] = &[
    "/host/cores",
    "/host/memory_bytes",
    "/host/open_files_max",
    "/host/kernel_facts/clock_read_ns",
    "/use_case/revision",
    "/use_case/scale",
    "/use_case/scale_asked",
];

/// A place whose texts may be empty one by one.
pub(super) const SPARSE: &str = "/interval_histograms";

/// Places that a broker somebody else runs need not fill.
pub(super) const OF_A_STARTED_BROKER: &[&str] = &["/broker/command", "/broker/configuration"];

const ELSEWHERE: &str = "not known: the broker was started by somebody else";

macro_rules! fields {
    ($($group:literal: { $($name:literal, [$($at:literal),*], $text:expr;)* })*) => {
        &[$($(Field { group: $group, name: $name, at: &[$($at),*], text: $text },)*)*]
    };
}

pub(super) const FIELDS: &[Field] = fields! {
    "Identity": {
        "suite", ["/suite/version", "/suite/commit"],
            |run| format!("weir {} ({})", run.suite.version, run.suite.commit);
        "hash of the suite's program", ["/disclosed/suite_sha256"],
            |run| run.disclosed.suite_sha256.clone();
        "command", ["/suite/command"], |run| run.suite.command.join(" ");
        "start and end", ["/suite/started", "/suite/ended"],
            |run| format!("{} to {}", run.suite.started, run.suite.ended);
        "run by", ["/disclosed/run_by"], |run| run.disclosed.run_by.clone();
        "interest", [], |_| "the driver named weir is this suite's own broker".into();
        "use case", ["/use_case/name", "/use_case/revision"],
            |run| format!("{}, revision {}", run.use_case.name, run.use_case.revision);
        "use-case file", ["/use_case/file"], |_| "shown below".into();
        "hash of the use-case file", ["/use_case/file_sha256"],
            |run| run.use_case.file_sha256.clone();
        "scale", ["/use_case/scale_asked", "/use_case/scale"],
            |run| format!("{} asked, {} run", run.use_case.scale_asked, run.use_case.scale);
        "seed", ["/disclosed/seed"], |run| run.disclosed.seed.clone();
    }
    "Broker": {
        "broker", ["/broker/name", "/broker/version", "/broker/driver"],
            |run| format!("{} {}", run.broker.name, run.broker.version);
        "broker's program", ["/disclosed/broker/executable"],
            |run| run.disclosed.broker.executable.clone();
        "hash of the broker's program", ["/disclosed/broker/executable_sha256"],
            |run| run.disclosed.broker.executable_sha256.clone();
        "runtime", ["/disclosed/broker/runtime"], |run| run.disclosed.broker.runtime.clone();
        "processes", ["/disclosed/broker/processes"], |run| run.disclosed.broker.processes.clone();
        "broker's command", ["/broker/command"], |run| or_elsewhere(run.broker.command.join(" "));
        "broker's address", ["/broker/address"], |run| run.broker.address.clone();
        "profile", ["/broker/profile", "/broker/profile_changes"], profile;
        "configuration of the broker", ["/broker/configuration"], |run| {
            let is_known = !run.broker.configuration.is_empty();
            if is_known { "shown below".into() } else { ELSEWHERE.into() }
        };
        "persistence", ["/disclosed/broker/persistence"],
            |run| run.disclosed.broker.persistence.clone();
        "authentication", ["/disclosed/broker/authentication"],
            |run| run.disclosed.broker.authentication.clone();
        "TLS", ["/disclosed/broker/tls"], |run| run.disclosed.broker.tls.clone();
        "plugins", ["/disclosed/broker/plugins"], |run| run.disclosed.broker.plugins.clone();
        "log", ["/disclosed/broker/log"], |run| run.disclosed.broker.log.clone();
        "limits of the broker's process", ["/disclosed/broker/limits"],
            |run| settings(&run.disclosed.broker.limits);
    }
    "Host": {
        "CPU", ["/host/cpu_model", "/host/cores"],
            |run| format!("{}, {} cores", run.host.cpu_model, run.host.cores);
        "threads per core", ["/disclosed/host/smt"], |run| run.disclosed.host.smt.clone();
        "governor", ["/host/governor", "/host/kernel_facts/governors"], |run| {
            let all = &run.host.kernel_facts.governors;
            if all.is_empty() { run.host.governor.clone() } else { all.clone() }
        };
        "boost", ["/host/kernel_facts/boost"], |run| run.host.kernel_facts.boost.clone();
        "mitigations", ["/host/kernel_facts/mitigations"],
            |run| run.host.kernel_facts.mitigations.clone();
        "memory nodes", ["/disclosed/host/numa"], |run| run.disclosed.host.numa.clone();
        "memory", ["/host/memory_bytes"],
            |run| format!("{:.1} GB", run.host.memory_bytes as f64 / 1e9);
        "huge pages", ["/disclosed/host/huge_pages"], |run| run.disclosed.host.huge_pages.clone();
        "disk", ["/disclosed/host/disk"], |run| run.disclosed.host.disk.clone();
        "system", ["/host/os"], |run| run.host.os.clone();
        "kernel", ["/host/kernel"], |run| run.host.kernel.clone();
        "clock source", ["/disclosed/host/clock_source"],
            |run| run.disclosed.host.clock_source.clone();
        "reading the clock", ["/host/kernel_facts/clock_read_ns"],
            |run| format!("{:.0} ns", run.host.kernel_facts.clock_read_ns);
        "connection tracking", ["/host/kernel_facts/connection_tracking"],
            |run| run.host.kernel_facts.connection_tracking.clone();
        "virtualization", ["/host/virtualization"], |run| run.host.virtualization.clone();
        "control group", ["/disclosed/host/cgroup"], |run| run.disclosed.host.cgroup.clone();
        "load before", ["/host/load_before"], |run| {
            let [one, five, fifteen] = run.host.load_before;
            format!("load averages {one} {five} {fifteen}")
        };
        "pressure before", ["/disclosed/host/pressure_before"],
            |run| run.disclosed.host.pressure_before.clone();
        "pinning", ["/host/pinning"], |run| run.host.pinning.clone();
        "open files", ["/host/open_files_max"], |run| run.host.open_files_max.to_string();
        "limits of the suite's process", ["/disclosed/host/limits"],
            |run| settings(&run.disclosed.host.limits);
        "kernel settings", ["/host/sysctls"], |run| settings(&run.host.sysctls);
        "more kernel settings", ["/disclosed/host/sysctls"],
            |run| settings(&run.disclosed.host.sysctls);
        "kernel's network thread", [], softirq;
    }
    "Network": {
        "topology", ["/disclosed/network/topology"], |run| run.disclosed.network.topology.clone();
        "interface", ["/disclosed/network/interface"],
            |run| run.disclosed.network.interface.clone();
        "MTU", ["/disclosed/network/mtu"], |run| run.disclosed.network.mtu.clone();
        "TCP congestion control", ["/disclosed/network/congestion_control"],
            |run| run.disclosed.network.congestion_control.clone();
        "socket buffers", ["/disclosed/network/socket_buffers"],
            |run| run.disclosed.network.socket_buffers.clone();
        "socket options", ["/disclosed/network/socket_options"],
            |run| run.disclosed.network.socket_options.clone();
        "queueing discipline", ["/disclosed/network/queueing"],
            |run| run.disclosed.network.queueing.clone();
        "round trip before and after", ["/host/round_trip_us_before", "/host/round_trip_us_after"],
            round_trips;
        "jitter of the round trip", ["/disclosed/network/jitter"],
            |run| run.disclosed.network.jitter.clone();
        "bandwidth", ["/disclosed/network/bandwidth"],
            |run| run.disclosed.network.bandwidth.clone();
        "clocks", ["/disclosed/network/clocks"], |run| run.disclosed.network.clocks.clone();
    }
    "Load": {
        "client library", ["/disclosed/load/client_library"],
            |run| run.disclosed.load.client_library.clone();
        "MQTT version", ["/use_case/mqtt_version"], |run| run.use_case.mqtt_version.clone();
        "clients", ["/use_case/publishers", "/use_case/subscribers", "/use_case/idle_clients",
            "/use_case/topics"], clients;
        "connections per source address", ["/disclosed/load/connections_per_address"],
            |run| run.disclosed.load.connections_per_address.clone();
        "rates planned", ["/use_case/publish_rate_planned", "/use_case/deliver_rate_planned",
            "/use_case/connect_rate_planned"], planned;
        "rates reached", ["/rates/published", "/rates/received", "/rates/connected"], reached;
        "packets", ["/rates/packets_to_broker", "/rates/packets_from_broker"], |run| {
            let rates = &run.rates;
            let (to, from) = (rates.packets_to_broker, rates.packets_from_broker);
            format!("{to:.0}/s to the broker, {from:.0}/s from it")
        };
        "load generator", ["/generator/cpu_cores_avg", "/generator/invalid"], generator;
        "agents", ["/generator/agents"], |run| match run.generator.agents.as_slice() {
            [] => "none: one thread of the suite's process".into(),
            agents => agents.join("; "),
        };
        "ceiling of the load generator", ["/disclosed/load/ceiling"],
            |run| run.disclosed.load.ceiling.clone();
    }
    "Results": {
        "phases", ["/phases"], phases;
        "measurement window", [],
            |_| "everything due in the measure phase counts; nothing is left out".into();
        "contract", ["/verdict/status", "/verdict/reasons"], |run| {
            let reasons = run.verdict.reasons.join("; ");
            let status = run.verdict.status.name();
            if reasons.is_empty() { status.into() } else { format!("{status}: {reasons}") }
        };
        "metrics not measured", ["/not_measured"],
            |run| format!("{}, each with its reason", run.not_measured.len());
        "errors", ["/connections/failed", "/connections/dropped", "/subscriptions/failed"], errors;
        "histograms", ["/latencies"], |run| {
            let names: Vec<&str> = run.latencies.keys().map(String::as_str).collect();
            format!("complete, of {}", names.join(", "))
        };
        "series", ["/series"], |run| format!("{} intervals", run.series.len());
        "histograms of the intervals", ["/interval_histograms"], |run| {
            let names: Vec<&str> = run.interval_histograms.keys().map(String::as_str).collect();
            format!("complete, of {}", names.join(", "))
        };
        "repeats", [], |_| "every run is on this page, none is left out".into();
        "raw data", [], |_| "result.json, to download from this page".into();
    }
};

fn or_elsewhere(text: String) -> String {
    if text.is_empty() { ELSEWHERE.into() } else { text }
}

fn settings(of: &BTreeMap<String, String>) -> String {
    of.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join("; ")
}

fn profile(run: &RunResult) -> String {
    let of = &run.broker;
    match of.profile_changes.as_slice() {
        [] => of.profile.clone(),
        changes => format!("{}: {}", of.profile, changes.join("; ")),
    }
}

/// What `ksoftirqd` did on the broker's core, which is not in the broker's CPU.
fn softirq(run: &RunResult) -> String {
    let Some(of) = &run.resources else { return "the broker's core cannot be seen".into() };
    match of.softirq_us {
        None => "not known: the broker is not pinned to a core, or the thread cannot be \
            seen"
            .into(),
        Some(us) => {
            let part = us as f64 / of.deliveries.max(1) as f64;
            format!(
                "ksoftirqd of the broker's core: {us} us in measure, {part:.3} us per delivery, \
                 not in the broker's CPU"
            )
        }
    }
}

fn round_trips(run: &RunResult) -> String {
    let text = |us: Option<f64>| us.map_or("not answered".into(), |us| format!("{us:.0} us"));
    let host = &run.host;
    format!("{} and {}", text(host.round_trip_us_before), text(host.round_trip_us_after))
}

fn clients(run: &RunResult) -> String {
    let of = &run.use_case;
    format!(
        "{} publishers, {} subscribers, {} idle; {} topics",
        of.publishers, of.subscribers, of.idle_clients, of.topics
    )
}

fn planned(run: &RunResult) -> String {
    let of = &run.use_case;
    format!(
        "{} published/s, {} delivered/s, {} connects/s",
        of.publish_rate_planned, of.deliver_rate_planned, of.connect_rate_planned
    )
}

fn reached(run: &RunResult) -> String {
    format!(
        "{:.0} published/s, {:.0} delivered/s, {:.0} connects/s",
        run.rates.published, run.rates.received, run.rates.connected
    )
}

fn generator(run: &RunResult) -> String {
    let of = &run.generator;
    let lag = run.latencies.get("generator_lag").map_or(0, |lag| lag.p99_us);
    format!(
        "open loop, {:.2} cores ({:.2} user, {:.2} system), lag p99 {lag} us, ledger {} bytes",
        of.cpu_cores_avg, of.cpu_user_cores_avg, of.cpu_system_cores_avg, of.ledger_bytes
    )
}

fn phases(run: &RunResult) -> String {
    let of = run.phases.iter();
    let texts = of.map(|of| format!("{} {:.1} to {:.1} s", of.name, of.start_s, of.end_s));
    texts.collect::<Vec<_>>().join("; ")
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
