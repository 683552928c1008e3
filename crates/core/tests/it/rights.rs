//! What clients may publish and read.

use crate::net::{Ask, Net, Peer, message};
use std::sync::Arc;
use weir_core::{Features, Grant, Policy, PolicyBuilder, Settings, Verdict};
use weir_wire::packet::{Publish, Will};
use weir_wire::{Properties, QoS, Version};

const KEPT: Ask<'static> = Ask {
    version: Version::V5,
    clean: false,
    keep_alive_s: 0,
    expiry_s: 100,
    receive_maximum: 0,
    packet_bytes_max: 0,
    will: None,
    properties: &[],
};

fn policy(rules: &[(&str, Grant, &str)]) -> Arc<Policy> {
    let mut policy = PolicyBuilder::default();
    for &(user, grant, filter) in rules {
        policy.rule(Some(user), grant, filter).unwrap();
    }
    Arc::new(policy.build())
}

/// Ann publishes and reads below `a`, Bob reads below `a/b`, Root does all.
fn net(shards: u16) -> Net {
    let features = Features { authentication: true, ..Features::default() };
    let mut net = Net::with_settings(shards, &Settings { features, ..Settings::default() });
    let policy = policy(&[
        ("ann", Grant::ReadWrite, "a/#"),
        ("bob", Grant::Read, "a/b/#"),
        ("root", Grant::ReadWrite, "#"),
    ]);
    net.shards.iter_mut().for_each(|shard| shard.set_policy(Arc::clone(&policy)));
    net
}

fn join(net: &mut Net, user: &str, client_id: &str, ask: Ask<'_>) -> Peer {
    let peer = net.connect(client_id, ask);
    net.authenticated(peer, Verdict::AcceptAs { user: user.into(), data: Vec::new() });
    net.go_on();
    let lines = net.read(peer);
    assert!(lines[0].starts_with("CONNACK Success"), "{lines:?}");
    peer
}

fn subscribe(net: &mut Net, peer: Peer, filter: &str) {
    net.subscribe(peer, filter, QoS::AtLeastOnce);
    net.go_on();
    assert_eq!(net.read(peer)[0], "SUBACK [1]");
}

#[test]
fn a_publish_that_is_forbidden_goes_nowhere_and_says_so_where_a_packet_can() {
    for version in [Version::V311, Version::V5] {
        let mut net = net(1);
        let root = join(&mut net, "root", "root", Ask::default());
        subscribe(&mut net, root, "#");
        let bob = join(&mut net, "bob", "bob", Ask { version, ..Ask::default() });
        net.publish(bob, "a/b", QoS::AtMostOnce, 0, "0");
        net.publish(bob, "a/b", QoS::AtLeastOnce, 1, "1");
        net.publish(bob, "a/b", QoS::ExactlyOnce, 2, "2");
        let lines = net.read(bob);
        let expected = match version {
            Version::V5 => {
                let why = "Not authorized: its client may not publish there";
                vec![format!("PUBACK #1 {why}"), format!("PUBREC #2 {why}")]
            }
            _ => vec!["PUBACK #1 Success".into(), "PUBREC #2 Success".into()],
        };
        assert_eq!(lines, expected);
        net.ack(bob, weir_wire::PacketKind::PubRel, 2);
        assert_eq!(net.read(bob).len(), 1);
        assert!(net.read(root).is_empty());
        assert_eq!(net.shards[0].stats().writes_forbidden, 3);
        assert!(!net.is_closed(bob));
    }
}

#[test]
fn only_what_may_be_read_is_delivered_live_retained_or_shared() {
    let mut net = net(1);
    let ann = join(&mut net, "ann", "ann", Ask::default());
    for (topic, payload) in [("a/b", "yes"), ("a/c", "no")] {
        let message = message(topic, QoS::AtLeastOnce, 1, payload);
        net.publish_packet(ann, &Publish { retain: true, ..message });
    }
    let bob = join(&mut net, "bob", "bob", Ask::default());
    subscribe_and_read(&mut net, bob, "a/#", &["PUBLISH a/b q1 #1 retain yes"]);
    subscribe_and_read(&mut net, bob, "$share/g/a/#", &[]);
    net.publish(ann, "a/c", QoS::AtMostOnce, 0, "no");
    assert!(net.read(bob).is_empty());
    net.publish(ann, "a/b/c", QoS::AtMostOnce, 0, "yes");
    assert_eq!(net.read(bob), ["PUBLISH a/b/c q0 yes"; 2]);
    // Two retained and live ones, the shared one not being chosen.
    assert!(net.shards[0].stats().reads_forbidden >= 2);
}

fn subscribe_and_read(net: &mut Net, peer: Peer, filter: &str, expected: &[&str]) {
    net.subscribe(peer, filter, QoS::AtLeastOnce);
    net.go_on();
    let lines = net.read(peer);
    assert_eq!(lines[0], "SUBACK [1]");
    assert_eq!(lines[1..], *expected);
}

#[test]
fn a_member_that_may_not_read_leaves_the_message_to_one_that_may() {
    let mut net = net(1);
    let publisher = join(&mut net, "root", "p", Ask::default());
    let may_not = ["1", "2"].map(|id| join(&mut net, "bob", id, Ask::default()));
    let may = join(&mut net, "ann", "may", Ask::default());
    for peer in may_not.into_iter().chain([may]) {
        subscribe(&mut net, peer, "$share/g/a/#");
    }
    for _ in 0..9 {
        net.publish(publisher, "a/c", QoS::AtMostOnce, 0, "x");
    }
    assert_eq!(net.read(may).len(), 9);
    may_not.iter().for_each(|&peer| assert!(net.read(peer).is_empty()));
}

#[test]
fn a_will_is_published_if_its_client_may() {
    for (user, expected) in [("ann", 1), ("bob", 0)] {
        let mut net = net(1);
        let root = join(&mut net, "root", "root", Ask::default());
        subscribe(&mut net, root, "#");
        let will = Will {
            topic: "a/b",
            payload: b"gone",
            properties: Properties::EMPTY,
            qos: QoS::AtMostOnce,
            retain: false,
        };
        let peer = join(&mut net, user, "c", Ask { will: Some(will), ..Ask::default() });
        net.cut(peer);
        net.go_on();
        assert_eq!(net.read(root).len(), expected, "{user}");
        assert_eq!(net.shards[0].stats().writes_forbidden as usize, 1 - expected);
    }
}

#[test]
fn a_will_that_a_new_policy_forbids_is_not_published() {
    let mut net = net(1);
    let root = join(&mut net, "root", "root", Ask::default());
    subscribe(&mut net, root, "#");
    let (topic, payload, qos) = ("a/b", &b"gone"[..], QoS::AtMostOnce);
    let will = Will { topic, payload, properties: Properties::EMPTY, qos, retain: false };
    let peer = join(&mut net, "ann", "c", Ask { will: Some(will), ..Ask::default() });
    net.shards[0].set_policy(policy(&[("root", Grant::Read, "#")]));
    net.cut(peer);
    net.go_on();
    assert!(net.read(root).is_empty());
}

/// What came for one user is not given to the next that comes with the same client identifier.
#[test]
fn what_waits_is_looked_at_again_when_another_user_takes_the_session() {
    let mut net = net(1);
    let root = join(&mut net, "root", "root", Ask::default());
    let ann = join(&mut net, "ann", "c", KEPT);
    subscribe(&mut net, ann, "a/#");
    net.publish(root, "a/c", QoS::AtLeastOnce, 1, "in flight");
    net.cut(ann);
    net.publish(root, "a/c", QoS::AtLeastOnce, 2, "queued");
    net.publish(root, "a/b", QoS::AtLeastOnce, 3, "his as well");
    let bob = net.connect("c", KEPT);
    net.authenticated(bob, Verdict::AcceptAs { user: "bob".into(), data: Vec::new() });
    net.go_on();
    assert_eq!(net.read(bob), ["CONNACK Success present", "PUBLISH a/b q1 #2 his as well"]);
    assert_eq!(net.shards[0].stats().reads_forbidden, 2);
}

#[test]
fn a_new_policy_holds_for_subscriptions_that_are_there() {
    let mut net = net(1);
    let root = join(&mut net, "root", "root", Ask::default());
    let bob = join(&mut net, "bob", "bob", Ask::default());
    subscribe(&mut net, bob, "#");
    net.publish(root, "a/c", QoS::AtMostOnce, 0, "before");
    let rules = [("root", Grant::Write, "#"), ("bob", Grant::Read, "a/c")];
    net.shards[0].set_policy(policy(&rules));
    net.publish(root, "a/c", QoS::AtMostOnce, 0, "after");
    net.publish(root, "a/b", QoS::AtMostOnce, 0, "after");
    assert_eq!(net.read(bob), ["PUBLISH a/c q0 after"]);
}

/// A member that lost its rights leaves the messages to the others, and one that has got some gets
/// its share, on whatever thread each is.
#[test]
fn a_new_policy_holds_for_shared_subscriptions_that_are_there() {
    for shards in [1, 2] {
        let mut net = net(shards);
        let root = join(&mut net, "root", "root", Ask::default());
        let names = net.names();
        let [ann, bob] = [("ann", &names[0][0]), ("bob", names.last().unwrap().last().unwrap())]
            .map(|(user, name)| join(&mut net, user, name, Ask::default()));
        for peer in [ann, bob] {
            subscribe(&mut net, peer, "$share/g/a/#");
        }
        let came = |net: &mut Net| {
            for _ in 0..20 {
                net.publish(root, "a/c", QoS::AtMostOnce, 0, "x");
                net.go_on();
            }
            [ann, bob].map(|peer| net.read(peer).len())
        };
        assert_eq!(came(&mut net), [20, 0], "{shards} shards");
        let rules = [("root", Grant::Write, "#"), ("bob", Grant::Read, "a/#")];
        net.shards.iter_mut().for_each(|shard| shard.set_policy(policy(&rules)));
        assert_eq!(came(&mut net), [0, 20], "{shards} shards");
        let rules = [("root", Grant::Write, "#")];
        net.shards.iter_mut().for_each(|shard| shard.set_policy(policy(&rules)));
        assert_eq!(came(&mut net), [0, 0], "{shards} shards");
    }
}

#[test]
fn rights_go_with_a_session_that_moves() {
    let mut net = net(2);
    let names = net.names();
    let root = join(&mut net, "root", &names[0][0], Ask::default());
    let bob = join(&mut net, "bob", &names[0][1], Ask::default());
    subscribe(&mut net, bob, "#");
    net.move_name(&names[0][1], 1);
    assert_eq!(net.shard_of(bob), 1);
    net.publish(bob, "a/b", QoS::AtMostOnce, 0, "forbidden");
    net.publish(root, "a/c", QoS::AtMostOnce, 0, "no");
    net.publish(root, "a/b", QoS::AtMostOnce, 0, "yes");
    net.go_on();
    assert_eq!(net.read(bob), ["PUBLISH a/b q0 yes"]);
    assert_eq!(net.shards[1].stats().writes_forbidden, 1);
}

#[test]
fn clients_of_users_that_are_gone_are_ended_and_no_others() {
    let mut net = net(1);
    let ann = join(&mut net, "ann", "ann", KEPT);
    let bob = join(&mut net, "bob", "bob", KEPT);
    let now = net.now;
    let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
    shard.end_clients_of(|user| user == "bob", now, wires);
    let why = "DISCONNECT Not authorized: its user is gone, or has another password";
    assert_eq!(net.read(bob), [why, "closed"]);
    assert!(!net.is_closed(ann));
    assert_eq!(net.shards[0].stats().sessions, 2);
}
