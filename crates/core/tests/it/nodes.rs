//! Sessions that go from node to node, a shard each: with what is on its way, and when a node is
//! lost meanwhile.

use crate::net::{Ask, Net, Peer, SEED, message};
use weir_core::{Limits, Micros, Settings, Shard, ShardId, Wall, WhenAbsent};
use weir_wire::packet::{Publish, Will};
use weir_wire::{PacketKind, PropertiesBuf, Property, QoS, ReasonCode, Version};

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1_000, ..Ask::default() }
}

/// A client connects to a node.
fn join_at(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    let peer = come_to(net, node, client_id, ask);
    settle(net);
    let lines = net.read(peer);
    assert!(lines[0].starts_with("CONNACK Success"), "{lines:?}");
    peer
}

/// All letters arrive, and all that is recorded outlives a crash.
fn settle(net: &mut Net) {
    for _ in 0..4 {
        net.go_on();
        (0..net.shards.len()).for_each(|shard| net.commit(shard));
    }
    net.go_on();
}

/// Sends CONNECT, and no letter on.
fn come_to(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    net.entry = node;
    net.connect(client_id, ask)
}

/// Publishes, and nothing is delivered.
fn publish_at(net: &mut Net, peer: Peer, id: u16) {
    net.publish(peer, "t", Q1, id, &id.to_string());
}

/// A session with a subscription to `t` and the messages 1 and 2 in its queue, on node 0, and a
/// publisher on node 2.
fn absent(is_logged: bool) -> (Net, Peer) {
    let mut net = Net::of_nodes(3, is_logged);
    let old = join_at(&mut net, 0, "c", kept());
    net.subscribe(old, "t", Q1);
    net.subscribe(old, "$share/g/s", Q1);
    settle(&mut net);
    net.cut(old);
    let publisher = join_at(&mut net, 2, "p", Ask::default());
    for id in 1..=2 {
        publish_at(&mut net, publisher, id);
    }
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success", "PUBACK #2 Success"]);
    (net, publisher)
}

/// The payloads that came behind the CONNACK.
fn payloads(lines: &[String]) -> Vec<&str> {
    lines[1..].iter().map(|line| line.rsplit(' ').next().unwrap()).collect()
}

#[test]
fn nothing_is_lost_or_doubled_or_out_of_order_whenever_a_message_is_published() {
    // After so many letters of the hand-over the publisher says something.
    for letters in 0..40 {
        let (mut net, publisher) = absent(false);
        let new = come_to(&mut net, 1, "c", kept());
        for _ in 0..letters {
            let next = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
            let _ = next.into_iter().any(|(from, to)| net.deliver_between(from, to));
        }
        publish_at(&mut net, publisher, 3);
        net.go_on();
        publish_at(&mut net, publisher, 4);
        net.go_on();
        let lines = net.read(new);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters}: {lines:?}");
        assert_eq!(payloads(&lines), ["1", "2", "3", "4"], "after {letters} letters: {lines:?}");
        assert_eq!(net.shards[0].stats().sessions, 0);
        assert_eq!(net.shards[1].stats().sessions_taken, 1);
    }
}

/// A client whose session is on node 0's first shard.
fn of_first_shard(net: &mut Net, names: &[&'static str]) -> (&'static str, Peer) {
    let first = |&name: &&'static str| {
        let peer = join_at(net, 0, name, kept());
        (net.shard_of(peer) == 0).then_some((name, peer))
    };
    names.iter().find_map(first).unwrap()
}

#[test]
fn what_stands_behind_a_letter_that_waits_for_a_commit_comes_once_to_a_session_that_moves() {
    for letters in 0..40 {
        let mut net = Net::of_nodes_of(&[0..2, 2..3], true);
        (0..3).for_each(|at| net.shards[at].begin_base(net.now, &mut net.wires[at]));
        (0..3).for_each(|at| net.shards[at].end_base(net.now, &mut net.wires[at]));
        settle(&mut net);
        let (_, publisher) = of_first_shard(&mut net, &["p", "q", "r", "s", "t", "u"]);
        let sibling = ["v", "w", "x", "y", "z", "a"].map(|name| join_at(&mut net, 0, name, kept()));
        let sibling = sibling.into_iter().find(|&peer| net.shard_of(peer) == 1).unwrap();
        net.subscribe(sibling, "sibling", Q2);
        // Its session is to come to the publisher's shard.
        let (client_id, before) = of_first_shard(&mut net, &["c", "d", "e", "f", "g", "h"]);
        net.cut(before);
        let old = join_at(&mut net, 2, client_id, kept());
        net.subscribe(old, "t", Q1);
        settle(&mut net);
        net.cut(old);
        settle(&mut net);

        net.publish(publisher, "sibling", Q2, 1, "1");
        let new = come_to(&mut net, 0, client_id, kept());
        for _ in 0..letters {
            let next = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
            let _ = next.into_iter().any(|(from, to)| net.deliver_between(from, to));
        }
        net.publish(publisher, "sibling", Q2, 2, "2");
        publish_at(&mut net, publisher, 3);
        settle(&mut net);
        let lines = net.read(new);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters}: {lines:?}");
        assert_eq!(payloads(&lines), ["3"], "after {letters} letters: {lines:?}");
    }
}

#[test]
fn a_session_stays_if_the_node_that_was_to_get_it_is_lost() {
    for letters in 0..30 {
        let (mut net, publisher) = absent(false);
        come_to(&mut net, 1, "c", kept());
        for _ in 0..letters {
            let next = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
            let _ = next.into_iter().any(|(from, to)| net.deliver_between(from, to));
        }
        if net.shards[0].stats().sessions == 0 {
            // It has it.
            break;
        }
        net.lose_node(1);
        net.go_on();
        publish_at(&mut net, publisher, 3);
        net.publish(publisher, "s", Q1, 4, "4");
        net.go_on();
        let back = come_to(&mut net, 2, "c", kept());
        net.go_on();
        let lines = net.read(back);
        assert_eq!(payloads(&lines), ["1", "2", "3", "4"], "after {letters} letters: {lines:?}");
    }
}

#[test]
fn a_client_is_let_in_anew_if_the_node_that_has_its_session_is_lost() {
    let (mut net, publisher) = absent(false);
    let new = come_to(&mut net, 1, "c", kept());
    while net.shards[1].stats().sessions == 0 {
        let next = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
        assert!(next.into_iter().any(|(from, to)| net.deliver_between(from, to)));
    }
    assert!(net.read(new).is_empty(), "its CONNACK waits");
    net.lose_node(0);
    net.go_on();
    let lines = net.read(new);
    assert!(lines[0].starts_with("CONNACK Success") && !lines[0].contains("present"), "{lines:?}");
    net.subscribe(new, "t", Q1);
    net.go_on();
    publish_at(&mut net, publisher, 3);
    net.go_on();
    assert_eq!(net.read(new).last().unwrap(), "PUBLISH t q1 #1 3");
}

#[test]
fn of_two_that_come_at_once_one_stays() {
    let (mut net, _) = absent(false);
    let (one, other) = (come_to(&mut net, 1, "c", kept()), come_to(&mut net, 2, "c", kept()));
    net.go_on();
    let answers = [one, other].map(|peer| net.read(peer));
    let is_let_in = |lines: &Vec<String>| lines[0].contains("Success present");
    assert_eq!(answers.iter().filter(|lines| is_let_in(lines)).count(), 1, "{answers:?}");
    assert!(answers.iter().any(|lines| lines[0].contains("Server busy")), "{answers:?}");
    assert_eq!(net.shards.iter().map(|shard| shard.stats().sessions).sum::<u64>(), 2);
}

#[test]
fn who_has_handed_a_session_over_forgets_it_when_the_other_has_it_in_its_log() {
    let (mut net, _) = absent(true);
    let new = come_to(&mut net, 1, "c", kept());
    net.go_on();
    assert_eq!(net.shards[0].stats().sessions, 1, "it is not committed on node 1");
    assert!(net.read(new).is_empty());
    net.commit(1);
    net.go_on();
    assert_eq!(net.shards[0].stats().sessions, 0);
    assert!(net.read(new).is_empty(), "its end is not committed on node 0");
    net.commit(0);
    net.go_on();
    net.commit(1);
    assert!(net.read(new)[0].contains("Success present"));
}

#[test]
fn what_went_to_a_member_on_a_node_that_is_lost_goes_to_another() {
    let mut net = Net::of_nodes(3, false);
    let members = [0, 1].map(|node| join_at(&mut net, node, &format!("m{node}"), kept()));
    for &member in &members {
        net.subscribe(member, "$share/g/s", Q1);
    }
    net.go_on();
    members.iter().for_each(|&member| drop(net.read(member)));
    let publisher = join_at(&mut net, 2, "p", Ask::default());
    for id in 1..=10 {
        net.publish(publisher, "s", if id % 2 == 0 { Q1 } else { Q2 }, id, &id.to_string());
    }
    // Half of them are on their way to a node that does not get them.
    net.lose_node(1);
    assert!(net.read(publisher).len() < 10, "they wait for the other member");
    net.go_on();
    assert_eq!(net.read(publisher).len(), 10);
    let lines = net.read(members[0]);
    let mut payloads: Vec<u16> =
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, (1..=10).collect::<Vec<_>>());
    net.ack(members[0], PacketKind::PubAck, 1);
}

#[test]
fn a_node_that_meets_who_has_a_session_last_does_not_hold_it_up() {
    let mut net = Net::of_nodes(3, false);
    let old = join_at(&mut net, 0, "c", kept());
    net.cut(old);
    settle(&mut net);
    net.lose_node(2);
    let mut shard = Shard::of_node(ShardId(2), 2..3, Settings::default(), SEED);
    shard.set_clustered(5_000, Micros(5_000), Wall(0));
    net.shards[2] = shard;
    for (at, other) in [(0, 2), (1, 2), (2, 1)] {
        net.meet(at, other);
    }
    net.go_on();
    let back = come_to(&mut net, 1, "c", kept());
    settle(&mut net);
    assert!(net.read(back).is_empty(), "not all have switched");
    net.meet(2, 0);
    settle(&mut net);
    assert!(net.read(back).concat().starts_with("CONNACK Success present"));
}

#[test]
fn a_session_that_was_over_while_it_moved_is_chosen_by_no_group_where_it_went() {
    let (mut net, _) = absent(false);
    let member = join_at(&mut net, 2, "m", kept());
    net.subscribe(member, "$share/g/s", Q1);
    settle(&mut net);
    net.cut(member);
    let publisher = join_at(&mut net, 0, "p0", Ask::default());
    let queue_full_absent = WhenAbsent::EndSession;
    let limits = Limits { queue_messages_max: 2, queue_full_absent, ..Limits::default() };
    net.shards[0].set_limits(&limits);
    come_to(&mut net, 1, "c", kept());
    let carry = |net: &mut Net, from, to| while net.deliver_between(from, to) {};
    carry(&mut net, 1, 0);
    carry(&mut net, 0, 1);
    // One more than its queue takes where it still is.
    publish_at(&mut net, publisher, 3);
    assert_eq!(net.shards[0].stats().queue_overflows, 1);
    carry(&mut net, 0, 1);
    carry(&mut net, 1, 0);
    // Node 2 has not said yet for which of the two places it routes.
    (4..10).for_each(|id| net.publish(publisher, "s", Q1, id, &id.to_string()));
    carry(&mut net, 0, 1);
    settle(&mut net);
    let back = come_to(&mut net, 2, "m", kept());
    settle(&mut net);
    assert_eq!(payloads(&net.read(back)), ["4", "5", "6", "7", "8", "9"]);
}

#[test]
fn a_session_that_is_older_than_the_one_on_another_node_is_dropped_when_they_meet() {
    let (mut net, _) = absent(false);
    net.lose_node(0);
    // Node 0 goes on for itself, as one that comes back from its disk.
    for other in [1, 2] {
        let Net { shards, wires, now, .. } = &mut net;
        shards[0].node_lost(other..other + 1, *now, &mut wires[0]);
    }
    let new = join_at(&mut net, 1, "c", kept());
    assert_eq!(net.shards[0].stats().sessions, 1);
    for (at, other) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
        net.meet(at, other);
    }
    net.go_on();
    assert_eq!(net.shards[0].stats().sessions, 0);
    assert_eq!(net.shards[0].stats().sessions_stale, 1);
    assert!(!net.is_closed(new));
}

/// Clients with wills on node 0, each with a delay in seconds, and a subscriber to them on node 2.
fn with_wills(delays_s: &[u32]) -> (Net, Vec<Peer>, Peer) {
    let mut net = Net::of_nodes(3, false);
    let subscriber = join_at(&mut net, 2, "s", Ask::default());
    net.subscribe(subscriber, "will/#", Q1);
    net.go_on();
    net.read(subscriber);
    let clients = delays_s.iter().enumerate().map(|(at, &delay_s)| {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::WillDelayInterval(delay_s));
        let (topic, name) = (format!("will/{at}"), format!("c{at}"));
        let will = Will {
            topic: &topic,
            payload: b"gone",
            qos: Q1,
            retain: false,
            properties: properties.as_properties(),
        };
        join_at(&mut net, 0, &name, Ask { will: Some(will), ..kept() })
    });
    let clients = clients.collect();
    (net, clients, subscriber)
}

/// Topics of the wills that came.
fn wills(net: &mut Net, subscriber: Peer) -> Vec<String> {
    net.go_on();
    let lines = net.read(subscriber);
    let topic = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
    lines.iter().filter(|line| line.starts_with("PUBLISH")).map(topic).collect()
}

#[test]
fn wills_of_a_node_that_is_lost_are_sent_once_after_their_delay() {
    let (mut net, clients, subscriber) = with_wills(&[0, 0, 5, 5, 5]);
    net.disconnect(clients[1], ReasonCode::Success);
    net.go_on();
    net.lose_node(0);
    assert_eq!(wills(&mut net, subscriber), ["will/0"]);
    // Two clients come to other nodes: one goes on as it was, as far as anybody knows, and one
    // begins anew.
    join_at(&mut net, 1, "c3", kept());
    join_at(&mut net, 2, "c4", Ask::default());
    net.pass(4);
    assert_eq!(wills(&mut net, subscriber), ["will/4"]);
    net.pass(2);
    assert_eq!(wills(&mut net, subscriber), ["will/2"]);
    net.pass(100);
    assert!(wills(&mut net, subscriber).is_empty());
    assert_eq!(net.shards.iter().map(|shard| shard.stats().wills_taken).sum::<u64>(), 3);
}

#[test]
fn a_will_that_its_node_has_sent_is_sent_by_no_other_and_a_new_next_node_has_all() {
    let (mut net, clients, subscriber) = with_wills(&[0, 0, 0]);
    net.cut(clients[0]);
    assert_eq!(wills(&mut net, subscriber), ["will/0"]);
    // Node 1 has watched them; now it is node 2.
    net.lose_node(1);
    net.go_on();
    net.lose_node(0);
    let mut came = wills(&mut net, subscriber);
    came.sort();
    assert_eq!(came, ["will/1", "will/2"]);
}

#[test]
fn a_node_that_is_back_leaves_the_wills_that_others_have_sent_alone() {
    let (mut net, clients, subscriber) = with_wills(&[3, 3]);
    // Their sessions wait on node 0, with their wills.
    clients.iter().for_each(|&client| net.cut(client));
    net.go_on();
    net.lose_node(0);
    for other in [1, 2] {
        let Net { shards, wires, now, .. } = &mut net;
        shards[0].node_lost(other..other + 1, *now, &mut wires[0]);
    }
    for (at, other) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
        net.meet(at, other);
    }
    net.go_on();
    net.pass(10);
    let mut came = wills(&mut net, subscriber);
    came.sort();
    assert_eq!(came, ["will/0", "will/1"], "each once");
}

#[test]
fn a_retained_message_that_a_lost_node_has_copied_to_some_is_kept_by_all() {
    let mut net = Net::of_nodes(3, false);
    let publisher = join_at(&mut net, 0, "p", Ask::default());
    let retained = Publish { retain: true, ..message("t", QoS::AtMostOnce, 0, "kept") };
    net.publish_packet(publisher, &retained);
    while net.letters(0, 1) > 0 {
        net.deliver_between(0, 1);
    }
    net.lose_node(0);
    net.go_on();
    keep(&mut net, "PUBLISH t q0 retain kept");
}

/// Nodes 1 and 2 keep this for who subscribes to `t`.
fn keep(net: &mut Net, retained: &str) {
    for node in [1, 2] {
        let subscriber = join_at(net, node, &format!("s{node}"), Ask::default());
        net.subscribe(subscriber, "t", Q1);
        net.go_on();
        assert_eq!(net.read(subscriber), ["SUBACK [1]", retained], "{node}");
    }
}

#[test]
fn what_is_retained_after_one_that_expired_on_some_is_kept_by_all() {
    let mut net = Net::of_nodes(3, false);
    let publisher = join_at(&mut net, 0, "p", Ask { version: Version::V5, ..Ask::default() });
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiryInterval(1));
    for payload in ["a", "b", "c"] {
        let message = message("t", QoS::AtMostOnce, 0, payload);
        let properties = properties.as_properties();
        net.publish_packet(publisher, &Publish { retain: true, properties, ..message });
    }
    while net.letters(0, 1) > 0 {
        net.deliver_between(0, 1);
    }
    net.pass(2);
    net.lose_node(0);
    net.go_on();
    let publisher = join_at(&mut net, 2, "p", Ask::default());
    net.publish_packet(publisher, &Publish { retain: true, ..message("t", Q1, 1, "kept") });
    net.go_on();
    keep(&mut net, "PUBLISH t q1 #1 retain kept");
}

#[test]
fn who_claims_what_is_over_waits_until_a_crash_does_not_bring_it_back() {
    let (mut net, _) = absent(true);
    let clean = || Ask { clean: true, ..Ask::default() };
    // The first has its session ended, and is let in nowhere.
    let first = come_to(&mut net, 1, "c", clean());
    while net.deliver_between(1, 0) {}
    assert_eq!(net.shards[0].stats().sessions, 0);
    net.lose(first);
    net.lose_node(1);
    let second = come_to(&mut net, 2, "c", clean());
    net.go_on();
    assert!(net.read(second).is_empty(), "node 0 would have it again");
    net.commit(0);
    net.go_on();
    assert!(net.read(second)[0].starts_with("CONNACK Success"));
}
