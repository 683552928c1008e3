//! From what was measured to a `RunResult`.

use crate::cluster::{self, Nodes};
use crate::faults::{self, Happened};
use crate::latency::{encode, summarize};
use crate::monitor::system::Work;
use crate::monitor::{self, Sample, Window};
use crate::result::{
    Broker, Generator, Host, LatencyResult, Mark, PhaseResult, Rates, Resources, RunResult, SCHEMA,
    SeriesRow, SilenceResult, Status, Suite, System, UseCaseRun, phase_name,
};
use crate::slope;
use crate::usecase::Scaled;
use crate::verdict;
use std::collections::BTreeMap;
use weir_load::outcome::{self, Interval, Phase};
use weir_load::{Outcome, Plan};

/// What was seen while a run lasted.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) started: jiff::Timestamp,
    pub(crate) baseline: Sample,
    pub(crate) samples: Vec<Sample>,
    /// Of each node and of what the nodes need, where there are several.
    pub(crate) trees: Vec<Vec<Sample>>,
    pub(crate) nodes: Nodes,
    pub(crate) pss_bytes: Option<u64>,
    /// The broker's control group, and whether the load is in it, too.
    pub(crate) group: Option<(String, bool)>,
    pub(crate) round_trip_us: (Option<f64>, Option<f64>),
    pub(crate) disclosed: crate::result::Disclosed,
    /// Steps done to the broker and the way to it.
    pub(crate) happened: Vec<Happened>,
    pub(crate) has_proxy: bool,
    /// Why the broker's process ended by itself, if it did.
    pub(crate) broker_exit: Option<String>,
}

/// Puts a result together.
pub(crate) fn result(
    suite: Suite,
    scaled: &Scaled<'_>,
    plan: &Plan,
    broker: Broker,
    mut host: Host,
    outcome: &Outcome,
    seen: &Seen,
) -> RunResult {
    (host.round_trip_us_before, host.round_trip_us_after) = seen.round_trip_us;
    let contract = &scaled.use_case.contract;
    let verdict = verdict::judge(outcome, contract, seen.broker_exit.as_deref());
    let steps = &scaled.use_case.step;
    let course = faults::course(steps, &seen.happened, seen.has_proxy, outcome);
    let (measure_us, measure_end_us) = span(outcome, Phase::Measure);
    let memory_slope = slope::of_memory(&seen.samples, measure_us, measure_end_us);
    let use_case = scaled.run_description(plan);
    let start_us = outcome.phases.first().map_or(0, |span| span.start_us);
    let is_local = !broker.command.is_empty();
    let window = window(outcome, host.cores);
    let resources = is_local
        .then(|| monitor::resources(&seen.samples, &seen.baseline, &window, seen.pss_bytes));
    let system = system(outcome, seen, resources.as_ref());
    let cluster = cluster::result(outcome, &seen.nodes, &seen.trees, &window);
    let measure_s = measure_us.saturating_sub(start_us) as f64 / 1e6;
    let silences = silences(outcome, start_us);
    let marks = course.iter().flat_map(|course| faults::marks(course, measure_s));
    let marks = marks.chain(silences.iter().map(mark)).collect();
    let result = RunResult {
        system: Some(system),
        schema: SCHEMA,
        suite,
        not_measured: not_measured(&use_case, is_local, outcome),
        course,
        cluster,
        memory_slope,
        use_case,
        broker,
        host,
        repetition: None,
        invalid_before: Vec::new(),
        verdict,
        phases: phases(outcome, start_us),
        connections: outcome.connections.clone(),
        handshakes: outcome.handshakes,
        subscriptions: outcome.subscriptions.clone(),
        warm_up: outcome.warm_up,
        measure: outcome.measure,
        rates: rates(outcome, plan),
        latencies: latencies(outcome),
        resources,
        generator: generator(outcome),
        series: series(outcome, &seen.samples, start_us),
        silences,
        marks,
        interval_histograms: interval_histograms(outcome),
        disclosed: seen.disclosed.clone(),
    };
    without_figures(verdict::judge_result(result, &scaled.use_case.thresholds))
}

/// A run that was stopped before its end has no figures: they would be of another run than the one
/// that was asked for. What was seen from interval to interval stays.
fn without_figures(result: RunResult) -> RunResult {
    if result.verdict.status != Status::Aborted {
        return result;
    }
    let why = "the run was stopped before its end".to_owned();
    RunResult {
        rates: Rates::default(),
        latencies: BTreeMap::new(),
        interval_histograms: BTreeMap::new(),
        memory_slope: None,
        resources: None,
        system: None,
        not_measured: BTreeMap::from([("every figure".to_owned(), why)]),
        ..result
    }
}

/// The broker's silences, in seconds from the run's begin.
fn silences(outcome: &Outcome, start_us: u64) -> Vec<SilenceResult> {
    let seconds = |us: u64| us as f64 / 1e6;
    let of = |silence: &outcome::Silence| SilenceResult {
        t_s: seconds(silence.start_us.saturating_sub(start_us)),
        length_s: seconds(silence.length_us),
    };
    outcome.silences.iter().map(of).collect()
}

fn mark(silence: &SilenceResult) -> Mark {
    let until_s = Some(silence.t_s + silence.length_s);
    Mark { t_s: silence.t_s, until_s, label: "the broker was silent".into() }
}

fn span(outcome: &Outcome, phase: Phase) -> (u64, u64) {
    let found = outcome.phases.iter().find(|span| span.phase == phase);
    found.map_or((0, 0), |span| (span.start_us, span.end_us))
}

/// What the sums of a run are taken over.
fn window(outcome: &Outcome, cores: u32) -> Window {
    Window {
        measure_us: span(outcome, Phase::Measure),
        connect_us: span(outcome, Phase::Connect),
        // Whichever message it was: the work the broker did in measure.
        deliveries: outcome.traffic.received,
        connections: outcome.connections.connected,
        cores,
    }
}

fn system(outcome: &Outcome, seen: &Seen, resources: Option<&Resources>) -> System {
    let work = Work {
        measure_us: span(outcome, Phase::Measure),
        published: outcome.traffic.published,
        delivered: outcome.traffic.received,
        connections: outcome.connections.connected,
        cpu_cores: resources.map_or(0.0, |of| of.cpu_cores_avg),
        rss_bytes: resources.map_or((0, 0), |of| (of.rss_baseline_bytes, of.rss_stable_bytes)),
        host_bytes: (
            seen.baseline.host_used_bytes,
            seen.samples.iter().map(|sample| sample.host_used_bytes).max().unwrap_or(0),
        ),
    };
    let (cgroup, is_cgroup_shared) = seen.group.clone().unzip();
    let run = monitor::system::run(&seen.samples, &work);
    System { cgroup, is_cgroup_shared: is_cgroup_shared.unwrap_or(false), ..run }
}

fn phases(outcome: &Outcome, start_us: u64) -> Vec<PhaseResult> {
    let second = |time_us: u64| time_us.saturating_sub(start_us) as f64 / 1e6;
    let of = |span: &outcome::PhaseSpan| PhaseResult {
        name: phase_name(span.phase).into(),
        start_s: second(span.start_us),
        end_s: second(span.end_us),
    };
    outcome.phases.iter().map(of).collect()
}

/// Rates of what went and came in measure.
fn rates(outcome: &Outcome, plan: &Plan) -> Rates {
    let (measure_start_us, measure_end_us) = span(outcome, Phase::Measure);
    let seconds = measure_end_us.saturating_sub(measure_start_us) as f64 / 1e6;
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let published = per_second(outcome.traffic.published);
    let received = per_second(outcome.traffic.received);
    let (connect_start_us, connect_end_us) = span(outcome, Phase::Connect);
    let connect_s = (connect_end_us.saturating_sub(connect_start_us)) as f64 / 1e6;
    let (there, back) = packets_each(plan, 2);
    let subscribe_qos = plan.groups.iter().flat_map(|group| &group.subscriptions).map(|s| s.qos);
    let (sub_there, sub_back) = packets_each(plan, subscribe_qos.max().unwrap_or(0));
    let expected = outcome.measure.expected;
    Rates {
        published,
        received,
        connected: if connect_s > 0.0 {
            outcome.connections.connected as f64 / connect_s
        } else {
            0.0
        },
        packets_to_broker: published * there + received * sub_back,
        packets_from_broker: published * back + received * sub_there,
        success: if expected == 0 {
            1.0
        } else {
            outcome.measure.delivered as f64 / expected as f64
        },
    }
}

/// Packets a message, itself and its acknowledgements, from its sender and back to it: the mean
/// over what the groups publish, at a QoS of `qos_max` at most.
fn packets_each(plan: &Plan, qos_max: u8) -> (f64, f64) {
    let publishing = plan.groups.iter().filter_map(|group| {
        let publish = group.publish.as_ref()?;
        Some((publish.rate_per_s * f64::from(group.clients), packets(publish.qos.min(qos_max))))
    });
    let (mut all, mut there, mut back) = (0.0, 0.0, 0.0);
    for (rate, each) in publishing {
        all += rate;
        there += rate * each.0;
        back += rate * each.1;
    }
    if all > 0.0 { (there / all, back / all) } else { (1.0, 0.0) }
}

/// Packets from the sender of a message and back to it, by QoS.
fn packets(qos: u8) -> (f64, f64) {
    match qos {
        0 => (1.0, 0.0),
        1 => (1.0, 1.0),
        _ => (2.0, 2.0),
    }
}

fn latencies(outcome: &Outcome) -> BTreeMap<String, LatencyResult> {
    let all = [
        ("connect", &outcome.latencies.connect),
        ("tcp_connect", &outcome.latencies.tcp_connect),
        ("handshake", &outcome.latencies.handshake),
        ("connack", &outcome.latencies.connack),
        ("subscribe", &outcome.latencies.subscribe),
        ("acknowledge", &outcome.latencies.acknowledge),
        ("acknowledge_from_intended", &outcome.latencies.acknowledge_from_intended),
        ("end_to_end", &outcome.latencies.end_to_end),
        ("end_to_end_from_send", &outcome.latencies.end_to_end_from_send),
        ("generator_lag", &outcome.generator.lag),
        ("generator_turn", &outcome.generator.turn),
    ];
    let measured = all.into_iter().filter(|(_, histogram)| !histogram.is_empty());
    measured.map(|(name, histogram)| (name.to_owned(), summarize(histogram))).collect()
}

/// The latencies of every interval in full; a name is absent where no interval has any.
fn interval_histograms(outcome: &Outcome) -> BTreeMap<String, Vec<String>> {
    type Of = fn(&weir_load::Distribution) -> Option<hdrhistogram::Histogram<u64>>;
    let all: [(&str, Of); 2] = [
        ("connect", weir_load::Distribution::connect),
        ("end_to_end", weir_load::Distribution::end_to_end),
    ];
    let texts = |(name, of): (&str, Of)| {
        let text = |histogram: Option<hdrhistogram::Histogram<u64>>| {
            histogram.as_ref().map_or_else(String::new, encode)
        };
        let texts: Vec<String> = outcome.distributions.iter().map(of).map(text).collect();
        texts.iter().any(|text| !text.is_empty()).then(|| (name.to_owned(), texts))
    };
    all.into_iter().filter_map(texts).collect()
}

fn generator(outcome: &Outcome) -> Generator {
    let generator = &outcome.generator;
    let wall_us = generator.wall_us.max(1) as f64;
    Generator {
        cpu_cores_avg: (generator.cpu_user_us + generator.cpu_system_us) as f64 / wall_us,
        cpu_user_cores_avg: generator.cpu_user_us as f64 / wall_us,
        cpu_system_cores_avg: generator.cpu_system_us as f64 / wall_us,
        ledger_bytes: generator.ledger_bytes,
        late_setup: generator.late_setup,
        late_measure: generator.late_measure,
        invalid: generator.invalid.clone(),
        agents: outcome.agents.clone(),
    }
}

fn series(outcome: &Outcome, samples: &[Sample], start_us: u64) -> Vec<SeriesRow> {
    outcome.intervals.iter().map(|interval| row(interval, samples, start_us)).collect()
}

/// An interval with what was seen of the broker in it.
pub(crate) fn row(interval: &Interval, samples: &[Sample], start_us: u64) -> SeriesRow {
    let seconds = interval.length_us as f64 / 1e6;
    let per_second = |count: u64| count as f64 / seconds;
    let end_us = interval.start_us + interval.length_us;
    let broker = monitor::at(samples, interval.start_us, end_us);
    SeriesRow {
        t_s: end_us.saturating_sub(start_us) as f64 / 1e6,
        phase: phase_name(interval.phase).into(),
        connections: interval.connections,
        subscribers: interval.subscribers,
        publishers: interval.publishers,
        connected_per_s: per_second(interval.connected),
        connect_failures: interval.connect_failures,
        subscribed_per_s: per_second(interval.subscribed),
        subscribe_failures: interval.subscribe_failures,
        published_per_s: per_second(interval.published),
        acknowledged_per_s: per_second(interval.acknowledged),
        publish_failures: interval.publish_failures,
        received_per_s: per_second(interval.received),
        outstanding: interval.outstanding,
        duplicated: interval.duplicated,
        reordered: interval.reordered,
        bytes_out_per_s: per_second(interval.bytes_out),
        bytes_in_per_s: per_second(interval.bytes_in),
        connect_mean_us: interval.connect_latency.mean_us,
        connect_p99_us: interval.connect_latency.p99_us,
        subscribe_mean_us: interval.subscribe_latency.mean_us,
        subscribe_p99_us: interval.subscribe_latency.p99_us,
        acknowledge_mean_us: interval.acknowledge_latency.mean_us,
        acknowledge_p99_us: interval.acknowledge_latency.p99_us,
        latency_mean_us: interval.end_to_end_latency.mean_us,
        latency_p50_us: interval.end_to_end_latency.p50_us,
        latency_p90_us: interval.end_to_end_latency.p90_us,
        latency_p99_us: interval.end_to_end_latency.p99_us,
        latency_max_us: interval.end_to_end_latency.max_us,
        generator_lag_p99_us: interval.generator_lag.p99_us,
        generator_lag_max_us: interval.generator_lag.max_us,
        generator_cpu_cores: interval.generator_cpu_cores,
        broker_cpu_user_cores: broker.cpu_user_cores,
        broker_cpu_system_cores: broker.cpu_system_cores,
        broker_rss_bytes: broker.rss_bytes,
        broker_files: broker.files,
        broker_threads: broker.threads,
        host_used_bytes: broker.host_used_bytes,
        system: monitor::system::row(samples, interval.start_us, end_us),
    }
}

/// What mqttbs names and this run has not.
fn not_measured(
    use_case: &UseCaseRun,
    is_local: bool,
    outcome: &Outcome,
) -> BTreeMap<String, String> {
    let mut missing = BTreeMap::new();
    let mut note = |metric: &str, reason: &str| {
        missing.insert(metric.to_owned(), reason.to_owned());
    };
    if !is_local {
        let reason = "the broker was given as a URL, so Weir cannot see its processes";
        for metric in ["broker CPU", "broker memory", "broker disk I/O", "broker open files"] {
            note(metric, reason);
        }
    }
    if outcome.unclocked > 0 {
        let deliveries = outcome.measure.delivered;
        let reason = format!(
            "{} of {deliveries} deliveries: publisher and subscriber do not share a clock",
            outcome.unclocked
        );
        note("end-to-end latency", &reason);
    }
    if outcome.agents.len() > 1 && use_case.qos.is_some() {
        let reason = "deliveries from publishers of other agents: the stamp has no room for a \
            second time";
        note("end-to-end latency from the actual send", reason);
    }
    if outcome.course.returns.delay.is_empty() {
        note(
            "reconnection delay",
            "no client of this use case reconnected after losing its \
            connection",
        );
    }
    if use_case.qos.is_none() {
        note("message rates and end-to-end latency", "this use case publishes nothing");
    }
    missing
}

#[cfg(test)]
mod tests;
