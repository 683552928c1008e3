//! Settings that change while clients are there, and clients that are sent to another server.

use crate::net::{Ask, Net};
use std::sync::Arc;
use weir_core::{ConnKey, Drain, Grant, Limits, PolicyBuilder};
use weir_wire::{QoS, Version};

fn to(server: &str, is_moved: bool) -> Option<Arc<Drain>> {
    Some(Arc::new(Drain { is_moved, reference: Some(server.into()) }))
}

#[test]
fn clients_are_sent_away_some_at_a_time_and_their_sessions_stay() {
    let mut net = Net::new(1);
    let kept = Ask { version: Version::V5, clean: false, expiry_s: 100, ..Ask::default() };
    let old = Ask { version: Version::V311, ..Ask::default() };
    let small = Ask { packet_bytes_max: 40, ..kept };
    let peers: Vec<_> =
        [("a", kept), ("b", small), ("c", old)].map(|(name, ask)| net.join(name, ask)).into();
    let waits = net.open(Version::V5);
    let long = "x".repeat(50);
    let now = net.now;
    net.shards[0].set_drain(to(&long, false));
    let mut send = |from, max| {
        let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
        shard.send_away(from, max, now, wires)
    };
    let (sent, next) = send(ConnKey(0), 1);
    assert_eq!((sent, next.is_some()), (1, true));
    assert_eq!(send(next.unwrap(), 9), (2, None));
    assert_eq!(send(ConnKey(0), 9), (0, None), "who has no client yet stays");
    assert!(net.output(peers[0]).windows(50).any(|part| part == long.as_bytes()));
    assert_eq!(net.output(peers[1]).len(), 3, "all that the client takes");
    for (peer, said) in [(peers[0], 2), (peers[1], 2), (peers[2], 1)] {
        let lines = net.read(peer);
        assert_eq!((lines.len(), lines.last().map(|line| &**line)), (said, Some("closed")));
        assert!(said == 1 || lines[0].starts_with("DISCONNECT Use another server"), "{lines:?}");
    }
    assert_eq!(net.shards[0].stats().sessions, 2);
    assert!(net.shards[0].awaits_connects());
    net.say_connect(waits, "d", kept);
    assert!(net.read(waits)[0].starts_with("CONNACK Use another server"));
    net.shards[0].set_drain(to("b:1", true));
    let late = net.connect("a", kept);
    let properties = net.properties(late).join(" ");
    assert!(properties.contains("ServerReference(\"b:1\")"), "{properties}");
    let late = net.connect("a", old);
    assert!(net.read(late)[0].starts_with("CONNACK Server unavailable"));
    net.shards[0].set_drain(None);
    let back = net.connect("a", kept);
    assert!(net.read(back)[0].starts_with("CONNACK Success"), "and its session is there");
}

#[test]
fn other_bounds_hold_for_the_next_message() {
    let mut net = Net::new(1);
    let v5 = Ask { version: Version::V5, ..Ask::default() };
    let old = net.join("old", v5);
    let limits = Limits {
        topic_levels_max: 1,
        receive_maximum: 7,
        topic_alias_maximum: 0,
        ..Limits::default()
    };
    net.shards[0].set_limits(&limits);
    let new = net.connect("new", v5);
    let properties = net.properties(new).join(" ");
    assert!(properties.contains("ReceiveMaximum(7)"), "{properties}");
    assert!(!properties.contains("TopicAliasMaximum"), "{properties}");
    for id in 1..=8 {
        net.publish(old, "a", QoS::ExactlyOnce, id, "x");
    }
    assert_eq!(net.read(old).len(), 8, "it was told of 1,024");
    net.publish(old, "a/b", QoS::AtMostOnce, 0, "x");
    assert!(net.read(old)[0].starts_with("DISCONNECT Topic Name invalid"));
}

#[test]
fn who_came_before_there_were_rights_is_nobody() {
    let mut net = Net::new(1);
    let early = net.join("early", Ask::default());
    let mut policy = PolicyBuilder::default();
    policy.rule(Some("ann"), Grant::ReadWrite, "a").unwrap();
    net.subscribe(early, "a", QoS::AtMostOnce);
    net.read(early);
    net.shards[0].set_policy(Arc::new(policy.build()));
    net.publish(early, "a", QoS::AtMostOnce, 0, "x");
    assert_eq!(net.read(early), [] as [&str; 0]);
    assert_eq!(net.shards[0].stats().writes_forbidden, 1);
    net.shards[0].clear_policy();
    net.publish(early, "a", QoS::AtMostOnce, 0, "y");
    assert_eq!(net.read(early), ["PUBLISH a q0 y"]);
    let now = net.now;
    let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
    shard.end_anonymous(now, wires);
    let why = "DISCONNECT Not authorized: it has not said who it is";
    assert_eq!(net.read(early), [why, "closed"]);
}
