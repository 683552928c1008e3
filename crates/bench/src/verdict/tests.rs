//! Verdicts, reason by reason.

use super::*;
use std::collections::BTreeMap;
use weir_load::outcome::{Connections, Generator, Latencies, Operations};

fn contract() -> Contract {
    Contract::default()
}

fn messages(intended: u64, lost: u64) -> Messages {
    let (accepted, expected) = (intended, intended * 10);
    let delivered = expected - lost;
    Messages { intended, sent: intended, accepted, expected, delivered, lost, ..Default::default() }
}

#[test]
fn a_run_without_loss_at_its_rate_keeps_the_contract() {
    assert!(broken_messages(&messages(1000, 0), &contract()).is_empty());
}

#[test]
fn one_lost_delivery_breaks_the_contract_at_qos_1() {
    let reasons = broken_messages(&messages(1000, 1), &contract());
    assert!(reasons[0].starts_with("1 of 10000 deliveries lost"), "{reasons:?}");
}

#[test]
fn a_loss_within_the_share_is_allowed_where_the_file_says_so() {
    let contract = Contract { lost_share_max: 0.01, ..contract() };
    assert!(broken_messages(&messages(1000, 100), &contract).is_empty());
    assert_eq!(broken_messages(&messages(1000, 101), &contract).len(), 1);
}

#[test]
fn a_rate_more_than_a_percent_below_breaks_the_contract() {
    let short = |accepted| Messages { accepted, ..messages(1000, 0) };
    assert!(broken_messages(&short(990), &contract()).is_empty());
    let reasons = broken_messages(&short(989), &contract());
    assert!(reasons[0].starts_with("989 of 1000 due messages"), "{reasons:?}");
}

/// What is said of 9,000 messages to 10 receivers, of which so many deliveries came in measure.
fn said_of(received: u64) -> Option<String> {
    let traffic = Traffic { received, ..Traffic::default() };
    behind(&traffic, &messages(9_000, 0), &contract())
}

#[test]
fn what_comes_only_after_measure_breaks_the_contract() {
    assert_eq!(said_of(90_000), None);
    let reason = said_of(86_400).unwrap();
    assert!(reason.starts_with("behind: 86400 of 90000 deliveries"), "{reason}");
    assert!(reason.contains("4.0 %"), "{reason}");
    assert_eq!(said_of(87_300), None, "3 % are allowed");
    // As much came of warm-up as stayed for after, and more.
    assert_eq!(said_of(91_000), None);
}

#[test]
fn what_comes_twice_or_is_allowed_to_be_lost_is_not_behind() {
    let twice = Traffic { received: 90_000, duplicated: 3_600, ..Traffic::default() };
    assert!(behind(&twice, &messages(9_000, 0), &contract()).is_some());
    let lost = Traffic { received: 86_400, ..Traffic::default() };
    assert_eq!(behind(&lost, &messages(9_000, 3_600), &contract()), None);
}

#[test]
fn one_message_of_a_fan_out_may_fall_beyond_the_end() {
    let fan_out = Messages { intended: 3, accepted: 3, expected: 3_000, ..messages(3, 0) };
    let of = |received| Traffic { received, ..Traffic::default() };
    assert_eq!(behind(&of(2_000), &fan_out, &contract()), None);
    assert!(behind(&of(1_000), &fan_out, &contract()).is_some());
}

#[test]
fn duplicates_break_a_contract_that_names_them() {
    let twice = Messages { duplicated: 1, ..messages(10, 0) };
    assert!(broken_messages(&twice, &contract()).is_empty());
    let exact = Contract { duplicated_max: Some(0), ..contract() };
    assert_eq!(broken_messages(&twice, &exact).len(), 1);
}

/// A run in which nothing went wrong: 1,000 messages to ten receivers each.
pub(crate) fn outcome() -> Outcome {
    let generator = Generator {
        cpu_user_us: 100,
        cpu_system_us: 200,
        wall_us: 1_000_000,
        ledger_bytes: 16,
        ..Generator::default()
    };
    Outcome {
        end: End::Completed,
        phases: Vec::new(),
        connections: Connections { planned: 11, connected: 11, ..Connections::default() },
        handshakes: Default::default(),
        subscriptions: Operations { asked: 10, granted: 10, ..Operations::default() },
        access: None,
        warm_up: Messages::default(),
        measure: messages(1_000, 0),
        traffic: Traffic { published: 1_000, received: 10_000, ..Traffic::default() },
        latencies: Latencies::default(),
        intervals: Vec::new(),
        distributions: Vec::new(),
        generator,
        silences: Vec::new(),
        silences_unlisted: 0,
        anomalies: Vec::new(),
        anomalies_unlisted: 0,
        unclocked: 0,
        course: Default::default(),
        agents: Vec::new(),
    }
}

/// The verdict on a run of which this alone went wrong.
fn verdict_with(change: impl FnOnce(&mut Outcome)) -> (Status, String) {
    let mut outcome = outcome();
    change(&mut outcome);
    let Verdict { status, reasons } = judge(&outcome, &contract(), None);
    (status, reasons.join("; "))
}

fn assert_failed(part: &str, change: impl FnOnce(&mut Outcome)) {
    let (status, reasons) = verdict_with(change);
    assert_eq!(status, Status::Failed, "{part}: {reasons}");
    assert!(reasons.contains(part), "{part} is missing in: {reasons}");
}

fn once(reason: &str, count: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([(reason.to_owned(), count)])
}

#[test]
fn a_run_in_which_nothing_went_wrong_is_passed() {
    assert_eq!(verdict_with(|_| {}), (Status::Passed, String::new()));
}

#[test]
fn clients_that_were_not_let_in_or_were_dropped_fail_the_run() {
    assert_failed("1 of 11 connections failed", |of| of.connections.failed = once("refused", 1));
    assert_failed("2 connections were dropped", |of| of.connections.dropped = once("closed", 2));
}

#[test]
fn a_subscription_refused_or_granted_another_qos_fails_the_run() {
    assert_failed("3 of 10 subscriptions failed", |of| {
        of.subscriptions.failed = once("refused", 3);
    });
    assert_failed("4 of 10 subscriptions: QoS 0 instead of 1", |of| {
        of.subscriptions.other_qos = once("QoS 0 instead of 1", 4);
    });
}

#[test]
fn what_is_lost_missing_or_behind_fails_the_run() {
    assert_failed("1 of 10000 deliveries lost", |of| of.measure.lost = 1);
    assert_failed("989 of 1000 due messages", |of| of.measure.accepted = 989);
    assert_failed("behind: 9000 of 10000", |of| of.traffic.received = 9_000);
}

#[test]
fn deliveries_out_of_order_fail_the_run_but_in_a_shared_group() {
    assert_failed("2 deliveries came after a later one", |of| of.measure.reordered = 2);
    assert_failed("1 deliveries came after a later one", |of| {
        (of.measure.reordered, of.measure.reordered_shared) = (3, 2);
    });
    let shared = |of: &mut Outcome| {
        (of.measure.reordered, of.measure.reordered_shared) = (2, 2);
    };
    assert_eq!(verdict_with(shared).0, Status::Passed);
    let any = Contract { reordered_max: 2, ..contract() };
    let reordered = Messages { reordered: 2, ..messages(1_000, 0) };
    assert!(broken_messages(&reordered, &any).is_empty());
}

#[test]
fn deliveries_that_are_not_what_was_published_fail_the_run_by_name() {
    assert_failed("1 deliveries came with another topic", |of| of.measure.altered.topic = 1);
    assert_failed("1 deliveries came with another length", |of| of.measure.altered.length = 1);
    assert_failed("1 deliveries came with another content", |of| of.measure.altered.content = 1);
    assert_failed("1 deliveries came with another QoS", |of| of.measure.altered.qos = 1);
    assert_failed("1 deliveries came with another RETAIN", |of| of.measure.altered.retain = 1);
}

#[test]
fn deliveries_that_are_owed_to_nobody_fail_the_run_unless_others_may_have_sent_them() {
    let strays = |stray, stray_own| Messages { stray, stray_own, ..messages(1_000, 0) };
    assert_failed("2 deliveries of this run were owed to nobody", |of| of.measure = strays(5, 2));
    assert_eq!(verdict_with(|of| of.measure = strays(5, 0)).0, Status::Passed);
    let any = Contract { stray_max: 2, ..contract() };
    assert!(broken_messages(&strays(2, 2), &any).is_empty());
}

#[test]
fn a_broker_that_went_away_or_let_too_few_in_fails_the_run() {
    assert_failed("gone", |of| of.end = End::BrokerGone("gone".into()));
    assert_failed("too few", |of| of.end = End::SetupFailed("too few".into()));
}

#[test]
fn a_broker_that_died_fails_a_run_that_was_otherwise_passed() {
    let judged = |outcome: &Outcome| judge(outcome, &contract(), Some("signal 9"));
    let Verdict { status, reasons } = judged(&outcome());
    assert_eq!((status, reasons), (Status::Failed, vec!["signal 9".to_owned()]));
    let stopped = Outcome { end: End::Stopped, ..outcome() };
    let Verdict { status, reasons } = judged(&stopped);
    assert_eq!((status, reasons.len()), (Status::Aborted, 2));
}

#[test]
fn a_run_of_a_generator_that_was_the_limit_is_invalid_whatever_the_broker_did() {
    let (status, reasons) = verdict_with(|of| {
        of.generator.invalid = vec!["the load generator was late".into()];
        of.measure.lost = 1;
    });
    assert_eq!(status, Status::Invalid);
    assert!(reasons.contains("was late") && reasons.contains("deliveries lost"), "{reasons}");
    let (status, reasons) = verdict_with(|of| {
        of.generator.invalid = vec!["the load generator was late".into()];
        of.traffic.received = 9_000;
    });
    let only = "the load generator was late".to_owned();
    assert_eq!((status, reasons), (Status::Invalid, only), "who is behind is not known");
}

#[test]
fn a_lost_agent_makes_the_run_invalid_and_a_stop_aborts_it() {
    let (status, reasons) = verdict_with(|of| {
        of.end = End::AgentLost("agent 2".into());
        of.measure.unaudited = 7;
    });
    assert_eq!(status, Status::Invalid);
    assert!(reasons.contains("agent 2; 7 deliveries are unaudited"), "{reasons}");
    let aborted = verdict_with(|of| of.end = End::Stopped);
    assert_eq!(aborted, (Status::Aborted, "stopped before its end".to_owned()));
}

/// A stored result of two connections that nothing went wrong with.
fn result(status: Status) -> RunResult {
    let text = include_str!("../../tests/data/result-2.json");
    let mut result: RunResult = serde_json::from_str(text).unwrap();
    result.verdict = Verdict { status, reasons: Vec::new() };
    result
}

#[test]
fn a_broken_threshold_fails_a_run_that_was_otherwise_passed() {
    let tight = Thresholds { connect_p99_ms: Some(1e-9), ..Thresholds::default() };
    let wide = Thresholds { connect_p99_ms: Some(1e9), ..Thresholds::default() };
    let judged = |status, thresholds| {
        let Verdict { status, reasons } = judge_result(result(status), thresholds).verdict;
        (status, reasons.len())
    };
    assert_eq!(judged(Status::Passed, &wide), (Status::Passed, 0));
    assert_eq!(judged(Status::Passed, &tight), (Status::Failed, 1));
    assert_eq!(judged(Status::Invalid, &tight), (Status::Invalid, 1));
    assert_eq!(judged(Status::Aborted, &tight), (Status::Aborted, 1));
}
