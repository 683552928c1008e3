//! What rules make of messages, with toy rules: published before the acknowledgement, given to the
//! rules again, and bounded.

use crate::net::{Ask, Net, message};
use weir_core::{Content, Derived, Features, Limits, Micros, Rules, Settings};
use weir_wire::packet::{Publish, Will};
use weir_wire::{Properties, QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

/// What the toy rules say that each message cost.
const STEPS: u64 = 50;

/// `a/...` goes on as `b/...`, retained as it was, with QoS 1; `more/N` makes N of `n/...`; `deep`
/// makes itself again; `bad` makes what is no topic.
#[derive(Debug)]
struct Toy;

impl Rules for Toy {
    fn apply(&mut self, message: &Content<'_>, _: Micros, out: &mut dyn FnMut(Derived<'_>)) -> u64 {
        let Content { topic, payload, retain, .. } = *message;
        let mut say = |topic: &str| out(Derived { topic, payload, qos: Q1, retain });
        match topic.split_once('/') {
            Some(("a", rest)) => say(&format!("b/{rest}")),
            Some(("more", count)) => {
                (0..count.parse::<u32>().unwrap()).for_each(|at| say(&format!("n/{at}")));
            }
            _ if topic == "deep" => say("deep"),
            _ if topic == "bad" => say("a/+"),
            _ => {}
        }
        STEPS
    }
}

fn net(shards: u16, settings: &Settings) -> Net {
    let mut net = Net::with_settings(shards, settings);
    net.shards.iter_mut().for_each(|shard| shard.set_rules(Box::new(Toy)));
    net
}

#[test]
fn a_result_is_there_before_the_message_is_acknowledged() {
    let mut net = net(1, &Settings::default());
    let peer = net.join("peer", Ask::default());
    net.subscribe(peer, "#", Q1);
    net.read(peer);
    net.publish(peer, "a/x", Q1, 7, "one");
    let expected = ["PUBLISH a/x q1 #1 one", "PUBLISH b/x q1 #2 one", "PUBACK #7 Success"];
    assert_eq!(net.read(peer), expected);
    assert_eq!(net.shards[0].stats().rule_results, 1);
}

#[test]
fn results_reach_other_shards_and_only_the_publishers_shard_makes_them() {
    let mut net = net(3, &Settings::default());
    let names = net.names();
    let publisher = net.join(&names[0][0], Ask::default());
    let peers: Vec<_> = names.iter().map(|names| net.join(&names[1], Ask::default())).collect();
    for &peer in &peers {
        net.subscribe(peer, "#", Q0);
        net.deliver_mail();
        net.read(peer);
    }
    net.publish(publisher, "a/x", Q0, 0, "one");
    net.deliver_mail();
    for &peer in &peers {
        assert_eq!(net.read(peer), ["PUBLISH a/x q0 one", "PUBLISH b/x q0 one"]);
    }
    let results: Vec<u64> = net.shards.iter().map(|shard| shard.stats().rule_results).collect();
    assert_eq!(results, [1, 0, 0]);
}

#[test]
fn a_result_may_be_retained_and_a_will_is_a_message_too() {
    for shards in [1, 3] {
        let mut net = net(shards, &Settings::default());
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        net.publish_packet(publisher, &Publish { retain: true, ..message("a/x", Q0, 0, "one") });
        let will = Will {
            topic: "a/will",
            payload: b"gone",
            qos: Q0,
            retain: false,
            properties: Properties::EMPTY,
        };
        let dying = net.join(&names[0][1], Ask { will: Some(will), ..Ask::default() });
        net.deliver_mail();
        let peer = net.join(&names[0][2], Ask::default());
        net.subscribe(peer, "b/#", Q0);
        net.deliver_mail();
        assert_eq!(net.read(peer), ["SUBACK [0]", "PUBLISH b/x q0 retain one"]);
        net.cut(dying);
        assert_eq!(net.read(peer), ["PUBLISH b/will q0 gone"]);
    }
}

#[test]
fn what_would_go_on_for_ever_ends_at_the_depth() {
    let limits = Limits { rule_depth_max: 3, ..Limits::default() };
    let mut net = net(1, &limits.into());
    let peer = net.join("peer", Ask::default());
    net.subscribe(peer, "deep", Q0);
    net.read(peer);
    net.publish(peer, "deep", Q0, 0, "x");
    // The message, its result, and that of three results.
    assert_eq!(net.read(peer).len(), 1 + 1 + 3);
    let stats = net.shards[0].stats();
    assert_eq!((stats.rule_results, stats.rule_depth_reached), (4, 1));
}

#[test]
fn results_over_the_bound_are_dropped_and_counted() {
    let limits = Limits { rule_results_max: 10, ..Limits::default() };
    let mut net = net(1, &limits.into());
    let peer = net.join("peer", Ask::default());
    net.subscribe(peer, "n/#", Q0);
    net.read(peer);
    net.publish(peer, "more/15", Q0, 0, "x");
    assert_eq!(net.read(peer).len(), 10);
    net.publish(peer, "more/9", Q0, 0, "x");
    assert_eq!(net.read(peer).len(), 9);
    assert_eq!(net.shards[0].stats().rule_results_dropped, 5);
}

#[test]
fn what_no_client_may_publish_no_rule_may() {
    let features = Features { qos_max: Q0, ..Features::default() };
    let limits = Limits { topic_bytes_max: 5, ..Limits::default() };
    let mut net = net(1, &Settings { features, limits, ..Settings::default() });
    let peer = net.join("peer", Ask::default());
    net.subscribe(peer, "#", Q0);
    net.read(peer);
    for topic in ["bad", "a/xyz"] {
        net.publish(peer, topic, Q0, 0, "x");
    }
    // A result that asks for more is delivered with the QoS there is.
    assert_eq!(net.read(peer), ["PUBLISH bad q0 x", "PUBLISH a/xyz q0 x", "PUBLISH b/xyz q0 x",]);
    let stats = net.shards[0].stats();
    assert_eq!((stats.rule_results, stats.rule_results_refused), (1, 1));
    assert!(net.wires[0].notices.iter().any(|line| line.contains("it is no topic name")));
}

#[test]
fn what_rules_cost_is_counted_so_that_a_flood_is_handled_in_turns() {
    let mut net = net(1, &Settings::default());
    let publisher = net.join("p", Ask::default());
    let mut bytes = Vec::new();
    for _ in 0..200 {
        message("more/100", Q0, 0, "x").encode(Version::V5, &mut bytes);
    }
    net.steps_seen_max = 0;
    net.send_bytes(publisher, &bytes);
    net.go_on();
    assert_eq!(net.shards[0].stats().rule_results, 200 * 100);
    // The packets of an input, and the last of them with its results.
    let of_one = 2 * 101 * STEPS;
    let steps_max = 16 * u64::from(Limits::default().input_steps_max) + of_one;
    assert!(net.steps_seen_max <= steps_max, "{} steps", net.steps_seen_max);
}
