//! Clients that join late, are cut, take over or come back, against the null broker and the fake.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use weir_load::outcome::{End, Outcome, Phase};
use weir_load::plan::{Group, Payload, Phases, Plan, ProtocolVersion, Publish, Subscription};
use weir_load::proxy::{Impairment, Proxy};
use weir_load::steps::{Action, ClientStep, OwedTo, SessionKept, Sessions, StepPlan};
use weir_load::{Stop, null, run};

/// A null broker on a thread.
struct Null {
    target: SocketAddr,
    stop: Stop,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Null {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (target, stop) = (listener.local_addr().unwrap(), Stop::default());
        let of_broker = stop.clone();
        let thread = std::thread::spawn(move || null::serve(listener, 0.0, &of_broker));
        Self { target, stop, thread }
    }

    fn run(self, plan: &Plan) -> Outcome {
        let plan = Plan { target: self.target, ..plan.clone() };
        let outcome = run(&plan, &Stop::default(), &mut |_| {}).unwrap();
        self.stop.stop();
        self.thread.join().unwrap().unwrap();
        outcome
    }
}

fn group(name: &str, clients: u32) -> Group {
    let client_id = format!("{name}-{{i}}");
    Group { name: name.into(), clients, client_id, ..Group::default() }
}

fn subscribers(name: &str, clients: u32, filter: &str) -> Group {
    let subscriptions = vec![Subscription::plain(filter, 1)];
    Group { subscriptions, ..group(name, clients) }
}

fn publishers(clients: u32, publish: Publish) -> Group {
    Group { publish: Some(publish), ..group("pub", clients) }
}

fn publish(rate_per_s: f64) -> Publish {
    Publish { topic: "t/{i}".into(), qos: 1, rate_per_s, payload_bytes: 64, ..Publish::default() }
}

fn plan(groups: Vec<Group>, course: StepPlan) -> Plan {
    Plan {
        run: 9,
        course,
        ..Plan::new(
            ([127, 0, 0, 1], 1).into(),
            groups,
            Phases { warm_up_ms: 100, measure_ms: 1_500, drain_ms: 2_000 },
        )
    }
}

fn step(action: Action, group: u16, clients: u32) -> ClientStep {
    ClientStep { at_ms: 500, group, action, clients, over_ms: 0, for_ms: 100, every_ms: 0 }
}

fn course(steps: Vec<ClientStep>) -> StepPlan {
    StepPlan { return_after_ms: Some(50), steps, has_pulse: true, ..StepPlan::default() }
}

#[test]
fn publishers_that_are_cut_come_back_and_send_all_that_was_due() {
    let groups = vec![subscribers("sub", 2, "t/#"), publishers(5, publish(100.0))];
    let outcome = Null::start().run(&plan(groups, course(vec![step(Action::Cut, 1, 5)])));
    assert_eq!(outcome.end, End::Completed);
    let returns = &outcome.course.returns;
    assert_eq!((returns.ended, returns.returned, returns.resumed), (5, 5, 0));
    assert_eq!((returns.away_at_end, returns.delay.len()), (0, 5));
    assert!(returns.delay.min() >= 99_000, "away for 100 ms: {}", returns.delay.min());
    let measure = outcome.measure;
    assert_eq!((measure.intended, measure.accepted, measure.lost), (750, 750, 0));
    let beats = &outcome.course.pulse.beats;
    let sum = |of: fn(&weir_load::steps::Beat) -> u32| beats.iter().map(of).sum::<u32>();
    assert_eq!((sum(|beat| beat.gone), sum(|beat| beat.back)), (5, 5));
    let gone = beats.iter().position(|beat| beat.gone > 0).unwrap();
    assert!(gone >= 50, "not before its time: beat {gone}");
}

#[test]
fn clients_come_back_at_a_rate_if_they_have_one() {
    let course = course(vec![step(Action::Cut, 0, 11)]);
    let course = StepPlan { return_rate_per_s: Some(20.0), ..course };
    let outcome = Null::start().run(&plan(vec![subscribers("sub", 11, "t/#")], course));
    let returns = &outcome.course.returns;
    assert_eq!((returns.returned, returns.away_at_end), (11, 0));
    let (first, last) = (returns.delay.min(), returns.delay.max());
    // Ten of them wait for 50 ms each, after the step's 100 ms.
    assert!(first < 400_000 && (595_000..1_500_000).contains(&last), "{first} {last}");
}

/// Both nodes are the null broker under two names, so that it passes on from one to the other.
#[test]
fn deliveries_from_one_node_to_another_are_counted_as_such() {
    for (node, of) in [(0, "none"), (1, "all")] {
        let groups =
            vec![subscribers("sub", 4, "t/{i}"), Group { node, ..publishers(4, publish(50.0)) }];
        let null = Null::start();
        let others = vec![null.target];
        let outcome = null.run(&Plan { others, ..plan(groups, StepPlan::default()) });
        let traffic = outcome.traffic;
        let crossed = if node == 0 { 0 } else { traffic.received };
        assert!(traffic.received > 0 && traffic.crossed == crossed, "{of}: {traffic:?}");
        let all = OwedTo { clients: 4, ..OwedTo::default() };
        assert_eq!(outcome.course.sessions, Sessions::from([(SessionKept::Connected, all)]));
    }
}

#[test]
fn clients_of_a_node_that_is_lost_come_back_at_another() {
    let (lost, kept) = (Null::start(), Null::start());
    let groups = vec![subscribers("sub", 6, "t/0"), publishers(2, publish(100.0))];
    let plan = Plan {
        target: lost.target,
        others: vec![kept.target],
        clean_start: false,
        ..plan(groups, course(Vec::new()))
    };
    let outcome = run(&plan, &Stop::default(), &mut |interval| {
        if interval.phase == Phase::Measure {
            lost.stop.stop();
        }
    })
    .unwrap();
    kept.stop.stop();
    assert_eq!(outcome.end, End::Completed);
    let returns = &outcome.course.returns;
    assert_eq!((returns.returned, returns.resumed, returns.away_at_end), (4, 0, 0));
    // Its own node comes first.
    assert!(returns.attempts_failed.values().sum::<u64>() >= 4, "{returns:?}");
    let sessions = &outcome.course.sessions;
    let clients = |kept: SessionKept| sessions.get(&kept).map(|of| of.clients);
    assert_eq!(clients(SessionKept::Connected), Some(3));
    assert_eq!(clients(SessionKept::New), Some(3));
    let lost: u64 = sessions.values().map(|of| of.lost).sum();
    assert_eq!(lost, outcome.measure.lost);
}

/// The null broker keeps no session: what was due for a subscriber while it was away is lost, and
/// the loss stands in the pulse where it was due.
#[test]
fn what_a_subscriber_without_a_session_misses_is_lost_and_has_its_time() {
    let groups = vec![subscribers("sub", 1, "t/#"), publishers(1, publish(200.0))];
    let cut = ClientStep { for_ms: 300, ..step(Action::Cut, 0, 1) };
    let outcome = Null::start().run(&plan(groups, course(vec![cut])));
    let lost = outcome.measure.lost;
    assert!(lost >= 50, "300 ms at 200/s: {lost}");
    assert_eq!(outcome.measure.delivered + lost, outcome.measure.expected);
    let beats = &outcome.course.pulse.beats;
    let early: u32 = beats[..49].iter().map(|beat| beat.lost).sum();
    let all: u64 = beats.iter().map(|beat| u64::from(beat.lost)).sum();
    assert_eq!((early, all), (0, lost));
}

#[test]
fn clients_that_join_late_are_not_connected_before() {
    let groups = vec![group("idle", 3), group("late", 4)];
    let joins = StepPlan { return_after_ms: None, ..course(vec![step(Action::Join, 1, 4)]) };
    let outcome = Null::start().run(&plan(groups, joins));
    assert_eq!(outcome.end, End::Completed);
    assert_eq!((outcome.connections.planned, outcome.connections.connected), (7, 7));
    let first = outcome.intervals.iter().find(|interval| interval.connections == 3);
    assert!(first.is_some(), "three before the step");
    assert_eq!(outcome.intervals.iter().map(|i| i.connections).max(), Some(7));
}

#[test]
fn a_slow_reader_loses_nothing_and_its_messages_are_late() {
    let groups = vec![subscribers("sub", 1, "t/#"), publishers(1, publish(100.0))];
    let stall = ClientStep { for_ms: 600, ..step(Action::Stall, 0, 1) };
    let outcome = Null::start().run(&plan(groups, course(vec![stall])));
    assert_eq!((outcome.measure.lost, outcome.measure.delivered), (0, 150));
    assert!(outcome.latencies.end_to_end.max() >= 550_000);
}

#[test]
fn a_broker_that_leaves_old_connections_open_at_a_takeover_is_found() {
    let groups = vec![group("device", 3)];
    let outcome = Null::start().run(&plan(groups, course(vec![step(Action::TakeOver, 0, 3)])));
    let returns = &outcome.course.returns;
    assert_eq!((returns.returned, returns.old_left_open), (3, 3));
}

#[test]
fn json_payloads_ramps_and_parts_of_measure_are_audited_like_all() {
    let json = Publish { payload: Payload::Json, payload_bytes: 300, ..publish(50.0) };
    let ramp = Publish { topic: "r/{i}".into(), rate_to_per_s: Some(150.0), ..publish(50.0) };
    let part = Publish {
        topic: "p/{i}".into(),
        from_s: Some(0.5),
        until_s: Some(1.0),
        payload_bytes_to: Some(20_000),
        ..publish(20.0)
    };
    let mut groups = vec![subscribers("sub", 1, "#")];
    for (at, publish) in [json, ramp, part].into_iter().enumerate() {
        let client_id = format!("pub-{at}-{{i}}");
        groups.push(Group { client_id, ..publishers(2, publish) });
    }
    let outcome = Null::start().run(&plan(groups, StepPlan::default()));
    let measure = outcome.measure;
    assert_eq!((measure.lost, measure.stray, measure.unsent), (0, 0, 0));
    assert_eq!(measure.delivered, measure.intended);
    assert!(outcome.warm_up.intended > 0);
    // 2 x 75 of JSON, 2 x 20/s for half a second, and the ramp's upper part.
    let ramp = measure.intended - 150 - 20;
    assert!((300..=320).contains(&ramp), "{ramp}");
}

/// The way dies without a word. Clients find out by their keep alive and come back.
#[test]
fn half_open_connections_are_found_by_the_keep_alive() {
    let null = Null::start();
    let proxy = Proxy::start(null.target).unwrap();
    let groups = vec![group("idle", 3)];
    let mut plan = plan(groups, course(Vec::new()));
    plan.keep_alive_s = 1;
    plan.phases.measure_ms = 4_000;
    plan.target = proxy.address();
    let mut died = false;
    let outcome = run(&plan, &Stop::default(), &mut |interval| {
        let is_measure = interval.phase == Phase::Measure;
        if is_measure && !std::mem::replace(&mut died, true) {
            proxy.set(Impairment { is_dead: true, ..Impairment::default() });
            // Every connection there is dies; new ones live.
            proxy.set(Impairment::default());
        }
    })
    .unwrap();
    null.stop.stop();
    null.thread.join().unwrap().unwrap();
    let returns = &outcome.course.returns;
    assert_eq!(returns.lost.get("nothing heard for a keep alive"), Some(&3), "{returns:?}");
    assert_eq!((returns.returned, returns.away_at_end), (3, 0));
}

/// Accepts a client, drops it, twice drops it before it answers, and then holds it.
fn moody_broker(listener: &TcpListener) {
    for turn in 0..4 {
        let (mut stream, _) = listener.accept().unwrap();
        let mut connect = [0; 2];
        stream.read_exact(&mut connect).unwrap();
        stream.read_exact(&mut vec![0; connect[1].into()]).unwrap();
        if turn == 0 || turn == 3 {
            stream.write_all(b"\x20\x02\0\0").unwrap();
        }
        match turn {
            // Dropped once the measure phase has begun: what comes first is a beat of the pulse.
            0 => std::thread::sleep(std::time::Duration::from_millis(400)),
            3 => _ = std::io::copy(&mut stream, &mut std::io::sink()),
            _ => {}
        }
    }
}

#[test]
fn every_attempt_to_come_back_that_fails_counts_as_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    std::thread::spawn(move || moody_broker(&listener));
    let returning = StepPlan { return_after_ms: Some(20), ..StepPlan::default() };
    let version = ProtocolVersion::V311;
    let plan = Plan { target, version, ..plan(vec![group("idle", 1)], returning) };
    let mut failures = 0;
    let outcome = run(&plan, &Stop::default(), &mut |of| failures += of.connect_failures).unwrap();
    let returns = &outcome.course.returns;
    let attempts: u64 = returns.attempts_failed.values().sum();
    let lost: u64 = returns.lost.values().sum();
    assert_eq!((lost, attempts, returns.returned), (1, 2, 1), "{returns:?}");
    assert_eq!(failures, 3);
}
