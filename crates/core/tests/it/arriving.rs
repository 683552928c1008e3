//! CONNACK waits until the log has what it says of the session.

use crate::durable::DURABLE;
use crate::net::{Ask, Net, Peer};
use weir_core::{Kicked, Limits, WhenAbsent};
use weir_wire::packet::{PINGREQ, Will};
use weir_wire::{PacketKind, Properties, QoS, ReasonCode};

fn net() -> Net {
    Net::with_logs(1, &Limits::default())
}

/// A session that is committed, with a subscription at QoS 1; its client is not there.
fn absent(net: &mut Net, client_id: &str, filter: &str) {
    let peer = net.join(client_id, DURABLE);
    net.subscribe(peer, filter, QoS::AtLeastOnce);
    net.commit(0);
    net.cut(peer);
    net.commit(0);
}

/// Nothing was sent, and the connection is there.
fn waits(net: &mut Net, peer: Peer) -> bool {
    net.read(peer).is_empty() && !net.is_closed(peer)
}

#[test]
fn a_session_that_is_new_taken_up_or_discarded_is_committed_before_connack() {
    let mut net = net();
    for (ask, connack) in [
        (DURABLE, "CONNACK Success"),
        (DURABLE, "CONNACK Success present"),
        (Ask { clean: true, ..DURABLE }, "CONNACK Success"),
        (Ask { expiry_s: 0, ..DURABLE }, "CONNACK Success present"),
    ] {
        let peer = net.connect("s", ask);
        assert!(waits(&mut net, peer), "{connack}");
        net.commit(0);
        assert_eq!(net.read(peer), [connack]);
    }
    net.join("s", DURABLE);
    // Nothing is left of it, and nothing of the new one outlives its connection.
    let peer = net.connect("s", Ask::default());
    assert!(waits(&mut net, peer));
    net.commit(0);
    assert_eq!(net.read(peer), ["CONNACK Success"]);
}

#[test]
fn a_session_that_ends_with_its_connection_and_is_in_no_log_is_greeted_at_once() {
    let mut net = net();
    let ask = Ask { clean: false, ..Ask::default() };
    net.connect("waits", DURABLE);
    for client_id in ["s", "s", "t"] {
        let peer = net.connect(client_id, ask);
        assert_eq!(net.read(peer), ["CONNACK Success"]);
    }
}

#[test]
fn what_comes_behind_connect_is_read_after_connack() {
    let mut net = net();
    let peer = net.connect("s", DURABLE);
    net.subscribe(peer, "t", QoS::AtLeastOnce);
    net.publish(peer, "t", QoS::AtMostOnce, 0, "a");
    net.send_bytes(peer, &PINGREQ);
    net.disconnect(peer, ReasonCode::Success);
    assert!(waits(&mut net, peer));
    assert!(net.left(peer) > 0, "nothing of it is read");
    assert_eq!(net.wires[0].log.len(), 1);
    net.commit(0);
    assert_eq!(net.read(peer), ["CONNACK Success", "PUBLISH t q0 a"]);
    net.commit(0);
    assert_eq!(net.read(peer), ["SUBACK [1]", "PINGRESP", "closed"]);
}

#[test]
fn a_client_that_is_not_greeted_yet_is_absent_to_others() {
    let mut net = net();
    absent(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    let peer = net.connect("s", DURABLE);
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "b");
    net.drained(peer);
    assert!(waits(&mut net, peer));
    assert_eq!(net.shards[0].stats().dropped_absent_qos0, 1);
    net.commit(0);
    assert_eq!(net.read(peer), ["CONNACK Success present", "PUBLISH t q1 #1 a"]);
    net.ack(peer, PacketKind::PubAck, 1);
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "c");
    assert_eq!(net.read(peer), ["PUBLISH t q0 c"]);
}

fn will(topic: &'static str) -> Option<Will<'static>> {
    let (payload, qos, retain) = (&b"lost"[..], QoS::AtMostOnce, false);
    Some(Will { topic, payload, qos, retain, properties: Properties::EMPTY })
}

#[test]
fn a_second_connection_takes_over_from_one_that_is_not_greeted_yet() {
    let mut net = net();
    let other = net.join("o", Ask::default());
    net.subscribe(other, "w", QoS::AtMostOnce);
    let first = net.connect("s", Ask { will: will("w"), ..DURABLE });
    let second = net.connect("s", DURABLE);
    // Nothing may come before a CONNACK.
    assert_eq!(net.read(first), ["closed"]);
    assert!(waits(&mut net, second));
    assert_eq!(net.read(other), ["SUBACK [0]", "PUBLISH w q0 lost"]);
    net.commit(0);
    assert!(net.read(first).is_empty());
    assert_eq!(net.read(second), ["CONNACK Success present"]);
    let stats = net.shards[0].stats();
    assert_eq!((stats.takeovers, stats.sessions, stats.awaited, stats.log_waits), (1, 2, 0, 0));
}

#[test]
fn a_connection_that_is_gone_before_connack_leaves_an_absent_session() {
    let mut net = net();
    let other = net.join("o", Ask::default());
    net.subscribe(other, "w", QoS::AtMostOnce);
    let peer = net.connect("s", Ask { will: will("w"), ..DURABLE });
    net.free_keys = vec![net.key_of(peer)];
    net.cut(peer);
    assert_eq!(net.read(other), ["SUBACK [0]", "PUBLISH w q0 lost"]);
    let next = net.join("next", Ask::default());
    net.commit(0);
    let (now, sink) = (net.now, &mut net.wires[0]);
    assert_eq!(net.shards[0].kick("s", now, sink), Kicked::Absent);
    assert!(waits(&mut net, next));
    assert_eq!(net.shards[0].stats().sessions, 3);
    net.pass(60);
    assert_eq!(net.shards[0].stats().sessions, 2);
}

#[test]
fn a_client_is_not_silent_while_its_connack_waits() {
    let mut net = net();
    let peer = net.connect("s", Ask { keep_alive_s: 1, ..DURABLE });
    net.pass(5);
    assert!(waits(&mut net, peer));
    net.commit(0);
    assert_eq!(net.read(peer), ["CONNACK Success"]);
    net.pass(1);
    assert!(waits(&mut net, peer));
    net.pass(1);
    assert_eq!(net.read(peer), ["DISCONNECT Keep Alive timeout", "closed"]);
}

#[test]
fn a_connack_that_waits_too_long_ends_its_connection() {
    let mut net = net();
    let peer = net.connect("s", DURABLE);
    net.pass(2 * Limits::default().answer_wait_s_max);
    assert_eq!(net.read(peer), ["closed"]);
    net.commit(0);
    assert!(net.read(peer).is_empty());
}

#[test]
fn a_client_that_is_not_greeted_yet_can_be_ended() {
    let mut net = net();
    let peer = net.connect("s", DURABLE);
    let (now, sink) = (net.now, &mut net.wires[0]);
    assert_eq!(net.shards[0].kick("s", now, sink), Kicked::Ended);
    assert_eq!(net.read(peer), ["closed"]);
    let peer = net.connect("s", DURABLE);
    let (now, sink) = (net.now, &mut net.wires[0]);
    net.shards[0].stop(now, sink);
    assert_eq!(net.read(peer), ["closed"]);
}

#[test]
fn a_session_whose_queue_runs_over_before_connack_ends_with_the_connection() {
    let limits = Limits {
        queue_messages_max: 1,
        queue_full_absent: WhenAbsent::EndSession,
        ..Limits::default()
    };
    for expiry_s in [60, 0] {
        let mut net = Net::with_logs(1, &limits);
        absent(&mut net, "s", "t");
        let publisher = net.join("p", Ask::default());
        let peer = net.connect("s", Ask { expiry_s, ..DURABLE });
        net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
        net.publish(publisher, "t", QoS::AtLeastOnce, 2, "b");
        assert_eq!(net.read(peer), ["closed"]);
        assert_eq!(net.shards[0].stats().sessions, 1);
        net.commit(0);
        let peer = net.connect("s", DURABLE);
        net.commit(0);
        assert_eq!(net.read(peer), ["CONNACK Success"]);
    }
}

#[test]
fn many_clients_that_a_commit_frees_get_what_they_missed_in_slices() {
    let limits = Limits { input_steps_max: 200, ..Limits::default() };
    let mut net = Net::with_logs(1, &limits);
    let names: Vec<String> = (0..20).map(|at| format!("s{at}")).collect();
    for name in &names {
        absent(&mut net, name, "t");
    }
    let publisher = net.join("p", Ask::default());
    for id in 1..=50 {
        net.publish(publisher, "t", QoS::AtLeastOnce, id, "a");
    }
    net.commit(0);
    net.go_on();
    let peers: Vec<Peer> = names.iter().map(|name| net.connect(name, DURABLE)).collect();
    net.commit(0);
    let at_once = peers.iter().filter(|&&peer| !net.read(peer).is_empty()).count();
    assert!((1..=3).contains(&at_once), "{at_once}");
    net.go_on();
    let later = peers.iter().filter(|&&peer| net.read(peer).len() == 51).count();
    assert_eq!(at_once + later, 20);
}
