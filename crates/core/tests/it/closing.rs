//! Nodes that are stopped, a shard each: whom they let in, and what they wait for.

use crate::net::{Ask, Net, Peer};
use weir_core::Awaited;
use weir_wire::QoS;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1_000, ..Ask::default() }
}

fn come_to(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    net.entry = node;
    net.connect(client_id, ask)
}

fn join_at(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    let peer = come_to(net, node, client_id, ask);
    net.go_on();
    let lines = net.read(peer);
    assert!(lines[0].starts_with("CONNACK Success"), "{lines:?}");
    peer
}

fn close(net: &mut Net, node: usize) {
    let Net { shards, wires, now, .. } = net;
    shards[node].stop(*now, &mut wires[node]);
    shards[node].close(*now, &mut wires[node]);
    net.go_on();
}

#[test]
fn a_node_that_is_stopped_lets_nobody_in_and_waits_for_its_sessions_to_be_claimed() {
    let mut net = Net::of_nodes(3, false);
    let clients = [("c", kept()), ("d", kept()), ("clean", Ask::default())]
        .map(|(name, ask)| join_at(&mut net, 0, name, ask));
    let publisher = join_at(&mut net, 2, "p", Ask::default());
    net.subscribe(clients[0], "t", QoS::AtLeastOnce);
    net.go_on();
    net.read(clients[0]);
    close(&mut net, 0);
    for peer in clients {
        assert!(net.read(peer)[0].starts_with("DISCONNECT Server shutting down"));
    }
    let late = come_to(&mut net, 0, "late", kept());
    assert!(net.read(late)[0].starts_with("CONNACK Use another server"));
    assert_eq!(net.shards[0].awaited(), Awaited::Claim(net.now));
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "1");
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    net.pass(3);
    let new = come_to(&mut net, 1, "c", kept());
    let mut has_moved = false;
    while (0..3).any(|from| (0..3).any(|to| net.deliver_between(from, to))) {
        has_moved |= net.shards[0].awaited() == Awaited::Move;
    }
    assert!(has_moved);
    let lines = net.read(new);
    assert!(lines[0].starts_with("CONNACK Success present") && lines[1].ends_with(" 1"));
    assert_eq!(net.shards[0].awaited(), Awaited::Claim(net.now), "since the last was claimed");
    // It wants nothing of its session.
    join_at(&mut net, 2, "d", Ask::default());
    assert_eq!(net.shards[0].awaited(), Awaited::Nothing);
    assert_eq!(net.shards[0].stats().sessions_given, 1);
}

#[test]
fn nobody_waits_for_clients_that_have_no_node_to_come_to() {
    let mut net = Net::of_nodes(3, false);
    for (node, name) in ["a", "b", "c"].into_iter().enumerate() {
        join_at(&mut net, node, name, kept());
    }
    let waits = |net: &Net| [0, 1, 2].map(|at| net.shards[at].awaited() != Awaited::Nothing);
    close(&mut net, 0);
    close(&mut net, 1);
    assert_eq!(waits(&net)[..2], [true, true]);
    close(&mut net, 2);
    assert_eq!(waits(&net), [false, false, false]);
    net.lose_node(2);
    assert!(!waits(&net)[0]);
    // It is back, and may be another than it was.
    net.meet(0, 2);
    assert!(waits(&net)[0]);
    let Net { shards, wires, now, .. } = &mut net;
    shards[2].node_lost(0..1, *now, &mut wires[2]);
    net.meet(2, 0);
    net.go_on();
    assert!(!waits(&net)[0], "it has said so again");
}

#[test]
fn who_waits_to_be_let_in_by_a_node_that_stops_is_told_what_a_connack_may_say() {
    let mut net = Net::of_nodes(2, false);
    let waiting = come_to(&mut net, 0, "a", kept());
    let now = net.now;
    net.shards[0].stop(now, &mut net.wires[0]);
    assert_eq!(net.read(waiting), ["CONNACK Server unavailable", "closed"]);
}
