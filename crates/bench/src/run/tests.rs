//! Whole runs in this process, against a broker that does next to nothing.

use super::*;
use crate::driver::parse;
use crate::live::Viewer;
use crate::result::Status;
use std::sync::Arc;
use weir_load::plan::Credentials;

/// The null broker on a thread of this process; dropping it ends it.
pub(crate) struct NullBroker {
    pub(crate) address: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
}

impl NullBroker {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Stop::default());
        let of_thread = stop.clone();
        let thread = std::thread::spawn(move || weir_load::null::serve(listener, 0.0, &of_thread));
        Self { address, stop, thread: Some(thread) }
    }

    /// As a broker that somebody else has started, and that is this process.
    pub(crate) fn driver(&self) -> Box<dyn Driver> {
        parse(&format!("mine=mqtt://{}?pid={}", self.address, std::process::id())).unwrap()
    }
}

impl Drop for NullBroker {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

/// Two publishers at 50/s, of whom four subscribers hear everything.
pub(crate) fn small() -> UseCase {
    let text = r#"
        name = "small"
        revision = 3
        about = "a few"
        mqtt_version = "5.0"
        connect_rate_per_s = 1000
        [[group]]
        name = "sub"
        clients = 4
        client_id = "s{i}"
        scales = false
        subscriptions = [{ filter = "t/#", qos = 1 }]
        [[group]]
        name = "pub"
        clients = 2
        client_id = "p{i}"
        scales = false
        publish = { topic = "t/{i}", qos = 1, rate_per_s = 50, payload_bytes = 32 }
    "#;
    UseCase::parse("small", text).unwrap()
}

/// A run of 25 s after 5 s of warm-up, heard by nobody.
pub(crate) fn options(out: &Path) -> RunOptions {
    RunOptions {
        nodes: None,
        scale: 1.0,
        measure_s: Some(25.0),
        warm_up_s: Some(5.0),
        brokers_hold: u64::MAX,
        profile: Some(Profile::Default),
        is_pinned: false,
        agents: Agents::default(),
        repetition: None,
        invalid_before: Vec::new(),
        abreast: None,
        is_one_of_many: false,
        out: out.into(),
        live: Live::default(),
        version: "1.2".into(),
        commit: "abc".into(),
        command: vec!["weir".into(), "bench".into()],
    }
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Viewer for Heard {
    fn handle(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// Options with somebody who hears of everything.
fn heard(out: &Path) -> (RunOptions, Heard) {
    let heard = Heard::default();
    let viewer: Box<dyn Viewer> = Box::new(heard.clone());
    (RunOptions { live: Live::of(vec![viewer]), ..options(out) }, heard)
}

#[test]
fn a_run_is_measured_told_and_kept() {
    let (null, out) = (NullBroker::start(), tempfile::tempdir().unwrap());
    let (how, heard) = heard(out.path());
    let how = RunOptions { measure_s: Some(1.0), warm_up_s: Some(0.2), ..how };
    let run = run_one(&small(), &*null.driver(), &how, &Interrupted::default());
    let (result, folder) = run.unwrap();
    assert_eq!((result.warm_up.sent, result.measure.sent), (20, 100));
    let measure = &result.measure;
    assert_eq!((measure.accepted, measure.delivered, measure.lost), (100, 400, 0));
    assert_eq!((result.connections.planned, result.connections.connected), (6, 6));
    let names: Vec<&str> = result.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["connect", "subscribe", "warm-up", "measure", "drain"]);
    let span = &result.phases[3];
    assert!((span.end_s - span.start_s - 1.0).abs() < 1e-3, "{span:?}");
    let resources = result.resources.as_ref().unwrap();
    assert!(resources.rss_max_bytes > 0 && resources.cpu_us_per_delivery.is_some());
    assert!(resources.pss_bytes.is_some(), "looked at near the end of measure");
    assert!(
        result.host.round_trip_us_before.is_some() && result.host.round_trip_us_after.is_some()
    );
    let suite = &result.suite;
    assert_eq!((&*suite.version, &*suite.commit, suite.command.len()), ("1.2", "abc", 2));
    assert!(suite.started.starts_with("20") && suite.started <= suite.ended, "{suite:?}");
    assert_eq!((&*result.broker.name, &result.broker.address), ("mine", &null.address.to_string()));
    assert!(folder.join("result.json").is_file() && folder.join("end_to_end.hgrm").is_file());
    let events = heard.0.lock().unwrap();
    let [Event::Started(started), .., Event::Ended(ended)] = &**events else {
        panic!("{events:?}")
    };
    assert_eq!((&*started.driver, &*started.broker), ("mine", "mine"));
    assert_eq!((started.address.clone(), started.connections), (null.address.to_string(), 6));
    assert_eq!((started.publish_rate_per_s, started.deliver_rate_per_s), (100.0, 400.0));
    assert!(started.is_watched && started.agents == 0 && started.note.is_none());
    assert_eq!(started.folder, folder.display().to_string());
    let drain_s = Times::new(&small(), None, None).drain_s;
    let lengths: Vec<_> = started.phases.iter().map(|of| (of.name, of.length_s)).collect();
    let expected = [
        ("connect", Some(0.006)),
        ("subscribe", None),
        ("warm-up", Some(0.2)),
        ("measure", Some(1.0)),
        ("drain", Some(drain_s)),
    ];
    assert_eq!(lengths, expected);
    assert_eq!((ended.status, ended.lost), (result.verdict.status, 0));
    let rows = events.iter().filter(|event| matches!(event, Event::Interval(_))).count();
    assert_eq!(rows, result.series.len(), "every interval is told as it ends");
}

#[test]
fn a_run_that_somebody_stops_is_aborted() {
    let (null, out) = (NullBroker::start(), tempfile::tempdir().unwrap());
    let interrupted = Interrupted::new(true.into());
    let how = options(out.path());
    let (result, _) = run_one(&small(), &*null.driver(), &how, &interrupted).unwrap();
    assert_eq!(result.verdict.status, Status::Aborted);
    assert!(result.latencies.is_empty());
}

#[test]
fn a_broker_that_is_not_there_is_an_error_or_one_failed_run_of_many() {
    let out = tempfile::tempdir().unwrap();
    let nobody = parse("mine=mqtt://127.0.0.1:1").unwrap();
    let (how, heard) = heard(out.path());
    let run = |how: &RunOptions| run_one(&small(), &*nobody, how, &Interrupted::default());
    assert!(run(&how).is_err());
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "no folder is left");
    assert!(heard.0.lock().unwrap().is_empty());
    let (result, folder) = run(&RunOptions { is_one_of_many: true, ..how }).unwrap();
    assert_eq!((result.verdict.status, result.was_run()), (Status::Failed, false));
    let reason = &result.verdict.reasons[0];
    assert!(reason.starts_with("not started: "), "{reason}");
    assert_eq!(result.not_measured["every metric"], *reason);
    assert!(folder.join("result.json").is_file() && folder.join("summary.md").is_file());
    let events = heard.0.lock().unwrap();
    let [Event::Started(started), Event::Ended(ended)] = &**events else { panic!("{events:?}") };
    assert_eq!((&*started.use_case, &*started.broker), ("small", "mine"));
    assert_eq!(ended.status, Status::Failed);
}

#[test]
fn what_a_broker_lacks_is_told_and_nothing_is_run() {
    let out = tempfile::tempdir().unwrap();
    let (how, use_case) = (options(out.path()), UseCase::builtin("fault-freeze").unwrap());
    let nobody = parse("mine=mqtt://127.0.0.1:1").unwrap();
    let (result, _) = run_one(&use_case, &*nobody, &how, &Interrupted::default()).unwrap();
    assert_eq!(result.verdict.status, Status::Unsupported);
    assert!(result.verdict.reasons[0].starts_with("not supported: a freeze without"));
}

#[test]
fn memory_is_walked_once_two_intervals_before_the_end_of_measure() {
    let (null, folder) = (NullBroker::start(), tempfile::tempdir().unwrap());
    let mut running = null.driver().start(Profile::Default, folder.path(), None).unwrap();
    let use_case = small();
    let scaled = usecase::scale(&use_case, 1.0, u64::MAX).unwrap();
    let times = Times::new(&use_case, None, Some(1.0));
    let plan = Plan { interval_ms: 250, ..usecase::plan(&scaled, null.address, 1, times) };
    let monitor = Monitor::start(None, None, Duration::from_secs(3_600));
    let (running, mut seen) = (Mutex::new(&mut running), Seen::default());
    let mut watched =
        Watched { monitor: &monitor, running: &running, seen: &mut seen, measured_us: 0 };
    let mut is_walked_after = |phase: Phase| {
        let interval = Interval { phase, length_us: 250_000, ..Interval::default() };
        watched.near_end(&plan, &interval);
        watched.seen.pss_bytes.is_some()
    };
    assert!(!is_walked_after(Phase::WarmUp) && !is_walked_after(Phase::WarmUp));
    assert!(!is_walked_after(Phase::Measure));
    assert!(is_walked_after(Phase::Measure), "half a second is left");
    watched.seen.pss_bytes = Some(1);
    watched.near_end(&plan, &Interval { phase: Phase::Measure, ..Interval::default() });
    assert_eq!(watched.seen.pss_bytes, Some(1));
    monitor.stop();
}

#[test]
fn the_end_of_a_process_is_waited_for_where_the_broker_is_gone() {
    let outcome = || crate::verdict::tests::outcome();
    assert_eq!(exit_patience(&outcome(), None), Duration::ZERO);
    assert_eq!(exit_patience(&outcome(), Some(&"silent".to_owned())), GOING_MAX);
    let gone = Outcome { end: End::BrokerGone("closed".into()), ..outcome() };
    assert_eq!(exit_patience(&gone, None), GOING_MAX);
    let mut dropped = outcome();
    dropped.connections.dropped.insert("closed".into(), 1);
    assert_eq!(exit_patience(&dropped, None), GOING_MAX);
}

#[test]
fn a_result_names_the_invalid_runs_that_it_stands_for_and_its_measure_phase() {
    let text = include_str!("../../tests/data/result-2.json");
    let mut result = crate::result::read(text).unwrap();
    result.verdict.reasons.clear();
    let invalid = |folder: &str| InvalidRun {
        folder: folder.into(),
        reasons: vec!["late".into(), "busy".into()],
    };
    tell_invalid_before(&mut result, &[invalid("one"), invalid("two")]);
    let expected = [
        "in place of an invalid run (1 of 2): one: late; busy",
        "in place of an invalid run (2 of 2): two: late; busy",
    ];
    assert_eq!(result.verdict.reasons, expected);
    assert_eq!(result.invalid_before.len(), 2);
    let mut outcome = crate::verdict::tests::outcome();
    assert_eq!(measure_us(&outcome), (0, 0));
    for (phase, at) in [(Phase::WarmUp, 1), (Phase::Measure, 3), (Phase::Drain, 5)] {
        let span = weir_load::outcome::PhaseSpan { phase, start_us: at, end_us: at + 1 };
        outcome.phases.push(span);
    }
    assert_eq!(measure_us(&outcome), (3, 4));
}

#[test]
fn memory_that_did_not_grow_and_a_host_that_was_shared_are_told() {
    let text = include_str!("../../tests/data/result-2.json");
    let with = |grown: u64| {
        let mut result = crate::result::read(text).unwrap();
        let of = result.resources.as_mut().unwrap();
        of.rss_stable_bytes = of.rss_baseline_bytes + grown;
        result.connections.connected = 10;
        let how = options(Path::new(""));
        add(&mut result, &how, &[], (0, 1), Some(1));
        result.not_measured.contains_key("memory per connection")
    };
    assert_eq!((with(0), with(1)), (true, false));
}

#[test]
fn credentials_of_a_use_case_reach_the_plan() {
    let (null, folder) = (NullBroker::start(), tempfile::tempdir().unwrap());
    let credentials = Credentials { user_name: Some("me".into()), password: None };
    let driver = null.driver().with_credentials(&credentials).unwrap();
    let running = driver.start(Profile::Default, folder.path(), None).unwrap();
    let use_case = small();
    let scaled = usecase::scale(&use_case, 1.0, u64::MAX).unwrap();
    let how = options(folder.path());
    let plan = plan_of(&scaled, &[null.address], &running, &how);
    assert_eq!((plan.credentials, plan.target), (credentials, null.address));
    assert_eq!((plan.phases.measure_ms, plan.phases.warm_up_ms), (25_000, 5_000));
    assert_eq!(plan.shifts, None);
}
