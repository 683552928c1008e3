//! A result against the outcome and the looks that it was made of.

use super::*;
use crate::result::Verdict;
use crate::verdict::tests::outcome;
use weir_load::outcome::Silence;

#[test]
fn each_latency_has_its_own_name() {
    let mut of = outcome();
    let all = [
        (&mut of.latencies.connect, "connect"),
        (&mut of.latencies.tcp_connect, "tcp_connect"),
        (&mut of.latencies.handshake, "handshake"),
        (&mut of.latencies.connack, "connack"),
        (&mut of.latencies.subscribe, "subscribe"),
        (&mut of.latencies.acknowledge, "acknowledge"),
        (&mut of.latencies.acknowledge_from_intended, "acknowledge_from_intended"),
        (&mut of.latencies.end_to_end, "end_to_end"),
        (&mut of.latencies.end_to_end_from_send, "end_to_end_from_send"),
        (&mut of.generator.lag, "generator_lag"),
        (&mut of.generator.turn, "generator_turn"),
    ];
    let names = all.each_ref().map(|(_, name)| *name);
    for (place, (histogram, _)) in all.into_iter().enumerate() {
        histogram.record(100 * (place as u64 + 1)).unwrap();
    }
    let latencies = latencies(&of);
    assert_eq!(latencies.len(), names.len());
    for (place, name) in names.into_iter().enumerate() {
        assert_eq!(latencies[name].max_us, 100 * (place as u64 + 1), "{name}");
    }
}

#[test]
fn what_the_generator_says_of_itself_is_in_the_result() {
    let mut of = outcome();
    of.generator.invalid = vec!["late".into()];
    of.generator.late_measure.absences = 3;
    of.generator.late_setup.absences = 4;
    let told = generator(&of);
    assert_eq!((told.late_measure.absences, told.late_setup.absences), (3, 4));
    assert_eq!(told.invalid, ["late"]);
    assert!((told.cpu_cores_avg - 300e-6).abs() < 1e-12);
}

#[test]
fn a_silence_is_told_and_marked_in_seconds_of_the_run() {
    let mut of = outcome();
    of.silences = vec![Silence { start_us: 3_000_000, length_us: 1_500_000 }];
    let silences = silences(&of, 1_000_000);
    assert_eq!(silences, [SilenceResult { t_s: 2.0, length_s: 1.5 }]);
    let mark = mark(&silences[0]);
    assert_eq!((mark.t_s, mark.until_s), (2.0, Some(3.5)));
}

#[test]
fn a_run_that_was_stopped_has_no_figures() {
    let text = include_str!("../../tests/data/result-2.json");
    let with = |status| {
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        result.verdict = Verdict { status, reasons: Vec::new() };
        without_figures(result)
    };
    let aborted = with(Status::Aborted);
    assert!(aborted.latencies.is_empty() && aborted.interval_histograms.is_empty());
    assert!(aborted.resources.is_none() && aborted.rates.success == 0.0);
    assert!(aborted.not_measured["every figure"].contains("stopped"));
    for status in [Status::Passed, Status::Failed, Status::Invalid] {
        let kept = with(status);
        assert!(!kept.latencies.is_empty() && kept.resources.is_some(), "{status:?}");
    }
}

const SECOND_US: u64 = 1_000_000;

/// Five seconds of measure from the third on, in a run that began at the first.
fn phased() -> Outcome {
    let spans = [
        (Phase::Connect, 1_000, 2_000),
        (Phase::Subscribe, 2_000, 2_500),
        (Phase::WarmUp, 2_500, 3_000),
        (Phase::Measure, 3_000, 8_000),
        (Phase::Drain, 8_000, 9_000),
    ];
    let span = |(phase, start_ms, end_ms): (Phase, u64, u64)| outcome::PhaseSpan {
        phase,
        start_us: start_ms * 1_000,
        end_us: end_ms * 1_000,
    };
    let mut of = outcome();
    of.phases = spans.map(span).to_vec();
    of.traffic = outcome::Traffic { published: 500, received: 2_000, duplicated: 7, crossed: 500 };
    of.connections.connected = 50;
    of.measure.expected = 4_000;
    of.measure.delivered = 3_000;
    of
}

/// A look a second: 0.6 cores in user mode, 0.2 in the kernel, and memory that grows.
fn looks() -> Vec<Sample> {
    let look = |second: u64| Sample {
        at_us: second * SECOND_US,
        cpu_us: second * 800_000,
        user_ticks_us: second * 90_000,
        system_ticks_us: second * 30_000,
        rss_bytes: (10 + second) << 20,
        files: 20 + second,
        threads: 30 + second,
        host_used_bytes: 1_000 + second,
        switches: Some(second * 40),
        disk_read_bytes: second * 70,
        disk_write_bytes: second * 71,
        ..Sample::default()
    };
    (0..10).map(look).collect()
}

/// Groups that publish at QoS 0, 1 and 2 in the ratio 1 to 3 to 2, and one that listens.
fn mixed() -> Plan {
    use weir_load::plan::{Group, Phases, Publish, Subscription};
    let group = |qos: u8, clients: u32, rate_per_s: f64| Group {
        clients,
        publish: Some(Publish { qos, rate_per_s, payload_bytes: 16, ..Publish::default() }),
        ..Group::default()
    };
    let listens = Group {
        clients: 9,
        subscriptions: vec![Subscription::plain("a", 0), Subscription::plain("b", 1)],
        ..Group::default()
    };
    let phases = Phases { warm_up_ms: 500, measure_ms: 5_000, drain_ms: 1_000 };
    let groups = vec![group(0, 10, 1.0), group(1, 5, 6.0), listens, group(2, 4, 5.0)];
    Plan::new("127.0.0.1:1".parse().unwrap(), groups, phases)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn packets_of_a_message_are_weighed_by_how_often_each_qos_is_published() {
    let plan = mixed();
    let of = |qos_max| {
        let (there, back) = packets_each(&plan, qos_max);
        ((there * 60.0).round(), (back * 60.0).round())
    };
    assert_eq!(of(2), (10.0 + 30.0 + 2.0 * 20.0, 30.0 + 2.0 * 20.0));
    assert_eq!(of(1), (60.0, 50.0));
    assert_eq!(of(0), (60.0, 0.0));
    let silent = Plan { groups: vec![plan.groups[2].clone()], ..plan };
    assert_eq!(packets_each(&silent, 2), (1.0, 0.0));
}

#[test]
fn rates_are_of_the_time_of_their_phase() {
    let told = rates(&phased(), &mixed());
    assert_near(told.published, 100.0);
    assert_near(told.received, 400.0);
    assert_near(told.connected, 50.0);
    assert_near(told.success, 0.75);
    // Received at QoS 1 at most, which is what is subscribed to.
    assert_near(told.packets_to_broker, 100.0 * 80.0 / 60.0 + 400.0 * 50.0 / 60.0);
    assert_near(told.packets_from_broker, 100.0 * 70.0 / 60.0 + 400.0);
    let mut none = phased();
    none.phases.clear();
    none.measure.expected = 0;
    let told = rates(&none, &mixed());
    assert_eq!((told.published, told.connected, told.success), (0.0, 0.0, 1.0));
    assert_eq!((told.packets_to_broker, told.packets_from_broker), (0.0, 0.0));
}

#[test]
fn phases_are_told_in_seconds_of_the_run() {
    let told = phases(&phased(), SECOND_US);
    let told: Vec<_> = told.iter().map(|of| (&*of.name, of.start_s, of.end_s)).collect();
    let expected = [
        ("connect", 0.0, 1.0),
        ("subscribe", 1.0, 1.5),
        ("warm-up", 1.5, 2.0),
        ("measure", 2.0, 7.0),
        ("drain", 7.0, 8.0),
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_work_of_measure_is_set_against_what_was_used_in_it() {
    let seen = Seen {
        baseline: Sample { rss_bytes: 1 << 20, host_used_bytes: 9, ..Sample::default() },
        samples: looks(),
        pss_bytes: Some(77),
        group: Some(("/weir".into(), true)),
        ..Seen::default()
    };
    let window = window(&phased(), 4);
    let used = monitor::resources(&seen.samples, &seen.baseline, &window, seen.pss_bytes);
    assert_near(used.cpu_cores_avg, 0.8);
    assert_near(used.cpu_user_cores_avg, 0.6);
    assert_near(used.cpu_system_cores_avg, 0.2);
    assert_near(used.cpu_cores_max, 0.8);
    assert_near(used.cpu_percent_avg, 20.0);
    assert_near(used.cpu_percent_max, 20.0);
    assert_near(used.cpu_us_per_delivery.unwrap(), 5.0 * 800_000.0 / 2_000.0);
    assert_near(used.cpu_us_per_connection.unwrap(), 800_000.0 / 50.0);
    assert_eq!((used.rss_baseline_bytes, used.rss_max_bytes), (1 << 20, 19 << 20));
    // Looks in measure are those of seconds 3 to 8.
    assert_eq!((used.rss_avg_bytes, used.rss_stable_bytes), (31 << 19, 18 << 20));
    assert_eq!((used.host_used_baseline_bytes, used.host_used_max_bytes), (9, 1_009));
    assert_eq!((used.host_used_avg_bytes, used.host_used_stable_bytes), (1_005, 1_008));
    assert_eq!((used.files_max, used.threads_max, used.pss_bytes), (29, 39, Some(77)));
    assert_near(used.disk_read_bytes_per_s, 70.0);
    assert_near(used.disk_write_bytes_per_s, 71.0);
    let system = system(&phased(), &seen, Some(&used));
    assert_near(system.messages_per_core_s.unwrap(), 2_500.0 / (0.8 * 5.0));
    assert_near(system.kib_per_connection.unwrap(), f64::from(17 << 10) / 50.0);
    assert_near(system.host_kib_per_connection.unwrap(), 1_000.0 / 1_024.0 / 50.0);
    assert_near(system.context_switches_per_delivery.unwrap(), 40.0 * 5.0 / 2_000.0);
    assert_eq!((system.cgroup.as_deref(), system.is_cgroup_shared), (Some("/weir"), true));
    let elsewhere = super::system(&phased(), &Seen::default(), None);
    assert_eq!((elsewhere.cgroup, elsewhere.is_cgroup_shared), (None, false));
    assert_eq!((elsewhere.messages_per_core_s, elsewhere.kib_per_connection), (None, None));
}

/// An interval of half a second in which all numbers differ.
fn interval() -> Interval {
    let summary = |from: u64| outcome::Summary {
        count: from,
        mean_us: from as f64 + 0.5,
        p50_us: from + 1,
        p90_us: from + 2,
        p99_us: from + 3,
        max_us: from + 4,
    };
    Interval {
        start_us: 4 * SECOND_US,
        length_us: SECOND_US / 2,
        phase: Phase::WarmUp,
        connections: 1,
        subscribers: 2,
        publishers: 3,
        connected: 4,
        connect_failures: 5,
        subscribed: 6,
        subscribe_failures: 7,
        published: 8,
        acknowledged: 9,
        publish_failures: 10,
        received: 11,
        outstanding: 12,
        duplicated: 13,
        reordered: 14,
        bytes_out: 15,
        bytes_in: 16,
        connect_latency: summary(100),
        subscribe_latency: summary(200),
        acknowledge_latency: summary(300),
        end_to_end_latency: summary(400),
        generator_lag: summary(500),
        generator_cpu_cores: 0.75,
    }
}

/// The row of an interval by the names of its figures, rates a second.
const ROW: [(&str, f64); 34] = [
    ("connections", 1.0),
    ("subscribers", 2.0),
    ("publishers", 3.0),
    ("connected_per_s", 8.0),
    ("connect_failures", 5.0),
    ("subscribed_per_s", 12.0),
    ("subscribe_failures", 7.0),
    ("published_per_s", 16.0),
    ("acknowledged_per_s", 18.0),
    ("publish_failures", 10.0),
    ("received_per_s", 22.0),
    ("outstanding", 12.0),
    ("duplicated", 13.0),
    ("reordered", 14.0),
    ("bytes_out_per_s", 30.0),
    ("bytes_in_per_s", 32.0),
    ("connect_mean_us", 100.5),
    ("connect_p99_us", 103.0),
    ("subscribe_mean_us", 200.5),
    ("subscribe_p99_us", 203.0),
    ("acknowledge_mean_us", 300.5),
    ("acknowledge_p99_us", 303.0),
    ("latency_mean_us", 400.5),
    ("latency_p50_us", 401.0),
    ("latency_p90_us", 402.0),
    ("latency_p99_us", 403.0),
    ("latency_max_us", 404.0),
    ("generator_lag_p99_us", 503.0),
    ("generator_lag_max_us", 504.0),
    ("generator_cpu_cores", 0.75),
    ("broker_cpu_user_cores", 0.6),
    ("broker_cpu_system_cores", 0.2),
    // Of the look nearest to the interval's end, the earlier of two.
    ("broker_rss_bytes", (14 << 20) as f64),
    ("broker_files", 24.0),
];

#[test]
fn each_figure_of_an_interval_is_in_its_place() {
    use crate::result::series::SERIES;
    let mut of = phased();
    of.intervals = vec![interval()];
    let rows = series(&of, &looks(), SECOND_US);
    let [row] = &*rows else { panic!("{rows:?}") };
    assert_eq!((row.t_s, &*row.phase), (3.5, "warm-up"));
    for (name, expected) in
        ROW.into_iter().chain([("broker_threads", 34.0), ("host_used_bytes", 1_004.0)])
    {
        let figure = SERIES.iter().find(|figure| figure.name == name).unwrap();
        let found = (figure.of)(row).unwrap();
        assert!((found - expected).abs() < 1e-9, "{name}: {found}, not {expected}");
    }
    assert_eq!(SERIES.len(), ROW.len() + 2);
    assert_near(row.system.context_switches_per_s.unwrap(), 40.0);
    assert_near(row.system.disk_read_bytes_per_s.unwrap(), 70.0);
    assert_near(row.system.disk_written_bytes_per_s.unwrap(), 71.0);
}

#[test]
fn what_was_not_measured_is_named_with_its_reason() {
    let text = include_str!("../../tests/data/result-2.json");
    let RunResult { mut use_case, .. } = serde_json::from_str(text).unwrap();
    let mut of = outcome();
    let names = |use_case: &UseCaseRun, is_local, of: &Outcome| -> Vec<String> {
        not_measured(use_case, is_local, of).into_keys().collect()
    };
    assert_eq!(names(&use_case, true, &of), ["reconnection delay"]);
    of.course.returns.delay.record(5).unwrap();
    assert_eq!(names(&use_case, true, &of), [""; 0]);
    let of_a_url = ["broker CPU", "broker disk I/O", "broker memory", "broker open files"];
    assert_eq!(names(&use_case, false, &of), of_a_url);
    of.agents = vec!["one".into()];
    assert_eq!(names(&use_case, true, &of), [""; 0], "it shares its own clock");
    of.agents.push("two".into());
    assert_eq!(names(&use_case, true, &of), ["end-to-end latency from the actual send"]);
    of.unclocked = 3;
    let told = not_measured(&use_case, true, &of);
    assert!(told["end-to-end latency"].starts_with("3 of 10000 deliveries"), "{told:?}");
    use_case.qos = None;
    of.unclocked = 0;
    assert_eq!(names(&use_case, true, &of), ["message rates and end-to-end latency"]);
}

#[test]
fn a_result_is_of_its_own_run() {
    use crate::usecase::{Times, UseCase, plan, scale};
    let text = include_str!("../../tests/data/result-2.json");
    let RunResult { suite, broker, host, .. } = serde_json::from_str(text).unwrap();
    let use_case = UseCase::builtin("p2p-1K-1K-1K-1K").unwrap();
    let scaled = scale(&use_case, 0.01, u64::MAX).unwrap();
    let times = Times::new(&use_case, Some(1.0), Some(5.0));
    let plan = plan(&scaled, "127.0.0.1:1883".parse().unwrap(), 1, times);
    let mut of = phased();
    of.intervals = vec![interval()];
    of.silences = vec![Silence { start_us: 4 * SECOND_US, length_us: SECOND_US }];
    let seen = Seen {
        samples: looks(),
        round_trip_us: (Some(11.0), Some(12.0)),
        broker_exit: Some("killed".into()),
        ..Seen::default()
    };
    let with =
        |broker: Broker| result(suite.clone(), &scaled, &plan, broker, host.clone(), &of, &seen);
    let run = with(Broker { command: vec!["weir".into()], ..broker.clone() });
    assert_eq!(
        (run.host.round_trip_us_before, run.host.round_trip_us_after),
        (Some(11.0), Some(12.0))
    );
    assert!(
        run.verdict.reasons.iter().any(|reason| reason.contains("killed")),
        "{:?}",
        run.verdict
    );
    assert_eq!((run.phases.len(), run.series.len(), run.silences.len()), (5, 1, 1));
    assert_near(run.series[0].t_s, 3.5);
    assert_eq!((run.marks[0].t_s, run.marks[0].until_s), (3.0, Some(4.0)));
    assert_near(run.rates.received, 400.0);
    assert_near(run.resources.unwrap().cpu_cores_avg, 0.8);
    assert_near(run.system.unwrap().messages_per_core_s.unwrap(), 625.0);
    assert!(!run.not_measured.contains_key("broker CPU"), "{:?}", run.not_measured);
    assert_eq!(run.use_case.name, use_case.name);
    assert_eq!((run.connections.connected, run.measure.delivered), (50, 3_000));
    let of_a_url = with(Broker { command: Vec::new(), ..broker });
    assert!(of_a_url.resources.is_none() && of_a_url.not_measured.contains_key("broker CPU"));
}
