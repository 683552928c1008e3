//! A node of three, a shard each, that is cut off from the others and serves its own clients.

use crate::net::{Ask, Net, Peer, message};
use weir_wire::packet::Publish;
use weir_wire::{QoS, Version};

const Q1: QoS = QoS::AtLeastOnce;

const NAMED: &str = "UserProperty(\"weir-cluster\", \"minority\")";
const CUT_OFF: &str = "DISCONNECT Server shutting down: this node is cut off from its cluster";
const REFUSED: &str =
    "CONNACK Server unavailable: this node is cut off from its cluster, and serves no kept session";

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1_000, ..Ask::default() }
}

fn old_clean() -> Ask<'static> {
    Ask { version: Version::V311, ..Ask::default() }
}

fn come_to(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    net.entry = node;
    let peer = net.connect(client_id, ask);
    net.go_on();
    peer
}

fn join_at(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    let peer = come_to(net, node, client_id, ask);
    let lines = net.read(peer);
    assert!(lines[0].starts_with("CONNACK Success") && !lines[0].contains("present"), "{lines:?}");
    peer
}

fn subscribed_at(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>, filter: &str) -> Peer {
    let peer = join_at(net, node, client_id, ask);
    net.subscribe(peer, filter, Q1);
    net.go_on();
    net.read(peer);
    peer
}

/// Node 0 may not act any more, and nobody has told its shard of the others.
fn cut_off(net: &mut Net) {
    let Net { shards, wires, now, .. } = net;
    shards[0].enter_minority(*now, &mut wires[0]);
}

/// Node 0 and the others are lost to each other.
fn lose(net: &mut Net) {
    let Net { shards, wires, now, .. } = net;
    (1..3).for_each(|other| shards[0].node_lost(other..other + 1, *now, &mut wires[0]));
    net.lose_node(0);
    net.go_on();
}

/// Node 0 is to be a member again, and the nodes have told each other what they have.
fn meet(net: &mut Net) {
    let Net { shards, wires, now, .. } = net;
    shards[0].leave_minority(*now, &mut wires[0]);
    for other in 1..3 {
        net.meet(0, other);
        net.meet(other.into(), 0);
    }
    net.go_on();
}

fn end(net: &mut Net) {
    let Net { shards, wires, now, .. } = net;
    shards[0].end_minority(*now, &mut wires[0]);
    net.go_on();
}

fn retain(net: &mut Net, peer: Peer, topic: &str, payload: &str) {
    net.publish_packet(peer, &Publish { retain: true, ..message(topic, Q1, 7, payload) });
    net.go_on();
    let lines = net.read(peer);
    let taken = ["PUBACK #7 Success", "PUBACK #7 No matching subscribers"];
    assert!(taken.contains(&&*lines[0]), "{topic}: {lines:?}");
}

/// What a node has retained below `r`.
fn retained_at(net: &mut Net, node: usize) -> Vec<String> {
    let peer = join_at(net, node, "looks", Ask::default());
    net.subscribe(peer, "r/#", QoS::AtMostOnce);
    net.go_on();
    let mut lines = net.read(peer).split_off(1);
    lines.sort();
    net.cut(peer);
    lines
}

#[test]
fn whose_session_is_kept_and_who_waits_for_the_cluster_goes_and_the_others_stay() {
    let mut net = Net::of_nodes(3, false);
    subscribed_at(&mut net, 1, "far", Ask::default(), "far");
    let stays = subscribed_at(&mut net, 0, "stays", Ask::default(), "t");
    let old = join_at(&mut net, 0, "old", old_clean());
    let gone = subscribed_at(&mut net, 0, "kept", kept(), "t");
    let old_kept = join_at(&mut net, 0, "old-kept", Ask { clean: false, ..old_clean() });
    let waits = join_at(&mut net, 0, "waits", Ask::default());
    net.publish(waits, "far", Q1, 1, "far");
    net.entry = 0;
    let asks = net.connect("asks", Ask::default());
    cut_off(&mut net);
    lose(&mut net);
    for peer in [gone, waits] {
        assert_eq!(net.read(peer), [CUT_OFF, "closed"]);
    }
    assert_eq!(net.read(old_kept), ["closed"]);
    assert_eq!(net.read(asks), ["CONNACK Server unavailable", "closed"]);
    net.publish(old, "t", Q1, 2, "near");
    net.go_on();
    assert_eq!(net.read(old), ["PUBACK #2 Success"]);
    assert_eq!(net.read(stays), ["PUBLISH t q1 #1 near"]);
}

#[test]
fn a_node_that_is_cut_off_lets_in_whose_session_ends_with_the_connection_and_says_so() {
    let mut net = Net::of_nodes(3, false);
    join_at(&mut net, 0, "has-kept", kept());
    cut_off(&mut net);
    lose(&mut net);
    let new = come_to(&mut net, 0, "new", Ask::default());
    let properties = net.properties(new);
    assert_eq!(properties.last().map(String::as_str), Some(NAMED));
    join_at(&mut net, 0, "old", old_clean());
    let resumes_nothing = Ask { clean: false, ..Ask::default() };
    join_at(&mut net, 0, "resumes-nothing", resumes_nothing);
    // It takes a CONNACK, but none that is longer.
    let small = come_to(&mut net, 0, "small", Ask { packet_bytes_max: 20, ..Ask::default() });
    assert!(!net.properties(small).contains(&NAMED.to_owned()));
    for (name, ask) in [("kept", kept()), ("has-kept", Ask::default()), ("has-kept", kept())] {
        let refused = come_to(&mut net, 0, name, ask);
        assert_eq!(net.read(refused), [REFUSED, "closed"], "{name}");
    }
    let old_kept = come_to(&mut net, 0, "old-kept", Ask { clean: false, ..old_clean() });
    assert!(net.read(old_kept)[0].starts_with("CONNACK Server unavailable"));
    assert_eq!(net.shards[0].stats().sessions, 5, "the kept one is as it was");
}

#[test]
fn all_clients_go_before_the_node_is_a_member_again_and_nobody_comes_in_between() {
    let mut net = Net::of_nodes(3, false);
    let stays = subscribed_at(&mut net, 0, "stays", Ask::default(), "t");
    let gone = subscribed_at(&mut net, 0, "kept", kept(), "t");
    cut_off(&mut net);
    lose(&mut net);
    // Its session is kept here, and no other node has one.
    net.publish(stays, "t", Q1, 1, "1");
    net.go_on();
    let new = join_at(&mut net, 0, "new", Ask::default());
    meet(&mut net);
    net.read(gone);
    for peer in [stays, new] {
        let lines = net.read(peer);
        let [.., ended, _] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            ended,
            "DISCONNECT Server shutting down: this node is about to be a member of its cluster \
             again"
        );
    }
    let early = come_to(&mut net, 0, "early", Ask::default());
    assert!(net.read(early)[0].starts_with("CONNACK Server unavailable: this node is about to"));
    end(&mut net);
    let back = come_to(&mut net, 0, "back", Ask::default());
    assert!(!net.properties(back).contains(&NAMED.to_owned()));
    let back = come_to(&mut net, 1, "kept", kept());
    let lines = net.read(back);
    assert_eq!(lines, ["CONNACK Success present", "PUBLISH t q1 #1 1"]);
}

#[test]
fn what_is_retained_meanwhile_never_replaces_what_the_others_have_published_meanwhile() {
    let mut net = Net::of_nodes(3, false);
    let far = join_at(&mut net, 1, "far", Ask::default());
    for topic in ["r/both", "r/here", "r/there", "r/cleared"] {
        retain(&mut net, far, topic, "before");
    }
    let near = join_at(&mut net, 0, "near", Ask::default());
    cut_off(&mut net);
    lose(&mut net);
    for topic in ["r/both", "r/both", "r/both", "r/here", "r/new"] {
        retain(&mut net, near, topic, "here");
    }
    retain(&mut net, near, "r/cleared", "");
    let here = ["r/both q0 retain here", "r/here q0 retain here", "r/new q0 retain here"];
    let publish = |line: &str| format!("PUBLISH {line}");
    let mut wanted: Vec<String> = here.map(publish).into();
    wanted.push(publish("r/there q0 retain before"));
    assert_eq!(retained_at(&mut net, 0), wanted);
    retain(&mut net, far, "r/both", "there");
    retain(&mut net, far, "r/there", "there");
    meet(&mut net);
    end(&mut net);
    let wanted =
        ["r/both q0 retain there", "r/here q0 retain here", "r/new q0 retain here"].map(publish);
    let mut wanted = Vec::from(wanted);
    wanted.push(publish("r/there q0 retain there"));
    for node in 0..3 {
        assert_eq!(retained_at(&mut net, node), wanted, "node {node}");
    }
}

#[test]
fn what_is_retained_before_the_others_are_lost_goes_to_them() {
    let mut net = Net::of_nodes(3, false);
    let near = join_at(&mut net, 0, "near", Ask::default());
    cut_off(&mut net);
    retain(&mut net, near, "r/here", "here");
    for node in 1..3 {
        assert_eq!(retained_at(&mut net, node), ["PUBLISH r/here q0 retain here"], "node {node}");
    }
    // It may act again, by the same lease.
    end(&mut net);
    assert!(net.read(near)[0].starts_with("DISCONNECT"));
    assert_eq!(retained_at(&mut net, 0), ["PUBLISH r/here q0 retain here"]);
}

#[test]
fn what_is_retained_meanwhile_goes_nowhere_before_the_node_is_a_member_again() {
    let mut net = Net::of_nodes(3, false);
    let near = join_at(&mut net, 0, "near", Ask::default());
    cut_off(&mut net);
    lose(&mut net);
    retain(&mut net, near, "r/new", "new");
    meet(&mut net);
    // It is cut off once more before it is one.
    cut_off(&mut net);
    lose(&mut net);
    assert_eq!(retained_at(&mut net, 1), [""; 0]);
    assert_eq!(retained_at(&mut net, 0), ["PUBLISH r/new q0 retain new"]);
    meet(&mut net);
    end(&mut net);
    for node in 0..3 {
        assert_eq!(retained_at(&mut net, node), ["PUBLISH r/new q0 retain new"], "node {node}");
    }
}

#[test]
fn only_so_many_retained_messages_are_other_ones_than_elsewhere() {
    let mut net = Net::of_nodes(3, false);
    let near = join_at(&mut net, 0, "near", Ask::default());
    cut_off(&mut net);
    lose(&mut net);
    for number in 0..65_536 {
        let topic = format!("r/{number}");
        net.publish_packet(near, &Publish { retain: true, ..message(&topic, Q1, 7, "") });
    }
    net.read(near);
    net.publish_packet(near, &Publish { retain: true, ..message("r/more", Q1, 7, "more") });
    assert!(net.read(near)[0].starts_with("PUBACK #7 Quota exceeded"));
    retain(&mut net, near, "r/9", "9");
}
