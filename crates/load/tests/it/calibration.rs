//! The instrument before it is believed: the load generator against brokers with known faults.

use crate::fake_broker::{self, Deeds, FakeBroker, Faults, Lie, publishers, subscribers};
use weir_load::outcome::{Altered, Anomaly, AnomalyKind, End, Interval, Messages, Outcome, Phase};
use weir_load::plan::{Group, Phases, Plan, ProtocolVersion};
use weir_load::steps::{Action, ClientStep, StepPlan};
use weir_load::{Stop, run};
use weir_wire::ReasonCode;

fn plan(version: ProtocolVersion, groups: Vec<Group>) -> Plan {
    Plan { version, ..fake_broker::plan(groups) }
}

fn run_against(faults: Faults, plan: &Plan) -> (Outcome, Deeds) {
    fake_broker::run_against(faults, plan, |plan, heard| run(plan, &Stop::default(), heard))
}

/// Warm-up and measure together.
fn sum(outcome: &Outcome, of: impl Fn(&Messages) -> u64) -> u64 {
    of(&outcome.warm_up) + of(&outcome.measure)
}

/// What must hold of the sums whatever a broker does.
pub(crate) fn assert_sums_agree(outcome: &Outcome) {
    for messages in [outcome.warm_up, outcome.measure] {
        assert_eq!(messages.intended, messages.sent + messages.unsent, "{messages:?}");
        let answered = messages.accepted + messages.refused + messages.unacknowledged;
        assert_eq!(messages.sent, answered, "{messages:?}");
        assert_eq!(messages.expected, messages.delivered + messages.lost, "{messages:?}");
        let received = messages.delivered
            + messages.duplicated
            + messages.late_after_drain
            + messages.delivered_unaccepted
            + messages.stray;
        assert_eq!(messages.received, received, "{messages:?}");
        let missing = messages.lost + messages.unaudited;
        assert!(messages.late_after_drain <= missing, "{messages:?}");
    }
    let sent: u64 = outcome.intervals.iter().map(|interval| interval.published).sum();
    assert_eq!(sent, sum(outcome, |m| m.sent));
    let measured = outcome.measure.delivered + outcome.measure.delivered_unaccepted;
    assert!(outcome.latencies.end_to_end.len() <= measured, "only first deliveries are timed");
    assert!(outcome.latencies.end_to_end.len() >= outcome.measure.delivered);
}

/// The fake's list as the ledger should have it. Publishers come after `subscribers` in the plan.
fn expected_anomalies(deeds: &Deeds, subscribers: u32) -> Vec<Anomaly> {
    let publisher = |anomaly: &Anomaly| anomaly.publisher + subscribers;
    let mut list: Vec<Anomaly> = deeds
        .anomalies
        .iter()
        .map(|anomaly| Anomaly { publisher: publisher(anomaly), ..*anomaly })
        .collect();
    list.sort_unstable();
    list
}

pub(crate) const FAULTY: Faults = Faults {
    seed: 0x5EED,
    lost: 0.01,
    duplicated: 0.005,
    reordered: 0.005,
    delay_us: 5_000,
    late: None,
    refuse_connect: None,
    refuse_subscribe: false,
    ignore_connect: false,
    receive_maximum: None,
    unacknowledged_every: None,
    refused_every: None,
    stray_every: None,
    gone_after: None,
    freeze: None,
    lie: None,
};

fn assert_every_fault_is_found(version: ProtocolVersion, filters: &[&str], qos: u8) {
    let groups = vec![subscribers(4, filters, qos), publishers(3, 700.0, qos)];
    let (outcome, deeds) = run_against(FAULTY, &plan(version, groups));
    assert_is_all_of(&outcome, &deeds, filters[0].starts_with("$share"));
    assert!(outcome.latencies.end_to_end_from_send.min() >= 5_000);
}

/// Whether four subscribers and three publishers at 700/s saw all that the faulty fake did.
pub(crate) fn assert_is_all_of(outcome: &Outcome, deeds: &Deeds, is_shared: bool) {
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(outcome);
    let mut anomalies = outcome.anomalies.clone();
    anomalies.sort_unstable();
    assert_eq!(anomalies, expected_anomalies(deeds, 4), "seed {:#x}", FAULTY.seed);
    assert!(anomalies.len() > 20, "a calibration without faults shows nothing");
    assert_eq!(outcome.anomalies_unlisted, 0);
    let kinds = |kind| anomalies.iter().filter(|anomaly| anomaly.kind == kind).count() as u64;
    use weir_load::outcome::AnomalyKind::{Duplicated, Lost, Reordered};
    assert_eq!(sum(outcome, |m| m.lost), kinds(Lost));
    assert_eq!(sum(outcome, |m| m.duplicated), kinds(Duplicated));
    assert_eq!(sum(outcome, |m| m.reordered), kinds(Reordered));
    let no_order_is_promised = if is_shared { kinds(Reordered) } else { 0 };
    assert_eq!(sum(outcome, |m| m.reordered_shared), no_order_is_promised);
    assert_eq!(sum(outcome, |m| m.duplicated_with_dup), deeds.duplicated_with_dup);
    assert_eq!(sum(outcome, |m| m.received), deeds.deliveries);
    assert_eq!(sum(outcome, |m| m.sent), deeds.published);
    assert_eq!((outcome.warm_up.sent, outcome.measure.sent), (420, 2_100));
    assert!(outcome.latencies.end_to_end.min() >= 5_000, "the delay is seen in full");
    assert_eq!(outcome.latencies.end_to_end.len(), outcome.measure.delivered);
    assert_eq!((deeds.disconnects, deeds.cut), (7, 0), "every client says goodbye");
}

#[test]
fn every_fault_of_fan_out_at_qos_0_is_found() {
    assert_every_fault_is_found(ProtocolVersion::V311, &["t{run}/#"], 0);
}

#[test]
fn every_fault_of_fan_out_at_qos_1_is_found() {
    assert_every_fault_is_found(ProtocolVersion::V5, &["t{run}/+"], 1);
}

#[test]
fn every_fault_of_fan_out_at_qos_2_is_found() {
    assert_every_fault_is_found(ProtocolVersion::V311, &["t{run}/0", "t{run}/1", "t{run}/2"], 2);
}

#[test]
fn every_fault_of_a_shared_group_is_found() {
    assert_every_fault_is_found(ProtocolVersion::V5, &["$share/g/t{run}/+"], 1);
}

#[test]
fn a_broker_without_faults_has_none() {
    let groups = vec![subscribers(3, &["t{run}/#"], 1), publishers(5, 200.0, 1)];
    let (outcome, deeds) = run_against(Faults::default(), &plan(ProtocolVersion::V5, groups));
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    assert_eq!(outcome.anomalies, []);
    assert_eq!(outcome.measure.intended, 1_000);
    assert_eq!(outcome.measure.delivered, 3_000);
    assert_eq!(outcome.measure.stray, 0);
    assert_eq!(outcome.connections.connected, 8);
    assert_eq!(outcome.subscriptions.granted, 3);
    assert_eq!(outcome.latencies.connect.len(), 8);
    assert_eq!(outcome.latencies.subscribe.len(), 3);
    assert_eq!(outcome.latencies.acknowledge.len(), 1_000);
    assert_eq!((deeds.disconnects, deeds.cut), (8, 0));
    let phases: Vec<Phase> = outcome.phases.iter().map(|span| span.phase).collect();
    let all = [Phase::Connect, Phase::Subscribe, Phase::WarmUp, Phase::Measure, Phase::Drain];
    assert_eq!(phases, all);
    let measure = outcome.phases[3];
    assert_eq!(measure.end_us - measure.start_us, 1_000_000);
    for (one, next) in outcome.intervals.iter().zip(&outcome.intervals[1..]) {
        assert_eq!(one.start_us + one.length_us, next.start_us, "intervals leave no gap");
        assert_eq!(one.length_us, 250_000);
    }
    let all = |of: fn(&Interval) -> u64| outcome.intervals.iter().map(of).sum::<u64>();
    assert_eq!((all(|i| i.connected), all(|i| i.subscribed)), (8, 3));
    assert_eq!((all(|i| i.published), all(|i| i.acknowledged)), (1_200, 1_200));
    assert_eq!(all(|i| i.received), 3_600);
    assert_eq!(all(|i| i.connect_failures + i.subscribe_failures + i.publish_failures), 0);
    // A PUBLISH of 32 bytes has at least 40 on the wire, and an acknowledgement 4.
    assert!(all(|i| i.bytes_out) >= 1_200 * 40 + 3_600 * 4, "{:?}", all(|i| i.bytes_out));
    assert!(all(|i| i.bytes_in) >= 3_600 * 40 + 1_200 * 4, "{:?}", all(|i| i.bytes_in));
    let measured = outcome.intervals.iter().filter(|i| i.phase == Phase::Measure);
    for of in measured {
        assert_eq!((of.connections, of.subscribers, of.publishers), (8, 3, 5));
    }
    assert_eq!(outcome.intervals.last().map(|i| i.outstanding), Some(0));
    assert_eq!(outcome.traffic.duplicated, 0);
    assert!(outcome.traffic.received <= 3 * outcome.traffic.published + 30);
    assert!(outcome.traffic.received + 30 >= 3 * outcome.traffic.published);
    assert!(outcome.generator.wall_us >= 990_000, "{}", outcome.generator.wall_us);
    assert!(outcome.generator.cpu_user_us + outcome.generator.cpu_system_us > 0);
    let drain = outcome.phases[4];
    assert!(drain.end_us - drain.start_us < 1_000_000, "nothing owed, nothing waited for");
}

#[test]
fn messages_never_acknowledged_are_neither_accepted_nor_lost() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 500.0, 1)];
    let faults = Faults { unacknowledged_every: Some(50), ..Faults::default() };
    let (outcome, deeds) = run_against(faults, &plan(ProtocolVersion::V311, groups));
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    assert_eq!(sum(&outcome, |m| m.unacknowledged), deeds.unaccepted);
    assert_eq!(sum(&outcome, |m| m.delivered_unaccepted), deeds.unaccepted_deliveries);
    assert!(deeds.unaccepted > 0 && deeds.unaccepted_deliveries > 0);
    assert_eq!(sum(&outcome, |m| m.refused), 0);
    assert_eq!(outcome.anomalies, []);
}

#[test]
fn refused_messages_are_neither_accepted_nor_lost() {
    for qos in [1, 2] {
        let groups = vec![subscribers(2, &["t{run}/#"], qos), publishers(2, 500.0, qos)];
        let faults = Faults { refused_every: Some(50), ..Faults::default() };
        let (outcome, deeds) = run_against(faults, &plan(ProtocolVersion::V5, groups));
        assert_sums_agree(&outcome);
        assert_eq!(sum(&outcome, |m| m.refused), deeds.unaccepted);
        assert_eq!(sum(&outcome, |m| m.delivered_unaccepted), deeds.unaccepted_deliveries);
        assert_eq!(sum(&outcome, |m| m.unacknowledged), 0);
        assert_eq!(outcome.anomalies, []);
    }
}

#[test]
fn what_comes_after_drain_is_late_and_lost() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(1, 200.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 200, drain_ms: 300 };
    // Sequence 0 of 0 to 39, due at the begin: it comes a second later, in the middle of the second
    // in which late messages are listened for.
    let faults = Faults { late: Some((40, 1_000_000)), ..Faults::default() };
    let (outcome, deeds) = run_against(faults, &plan);
    assert_sums_agree(&outcome);
    assert_eq!(deeds.late, 2);
    assert_eq!((outcome.measure.late_after_drain, outcome.measure.lost), (2, 2));
    assert_eq!(outcome.anomalies.len(), 2);
    assert_eq!(outcome.latencies.end_to_end.len(), outcome.measure.delivered);
}

#[test]
fn what_was_under_way_when_a_run_was_stopped_is_not_lost() {
    let groups = vec![
        subscribers(2, &["t{run}/#"], 1),
        subscribers(2, &["$share/g/t{run}/#"], 1),
        publishers(1, 200.0, 1),
    ];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases.measure_ms = 60_000;
    // More than an interval, after which the run is stopped: what is sent has been accepted, and
    // nothing of the last interval has come.
    let fake = FakeBroker::start(Faults { delay_us: 400_000, ..Faults::default() });
    plan.target = fake.address;
    let stop = Stop::default();
    let mut measured = 0;
    let outcome = run(&plan, &stop, &mut |interval| {
        measured += u32::from(interval.phase == Phase::Measure);
        if measured == 4 {
            stop.stop();
        }
    });
    let outcome = outcome.expect("a plan that runs");
    fake.stop();
    assert_eq!(outcome.end, End::Stopped);
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.lost, outcome.anomalies.len()), (0, 0), "{:?}", outcome.measure);
    assert!(outcome.measure.delivered > 0, "{:?}", outcome.measure);
    assert!(outcome.measure.unaudited > 0, "{:?}", outcome.measure);
}

#[test]
fn messages_of_another_run_are_stray() {
    let groups = vec![subscribers(2, &["t{run}/#"], 0), publishers(1, 500.0, 0)];
    let faults = Faults { stray_every: Some(20), ..Faults::default() };
    let (outcome, deeds) = run_against(faults, &plan(ProtocolVersion::V311, groups));
    assert_sums_agree(&outcome);
    assert!(deeds.strays > 0);
    assert_eq!(sum(&outcome, |m| m.stray), deeds.strays);
    assert_eq!(sum(&outcome, |m| m.stray_own), 0, "whoever else uses the broker may send it");
    assert_eq!(outcome.anomalies, []);
}

#[test]
fn messages_of_this_run_that_are_owed_to_nobody_are_the_brokers_doing() {
    for (lie, version) in [
        (Lie::Elsewhere, ProtocolVersion::V311),
        (Lie::Elsewhere, ProtocolVersion::V5),
        (Lie::Unsent, ProtocolVersion::V5),
    ] {
        let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
        let faults = Faults { lie: Some((10, lie)), ..Faults::default() };
        let (outcome, deeds) = run_against(faults, &plan(version, groups));
        assert_eq!(outcome.end, End::Completed);
        assert_sums_agree(&outcome);
        assert!(deeds.lies > 50, "a broker that does not lie shows nothing");
        assert_eq!(sum(&outcome, |m| m.stray_own), deeds.lies, "{lie:?}");
        assert_eq!(sum(&outcome, |m| m.stray), deeds.lies, "{lie:?}");
        assert_eq!((outcome.measure.lost, outcome.anomalies.len()), (0, 0), "{lie:?}");
    }
}

/// The sums of a run against a broker that alters every tenth message.
fn assert_altered(lie: Lie, kind: AnomalyKind, altered: fn(u64) -> Altered) {
    for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
        let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
        let faults = Faults { lie: Some((10, lie)), ..Faults::default() };
        let (outcome, deeds) = run_against(faults, &plan(version, groups));
        assert_eq!(outcome.end, End::Completed);
        assert_sums_agree(&outcome);
        assert!(deeds.lies > 50, "a broker that does not lie shows nothing");
        let mut sum = outcome.warm_up.altered;
        let more = outcome.measure.altered;
        sum.topic += more.topic;
        sum.length += more.length;
        sum.content += more.content;
        sum.qos += more.qos;
        sum.retain += more.retain;
        assert_eq!(sum, altered(deeds.lies), "{lie:?}");
        assert_eq!(outcome.anomalies.len() as u64, deeds.lies, "{lie:?}");
        assert!(outcome.anomalies.iter().all(|anomaly| anomaly.kind == kind), "{lie:?}");
        assert!(outcome.anomalies.iter().all(|anomaly| anomaly.sequence % 10 == 0));
        assert_eq!((outcome.measure.lost, outcome.measure.stray), (0, 0));
        let granted = if lie == Lie::GrantsQos0 { 2 } else { 0 };
        let other = outcome.subscriptions.other_qos.get("QoS 0 instead of 1").copied();
        assert_eq!(other.unwrap_or(0), granted, "{:?}", outcome.subscriptions);
    }
}

#[test]
fn another_qos_than_asked_for_is_found_in_suback_and_in_every_delivery() {
    let altered = |qos| Altered { qos, ..Altered::default() };
    assert_altered(Lie::GrantsQos0, AnomalyKind::AlteredQos, altered);
    assert_altered(Lie::DeliversQos0, AnomalyKind::AlteredQos, altered);
}

#[test]
fn another_topic_is_found() {
    let altered = |topic| Altered { topic, ..Altered::default() };
    assert_altered(Lie::Topic, AnomalyKind::AlteredTopic, altered);
}

#[test]
fn a_payload_that_is_cut_or_grows_is_found() {
    let altered = |length| Altered { length, ..Altered::default() };
    assert_altered(Lie::Cut, AnomalyKind::AlteredLength, altered);
    assert_altered(Lie::Longer, AnomalyKind::AlteredLength, altered);
}

#[test]
fn other_bytes_behind_the_stamp_or_another_time_in_it_are_found() {
    let altered = |content| Altered { content, ..Altered::default() };
    for lie in [Lie::Flipped, Lie::LastByte, Lie::Earlier] {
        assert_altered(lie, AnomalyKind::AlteredContent, altered);
    }
}

#[test]
fn a_retain_flag_on_what_was_just_published_is_found() {
    let altered = |retain| Altered { retain, ..Altered::default() };
    assert_altered(Lie::Retain, AnomalyKind::AlteredRetain, altered);
}

/// A message that is to be retained has no RETAIN flag for those who were subscribed before it.
#[test]
fn a_retain_flag_on_a_retained_message_is_found_where_it_was_not_stored() {
    let mut groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
    groups[1].publish.as_mut().unwrap().retain = true;
    let faults = Faults { lie: Some((10, Lie::Retain)), ..Faults::default() };
    let (outcome, deeds) = run_against(faults, &plan(ProtocolVersion::V311, groups));
    assert_sums_agree(&outcome);
    assert_eq!(sum(&outcome, |m| m.altered.retain), deeds.lies);
}

/// Subscribers that come when all is stored are owed it, with the flag.
#[test]
fn a_stored_message_without_its_retain_flag_is_found() {
    let mut groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(3, 1.0, 1)];
    let publish = groups[1].publish.as_mut().unwrap();
    (publish.retain, publish.count, publish.from_s) = (true, Some(1), Some(0.0));
    publish.rate_per_s = 50.0;
    let join = ClientStep {
        at_ms: 500,
        group: 0,
        action: Action::Join,
        clients: 2,
        over_ms: 0,
        for_ms: 0,
        every_ms: 0,
    };
    let course = StepPlan { steps: vec![join], ..StepPlan::default() };
    for (lie, is_altered) in [(None, 0), (Some((1, Lie::NoRetain)), 1)] {
        let faults = Faults { lie, ..Faults::default() };
        let plan = Plan { course: course.clone(), ..plan(ProtocolVersion::V311, groups.clone()) };
        let (outcome, deeds) = run_against(faults, &plan);
        assert_sums_agree(&outcome);
        assert_eq!((outcome.measure.delivered, outcome.measure.lost), (6, 0));
        assert_eq!(
            outcome.measure.altered,
            Altered { retain: 6 * is_altered, ..Altered::default() }
        );
        assert_eq!(deeds.lies, 6 * is_altered);
    }
}

/// One client may ask for several QoS; each SUBACK is held against its own SUBSCRIBE.
#[test]
fn a_lower_qos_is_found_where_subscriptions_of_a_client_differ() {
    let mut groups = vec![subscribers(1, &["t{run}/0", "u{run}/0"], 1), publishers(1, 50.0, 1)];
    groups[0].subscriptions[1].qos = 2;
    let run = |lie| {
        let faults = Faults { lie, ..Faults::default() };
        run_against(faults, &plan(ProtocolVersion::V5, groups.clone())).0
    };
    let honest = run(None);
    assert!(honest.subscriptions.other_qos.is_empty(), "{:?}", honest.subscriptions);
    assert_eq!(sum(&honest, |m| m.altered.qos), 0);
    let lower = run(Some((1, Lie::GrantsQos0)));
    let told = &lower.subscriptions.other_qos;
    assert_eq!((told["QoS 0 instead of 1"], told["QoS 0 instead of 2"]), (1, 1));
    assert_eq!(sum(&lower, |m| m.altered.qos), sum(&lower, |m| m.delivered));
}

#[test]
fn filters_that_overlap_owe_one_delivery() {
    // The fake delivers once for each filter, so every second delivery is one too many.
    let groups = vec![subscribers(1, &["t{run}/#", "t{run}/0"], 0), publishers(1, 100.0, 0)];
    let (outcome, _) = run_against(Faults::default(), &plan(ProtocolVersion::V311, groups));
    assert_sums_agree(&outcome);
    assert_eq!(outcome.measure.expected, 100);
    assert_eq!((outcome.measure.lost, outcome.measure.duplicated), (0, 100));
}

#[test]
fn a_frozen_broker_costs_latency_not_the_run() {
    let groups = vec![subscribers(1, &["t{run}/#"], 1), publishers(1, 500.0, 1)];
    // After 100 messages of warm-up and 150 of measure, for 1.5 s: past the end of measure.
    let faults = Faults { freeze: Some((250, 1_500_000)), ..Faults::default() };
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases.drain_ms = 5_000;
    plan.connect.timeout_ms = 500;
    let (outcome, _) = run_against(faults, &plan);
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.lost, outcome.measure.unsent), (0, 0));
    assert!(outcome.latencies.end_to_end.max() >= 1_490_000);
    // Seen from the first message that was owed in it on, and by nothing but it.
    let [silence] = &*outcome.silences else { panic!("{:?}", outcome.silences) };
    assert!((1_400_000..2_500_000).contains(&silence.length_us), "{silence:?}");
    let measure = outcome.phases.iter().find(|span| span.phase == Phase::Measure).unwrap();
    assert!((measure.start_us..measure.end_us).contains(&silence.start_us), "{silence:?}");
    // Due over 0.7 s of the freeze, each as late as the rest of it: the median of measure is one
    // of them.
    assert!(outcome.latencies.end_to_end.value_at_quantile(0.5) >= 800_000);
}

#[test]
fn a_broker_that_refuses_all_connections_fails_the_setup() {
    let reason = ReasonCode::NotAuthorized;
    let faults = Faults { refuse_connect: Some(reason), ..Faults::default() };
    let groups = vec![subscribers(30, &["t"], 0)];
    let (outcome, _) = run_against(faults, &plan(ProtocolVersion::V5, groups));
    let End::SetupFailed(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(seen.contains(reason.name()), "{seen}");
    assert_eq!(outcome.connections.connected, 0);
    let reasons: Vec<&String> = outcome.connections.failed.keys().collect();
    assert!(reasons.iter().all(|text| text.contains(reason.name())), "{reasons:?}");
}

#[test]
fn a_broker_that_refuses_all_subscriptions_fails_the_setup() {
    let faults = Faults { refuse_subscribe: true, ..Faults::default() };
    let groups = vec![subscribers(3, &["t{run}/#"], 0), publishers(1, 10.0, 0)];
    let (outcome, _) = run_against(faults, &plan(ProtocolVersion::V311, groups));
    assert!(matches!(outcome.end, End::SetupFailed(_)), "{:?}", outcome.end);
    assert_eq!((outcome.subscriptions.asked, outcome.subscriptions.granted), (3, 0));
    assert_eq!(outcome.measure.intended, 0);
}

#[test]
fn a_broker_that_never_answers_connect_is_gone() {
    let faults = Faults { ignore_connect: true, ..Faults::default() };
    let mut plan = plan(ProtocolVersion::V311, vec![subscribers(3, &["t"], 0)]);
    plan.connect.timeout_ms = 200;
    let begin = std::time::Instant::now();
    let (outcome, _) = run_against(faults, &plan);
    assert!(begin.elapsed().as_millis() >= 200, "an answer may take so long");
    let End::BrokerGone(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(seen.contains("no CONNACK"), "{seen}");
}

#[test]
fn no_broker_at_all_is_a_broker_gone() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(ProtocolVersion::V311, vec![subscribers(30, &["t"], 0)]);
    plan.target = listener.local_addr().unwrap();
    drop(listener);
    let outcome = run(&plan, &Stop::default(), &mut |_| {}).unwrap();
    let End::BrokerGone(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(seen.contains("refused"), "{seen}");
}

#[test]
fn a_broker_that_goes_away_midway_ends_the_run_and_keeps_what_was_measured() {
    let groups = vec![subscribers(10, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases.measure_ms = 60_000;
    let faults = Faults { gone_after: Some(200), ..Faults::default() };
    let (outcome, _) = run_against(faults, &plan);
    let End::BrokerGone(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(seen.contains("of 12 connections"), "{seen}");
    assert_sums_agree(&outcome);
    assert_eq!(outcome.warm_up.accepted + outcome.measure.accepted, 200);
    assert_eq!(outcome.connections.dropped.values().sum::<u64>(), 12);
    assert!(!outcome.latencies.end_to_end.is_empty());
    assert_eq!(outcome.phases.last().unwrap().phase, Phase::Measure);
}

#[test]
fn a_stop_ends_the_run_within_its_phase() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases.measure_ms = 60_000;
    let fake = FakeBroker::start(Faults::default());
    plan.target = fake.address;
    let stop = Stop::default();
    let asked = stop.clone();
    let outcome = run(&plan, &stop, &mut |interval| {
        if interval.phase == Phase::Measure {
            asked.stop();
        }
    })
    .unwrap();
    assert_eq!(outcome.end, End::Stopped);
    assert_sums_agree(&outcome);
    assert!(outcome.measure.sent > 0);
    assert_eq!(outcome.measure.unsent, 0, "what was not due when it stopped is not owed");
    assert_eq!((fake.stop().disconnects, outcome.connections.dropped.len()), (4, 0));
}

#[test]
fn a_window_that_is_full_leaves_messages_unsent() {
    let groups = vec![subscribers(1, &["t{run}/#"], 1), publishers(1, 200.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 500, drain_ms: 300 };
    let faults =
        Faults { receive_maximum: Some(10), unacknowledged_every: Some(1), ..Faults::default() };
    let (outcome, _) = run_against(faults, &plan);
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    let Messages { intended, sent, unsent, unacknowledged, .. } = outcome.measure;
    assert_eq!((intended, sent, unsent, unacknowledged), (100, 10, 90, 10));
}

#[test]
fn a_finish_waits_for_what_is_owed_and_completes() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 3_600_000, drain_ms: 5_000 };
    // Everything is on its way for so long: a stop would lose it.
    let fake = FakeBroker::start(Faults { delay_us: 200_000, ..Faults::default() });
    plan.target = fake.address;
    let stop = Stop::default();
    let asked = stop.clone();
    let outcome = run(&plan, &stop, &mut |interval| {
        if interval.phase == Phase::Measure {
            asked.finish();
        }
    })
    .unwrap();
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    let Messages { intended, accepted, expected, lost, .. } = outcome.measure;
    assert!(intended > 0 && intended < 2 * 200 * 3_600, "{intended} were due by then");
    assert_eq!((accepted, expected, lost), (intended, 2 * intended, 0));
    assert_eq!(fake.stop().disconnects, 4);
}

#[test]
fn a_finish_while_connections_are_made_is_a_stop() {
    let mut plan = plan(ProtocolVersion::V5, vec![subscribers(1_000, &["t{run}/#"], 1)]);
    plan.connect.rate_per_s = 10.0;
    let fake = FakeBroker::start(Faults::default());
    plan.target = fake.address;
    let stop = Stop::default();
    let asked = stop.clone();
    let outcome = run(&plan, &stop, &mut |_| asked.finish()).unwrap();
    assert_eq!(outcome.end, End::Stopped);
    fake.stop();
}

#[test]
fn an_acknowledgement_counts_from_the_intended_time_too() {
    // A window of one and a freeze of 400 ms: from the send one message was late, from the intended
    // time all that were due meanwhile.
    let groups = vec![publishers(1, 100.0, 1)];
    let mut plan = plan(ProtocolVersion::V5, groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 500, drain_ms: 10_000 };
    let faults =
        Faults { receive_maximum: Some(1), freeze: Some((10, 400_000)), ..Faults::default() };
    let (outcome, _) = run_against(faults, &plan);
    assert_eq!(outcome.end, End::Completed);
    assert_eq!((outcome.measure.intended, outcome.measure.accepted), (50, 50));
    let late =
        |histogram: &hdrhistogram::Histogram<u64>| histogram.count_between(100_000, u64::MAX);
    let latencies = &outcome.latencies;
    assert_eq!(latencies.acknowledge_from_intended.len(), 50);
    let from_send = late(&latencies.acknowledge);
    assert!(from_send < 15, "one message was open during the freeze, {from_send} were late");
    assert!(late(&latencies.acknowledge_from_intended) >= 25, "30 were due 100 ms before its end");
}
