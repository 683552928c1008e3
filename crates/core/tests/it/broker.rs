//! One shard, seen from its clients.

use crate::net::{Ask, Net, message};
use weir_core::{ConnKey, Limits};
use weir_wire::packet::{Publish, RetainHandling, SubscriptionOptions, Will};
use weir_wire::{PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn will(topic: &'static str) -> Will<'static> {
    Will { topic, payload: b"gone", qos: Q1, retain: false, properties: Properties::EMPTY }
}

fn kept(expiry_s: u32) -> Ask<'static> {
    Ask { clean: false, expiry_s, ..Ask::default() }
}

#[test]
fn a_message_reaches_its_subscriber_with_the_lower_qos() {
    for (granted, published, line) in [
        (Q0, Q2, "PUBLISH a/b q0 hi"),
        (Q1, Q2, "PUBLISH a/b q1 #1 hi"),
        (Q2, Q1, "PUBLISH a/b q1 #1 hi"),
    ] {
        let mut net = Net::new(1);
        let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
        net.subscribe(sub, "a/+", granted);
        assert_eq!(net.read(sub), [format!("SUBACK [{}]", granted as u8)]);
        net.publish(publ, "a/b", published, 7, "hi");
        assert_eq!(net.read(sub), [line]);
        let ack = if published == Q2 { "PUBREC #7 Success" } else { "PUBACK #7 Success" };
        assert_eq!(net.read(publ), [ack]);
    }
}

#[test]
fn a_qos_2_message_sent_twice_is_delivered_once() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "t", Q2);
    net.read(sub);
    net.publish(publ, "t", Q2, 5, "once");
    net.publish_packet(publ, &Publish { dup: true, ..message("t", Q2, 5, "once") });
    assert_eq!(net.read(publ), ["PUBREC #5 Success", "PUBREC #5 Success"]);
    net.ack(publ, PacketKind::PubRel, 5);
    assert_eq!(net.read(publ), ["PUBCOMP #5 Success"]);
    assert_eq!(net.read(sub), ["PUBLISH t q2 #1 once"]);
    net.ack(sub, PacketKind::PubRec, 1);
    assert_eq!(net.read(sub), ["PUBREL #1 Success"]);
    net.ack(sub, PacketKind::PubComp, 1);
    // Released, the identifier names a new message.
    net.publish(publ, "t", Q2, 5, "again");
    assert_eq!(net.read(sub), ["PUBLISH t q2 #2 again"]);
}

#[test]
fn a_resumed_session_gets_what_was_open_with_dup_and_then_what_waited() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let sub = net.join("sub", kept(100));
    net.subscribe(sub, "t", Q2);
    net.publish(publ, "t", Q1, 1, "one");
    net.publish(publ, "t", Q2, 2, "two");
    net.publish(publ, "t", Q2, 3, "three");
    net.read(sub);
    net.ack(sub, PacketKind::PubRec, 3);
    net.cut(sub);
    net.publish(publ, "t", Q1, 4, "four");
    net.publish(publ, "t", Q0, 0, "not kept");
    let sub = net.connect("sub", kept(100));
    let expected = [
        "CONNACK Success present",
        "PUBLISH t q1 #1 dup one",
        "PUBLISH t q2 #2 dup two",
        "PUBREL #3 Success",
        "PUBLISH t q1 #4 four",
    ];
    assert_eq!(net.read(sub), expected);
    assert_eq!(net.shards[0].stats().dropped_absent_qos0, 1);
}

#[test]
fn a_session_ends_with_its_expiry_and_its_subscriptions_with_it() {
    let mut net = Net::new(1);
    let sub = net.join("sub", kept(10));
    net.subscribe(sub, "t", Q1);
    net.cut(sub);
    net.pass(9);
    assert_eq!(net.shards[0].stats().sessions, 1);
    net.pass(2);
    assert_eq!(net.shards[0].stats().sessions, 0);
    let sub = net.connect("sub", kept(10));
    assert_eq!(net.read(sub), ["CONNACK Success"]);
    net.publish(sub, "t", Q1, 1, "x");
    assert_eq!(net.read(sub), ["PUBACK #1 No matching subscribers"]);
}

#[test]
fn a_clean_start_forgets_the_session() {
    let mut net = Net::new(1);
    let sub = net.join("sub", kept(1000));
    net.subscribe(sub, "t", Q1);
    net.cut(sub);
    let sub = net.connect("sub", Ask { version: Version::V311, ..Ask::default() });
    assert_eq!(net.read(sub), ["CONNACK Success"]);
    net.cut(sub);
    assert_eq!(net.shards[0].stats().sessions, 0);
}

#[test]
fn a_3_1_1_session_without_clean_session_is_kept() {
    let mut net = Net::new(1);
    let ask = Ask { version: Version::V311, clean: false, ..Ask::default() };
    let sub = net.join("sub", ask);
    net.subscribe(sub, "t", Q1);
    net.disconnect(sub, ReasonCode::Success);
    net.pass(1_000_000);
    let publ = net.join("pub", Ask::default());
    net.publish(publ, "t", Q1, 1, "kept");
    let sub = net.connect("sub", ask);
    assert_eq!(net.read(sub), ["CONNACK Success present", "PUBLISH t q1 #1 kept"]);
}

#[test]
fn a_takeover_ends_the_older_connection_and_keeps_the_session() {
    let mut net = Net::new(1);
    let old = net.join("c", kept(100));
    net.subscribe(old, "t", Q1);
    net.read(old);
    let new = net.connect("c", kept(100));
    assert_eq!(net.read(old), ["DISCONNECT Session taken over", "closed"]);
    assert_eq!(net.read(new), ["CONNACK Success present"]);
    net.publish(new, "t", Q0, 0, "x");
    assert_eq!(net.read(new), ["PUBLISH t q0 x"]);
    assert_eq!(net.shards[0].stats().takeovers, 1);
}

#[test]
fn a_takeover_of_a_session_that_is_not_kept_or_not_wanted_begins_a_new_one() {
    let not_kept = Ask { clean: false, ..Ask::default() };
    let not_wanted = Ask { clean: true, ..kept(100) };
    for (first, second) in [(not_kept, kept(100)), (kept(100), not_wanted)] {
        let mut net = Net::new(1);
        let old = net.join("c", first);
        net.subscribe(old, "t", Q1);
        let new = net.connect("c", second);
        assert_eq!(net.read(new), ["CONNACK Success"]);
        net.publish(new, "t", Q1, 1, "x");
        assert_eq!(net.read(new), ["PUBACK #1 No matching subscribers"]);
        assert_eq!(net.shards[0].stats().sessions, 1);
    }
}

#[test]
fn a_will_is_published_at_a_cut_and_not_at_a_normal_disconnect() {
    let mut net = Net::new(1);
    let watcher = net.join("watcher", Ask::default());
    net.subscribe(watcher, "will/#", Q1);
    net.read(watcher);
    let a = net.join("a", Ask { will: Some(will("will/a")), ..Ask::default() });
    let b = net.join("b", Ask { will: Some(will("will/b")), ..Ask::default() });
    let c = net.join("c", Ask { will: Some(will("will/c")), ..Ask::default() });
    net.disconnect(a, ReasonCode::Success);
    net.cut(b);
    net.disconnect(c, ReasonCode::DisconnectWithWill);
    assert_eq!(net.read(watcher), ["PUBLISH will/b q1 #1 gone", "PUBLISH will/c q1 #2 gone"]);
}

#[test]
fn a_delayed_will_waits_and_a_return_cancels_it() {
    let mut net = Net::new(1);
    let watcher = net.join("watcher", Ask::default());
    net.subscribe(watcher, "will/#", Q0);
    net.read(watcher);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    let will = Will { properties: properties.as_properties(), ..will("will/d") };
    let ask = Ask { will: Some(will), ..kept(100) };
    let d = net.join("d", ask);
    net.cut(d);
    net.pass(4);
    let d = net.join("d", ask);
    net.pass(4);
    assert_eq!(net.read(watcher), [""; 0]);
    net.cut(d);
    net.pass(6);
    assert_eq!(net.read(watcher), ["PUBLISH will/d q0 gone"]);
}

#[test]
fn a_delayed_will_is_due_when_a_takeover_ends_its_session() {
    let mut net = Net::new(1);
    let watcher = net.join("watcher", Ask::default());
    net.subscribe(watcher, "will/#", Q0);
    net.read(watcher);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    let will = Will { properties: properties.as_properties(), ..will("will/d") };
    // Kept, it goes on with the new connection.
    let published = &["PUBLISH will/d q0 gone"][..];
    for (expiry_s, clean, expected) in
        [(100, false, &[][..]), (100, true, published), (0, false, published)]
    {
        let ask = Ask { clean, expiry_s, ..Ask::default() };
        net.join("d", Ask { will: Some(will), ..ask });
        net.join("d", ask);
        assert_eq!(net.read(watcher), expected);
        net.pass(6);
        assert_eq!(net.read(watcher), [""; 0]);
    }
}

#[test]
fn silence_for_one_and_a_half_keep_alives_ends_the_connection() {
    let mut net = Net::new(1);
    let quiet = net.join("quiet", Ask { keep_alive_s: 10, ..Ask::default() });
    net.pass(14);
    net.send_bytes(quiet, &weir_wire::packet::PINGREQ);
    assert_eq!(net.read(quiet), ["PINGRESP"]);
    net.pass(14);
    assert_eq!(net.read(quiet), [""; 0]);
    net.pass(2);
    assert_eq!(net.read(quiet), ["DISCONNECT Keep Alive timeout", "closed"]);
}

/// Proves 5.0:MQTT-3.1.2-22.
#[test]
fn a_packet_that_trickles_in_is_silence_until_it_is_whole() {
    let mut net = Net::new(1);
    let slow = net.join("slow", Ask { keep_alive_s: 10, ..Ask::default() });
    let mut bytes = Vec::new();
    message("t", Q0, 1, "0123456789").encode(Version::V5, &mut bytes);
    for &byte in &bytes[..15] {
        net.send_bytes(slow, &[byte]);
        net.pass(1);
    }
    assert_eq!(net.read(slow), ["DISCONNECT Keep Alive timeout", "closed"]);
}

#[test]
fn a_client_is_not_silent_while_its_packets_lie_unread() {
    let mut net = Net::new(1);
    let client = net.join("c", Ask { keep_alive_s: 10, ..Ask::default() });
    let key = net.key_of(client);
    net.wires[0].unread.insert(key);
    net.pass(100);
    assert_eq!(net.read(client), [""; 0]);
    // There was nothing of it but a part of a packet.
    net.wires[0].unread.clear();
    net.pass(1);
    assert_eq!(net.read(client), ["DISCONNECT Keep Alive timeout", "closed"]);
}

#[test]
fn a_connection_without_connect_is_closed_in_time() {
    let mut net = Net::new(1);
    let mute = net.open(Version::V311);
    net.pass(11);
    assert_eq!(net.read(mute), ["closed"]);
    assert_eq!(net.shards[0].stats().connections, 0);
}

#[test]
fn a_retained_message_is_sent_at_subscribe_and_cleared_by_an_empty_one() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    for (topic, payload) in [("r/1", "one"), ("r/2", "two"), ("s", "three")] {
        net.publish_packet(publ, &Publish { retain: true, ..message(topic, Q1, 1, payload) });
    }
    let sub = net.join("sub", Ask::default());
    net.subscribe(sub, "r/#", Q0);
    assert_eq!(
        net.read(sub),
        ["SUBACK [0]", "PUBLISH r/1 q0 retain one", "PUBLISH r/2 q0 retain two"]
    );
    net.publish_packet(publ, &Publish { retain: true, ..message("r/1", Q1, 2, "") });
    assert_eq!(net.read(sub), ["PUBLISH r/1 q0 "]);
    net.subscribe(sub, "r/+", Q0);
    assert_eq!(net.read(sub), ["SUBACK [0]", "PUBLISH r/2 q0 retain two"]);
    assert_eq!(net.shards[0].stats().retained, 2);
}

#[test]
fn retain_handling_and_retain_as_published_are_kept_to() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    net.publish_packet(publ, &Publish { retain: true, ..message("r", Q0, 0, "old") });
    let sub = net.join("sub", Ask::default());
    let options = |retain_handling, retain_as_published| SubscriptionOptions {
        retain_handling,
        retain_as_published,
        ..SubscriptionOptions::default()
    };
    net.subscribe_with(sub, "r", options(RetainHandling::DontSend, true), None);
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    net.subscribe_with(sub, "r", options(RetainHandling::SendIfNew, true), None);
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    net.publish_packet(publ, &Publish { retain: true, ..message("r", Q0, 0, "new") });
    assert_eq!(net.read(sub), ["PUBLISH r q0 retain new"]);
    net.subscribe_with(sub, "r", options(RetainHandling::Send, false), None);
    assert_eq!(net.read(sub), ["SUBACK [0]", "PUBLISH r q0 retain new"]);
}

#[test]
fn wildcards_do_not_match_dollar_topics() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "#", Q0);
    net.subscribe(sub, "+/x", Q0);
    net.read(sub);
    net.publish(publ, "$test/x", Q0, 0, "hidden");
    assert_eq!(net.read(sub), [""; 0]);
    net.subscribe(sub, "$test/#", Q0);
    net.read(sub);
    net.publish(publ, "$test/x", Q0, 0, "seen");
    assert_eq!(net.read(sub), ["PUBLISH $test/x q0 seen"]);
}

#[test]
fn overlapping_subscriptions_make_one_delivery_with_the_highest_qos_and_all_identifiers() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    let options = |qos| SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    net.subscribe_with(sub, "a/#", options(Q0), Some(3));
    net.subscribe_with(sub, "a/b", options(Q1), Some(9));
    net.read(sub);
    net.publish(publ, "a/b", Q2, 1, "x");
    let lines = net.read(sub);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("PUBLISH a/b q1 #1 "), "{lines:?}");
    assert!(lines[0].contains("Identifier(3)") && lines[0].contains("Identifier(9)"), "{lines:?}");
}

#[test]
fn no_local_keeps_a_clients_own_messages_from_it() {
    let mut net = Net::new(1);
    let (one, two) = (net.join("one", Ask::default()), net.join("two", Ask::default()));
    let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::default() };
    net.subscribe_with(one, "t", options, None);
    net.subscribe_with(two, "t", options, None);
    net.read(one);
    net.read(two);
    net.publish(one, "t", Q0, 0, "x");
    assert_eq!(net.read(one), [""; 0]);
    assert_eq!(net.read(two), ["PUBLISH t q0 x"]);
}

#[test]
fn no_local_keeps_back_only_what_its_own_subscription_would_bring() {
    let mut net = Net::new(1);
    let (one, two) = (net.join("one", Ask::default()), net.join("two", Ask::default()));
    let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::default() };
    for peer in [one, two] {
        net.subscribe_with(peer, "a/+", options, Some(1));
        net.subscribe_with(peer, "+/b", options, Some(2));
        net.read(peer);
    }
    net.subscribe_with(one, "a/#", SubscriptionOptions::default(), Some(3));
    net.read(one);
    net.publish(one, "a/b", Q0, 0, "x");
    assert_eq!(net.read(one), ["PUBLISH a/b q0 SubscriptionIdentifier(3) x"]);
    let lines = net.read(two);
    assert!(lines[0].contains("Identifier(1)") && lines[0].contains("Identifier(2)"), "{lines:?}");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn a_shared_group_takes_turns_and_each_group_gets_each_message() {
    let mut net = Net::new(1);
    let members: Vec<_> = (0..3).map(|i| net.join(&format!("m{i}"), Ask::default())).collect();
    let other = net.join("other", Ask::default());
    let publ = net.join("pub", Ask::default());
    members.iter().for_each(|&member| net.subscribe(member, "$share/g/t/#", Q1));
    net.subscribe(other, "$share/h/t/#", Q1);
    members.iter().chain([&other]).for_each(|&peer| drop(net.read(peer)));
    for id in 1..=6 {
        net.publish(publ, "t/x", Q1, id, "x");
    }
    let counts: Vec<usize> = members.iter().map(|&member| net.read(member).len()).collect();
    assert_eq!(counts, [2, 2, 2]);
    assert_eq!(net.read(other).len(), 6);
    net.disconnect(members[1], ReasonCode::Success);
    net.publish(publ, "t/x", Q1, 7, "x");
    net.publish(publ, "t/x", Q1, 8, "x");
    let counts: Vec<usize> = [0, 2].map(|at| net.read(members[at]).len()).to_vec();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn the_receive_maximum_holds_messages_back_until_an_acknowledgement() {
    let mut net = Net::new(1);
    let sub = net.join("sub", Ask { receive_maximum: 2, ..Ask::default() });
    let publ = net.join("pub", Ask::default());
    net.subscribe(sub, "t", Q1);
    net.read(sub);
    for id in 1..=4 {
        net.publish(publ, "t", Q1, id, &id.to_string());
    }
    assert_eq!(net.read(sub), ["PUBLISH t q1 #1 1", "PUBLISH t q1 #2 2"]);
    net.ack(sub, PacketKind::PubAck, 2);
    assert_eq!(net.read(sub), ["PUBLISH t q1 #3 3"]);
    net.ack(sub, PacketKind::PubAck, 1);
    assert_eq!(net.read(sub), ["PUBLISH t q1 #4 4"]);
}

#[test]
fn a_full_output_drops_qos_0_with_a_count_and_keeps_qos_1_waiting() {
    let limits = Limits { output_bytes_max: 100, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let (slow, quick) = (net.join("slow", Ask::default()), net.join("quick", Ask::default()));
    net.subscribe(slow, "t", Q1);
    net.subscribe(quick, "t", Q1);
    net.read(slow);
    net.read(quick);
    net.set_stuck(slow, 100);
    net.publish(quick, "t", Q0, 0, "fits");
    assert_eq!(net.read(slow), ["PUBLISH t q0 fits"]);
    net.read(quick);
    net.set_stuck(slow, 101);
    net.publish(quick, "t", Q0, 0, "a");
    net.publish(quick, "t", Q1, 1, "b");
    assert_eq!(net.read(slow), [""; 0]);
    assert_eq!(net.read(quick), ["PUBLISH t q0 a", "PUBLISH t q1 #1 b", "PUBACK #1 Success"]);
    assert_eq!(net.shards[0].stats().dropped_output_full, 1);
    net.set_stuck(slow, 0);
    net.drained(slow);
    assert_eq!(net.read(slow), ["PUBLISH t q1 #1 b"]);
}

#[test]
fn a_client_that_reads_gets_more_than_its_output_holds_in_one_turn() {
    let limits = Limits { output_bytes_max: 100, ..Limits::default() };
    type Change = fn(&mut Net, ConnKey);
    let changes: [(Change, usize); 4] = [
        (|_, _| {}, 400),
        (|net, key| net.wires[0].reading.retain(|reading| *reading != key), 100),
        (|net, _| net.shards[0].set_lean(true), 25),
        (|net, _| net.shards[0].set_pressed(true), 100),
    ];
    for (change, bytes_max) in changes {
        let mut net = Net::with_limits(1, &limits);
        let (sub, publ) = (net.join("sub", Ask::default()), net.join("publ", Ask::default()));
        net.subscribe(sub, "t", Q1);
        net.read(sub);
        let key = net.key_of(sub);
        net.wires[0].reading.insert(key);
        change(&mut net, key);
        for bytes in [0, 25, 26, 100, 101, 400, 401] {
            net.set_stuck(sub, bytes);
            net.publish(publ, "t", Q0, 0, "x");
            assert_eq!(net.read(sub).len(), usize::from(bytes <= bytes_max), "{bytes}");
        }
    }
}

#[test]
fn a_full_queue_ends_a_connected_session_with_its_reason_and_no_other() {
    let limits = Limits { queue_messages_max: 3, in_flight_max: 1, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let slow = net.join("slow", Ask { will: Some(will("w")), ..Ask::default() });
    let quick = net.join("quick", Ask::default());
    net.subscribe(slow, "t", Q1);
    net.subscribe(quick, "w", Q0);
    net.read(slow);
    net.read(quick);
    for id in 1..=5 {
        net.publish(quick, "t", Q1, id, "x");
    }
    assert_eq!(
        net.read(slow),
        ["PUBLISH t q1 #1 x", "DISCONNECT Quota exceeded: its queue is full", "closed"]
    );
    let lines = net.read(quick);
    assert_eq!(lines.iter().filter(|line| line.starts_with("PUBACK")).count(), 5);
    assert!(lines.contains(&"PUBLISH w q0 gone".to_owned()), "the will is due: {lines:?}");
    assert_eq!(net.shards[0].stats().queue_overflows, 1);
}

#[test]
fn a_full_queue_of_an_absent_session_loses_the_oldest_and_counts_it() {
    let limits = Limits { queue_messages_max: 2, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let sub = net.join("sub", kept(100));
    let publ = net.join("pub", Ask::default());
    net.subscribe(sub, "t", Q1);
    net.cut(sub);
    for id in 1..=4 {
        net.publish(publ, "t", Q1, id, &id.to_string());
    }
    let sub = net.connect("sub", kept(100));
    assert_eq!(
        net.read(sub),
        ["CONNACK Success present", "PUBLISH t q1 #1 3", "PUBLISH t q1 #2 4"]
    );
    assert_eq!(net.shards[0].stats().dropped_queue_full, 2);
}

#[test]
fn a_message_expires_in_the_queue_and_is_counted_down() {
    let mut net = Net::new(1);
    let sub = net.join("sub", kept(1000));
    let publ = net.join("pub", Ask::default());
    net.subscribe(sub, "t", Q1);
    net.cut(sub);
    for (id, seconds) in [(1, 5), (2, 50)] {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::MessageExpiryInterval(seconds));
        let properties = properties.as_properties();
        net.publish_packet(publ, &Publish { properties, ..message("t", Q1, id, "x") });
    }
    net.pass(10);
    let sub = net.connect("sub", kept(1000));
    assert_eq!(
        net.read(sub),
        ["CONNACK Success present", "PUBLISH t q1 #1 MessageExpiryInterval(40) x"]
    );
    assert_eq!(net.shards[0].stats().dropped_expired, 1);
}

#[test]
fn properties_are_passed_on_in_order_and_not_to_older_clients() {
    let mut net = Net::new(1);
    let new = net.join("new", Ask::default());
    let old = net.join("old", Ask { version: Version::V311, ..Ask::default() });
    net.subscribe(new, "t", Q0);
    net.subscribe(old, "t", Q0);
    net.read(new);
    net.read(old);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::UserProperty("b", "1"));
    properties.push(Property::ContentType("text"));
    properties.push(Property::UserProperty("a", "2"));
    let properties = properties.as_properties();
    net.publish_packet(new, &Publish { properties, ..message("t", Q0, 0, "x") });
    let expected = "PUBLISH t q0 UserProperty(\"b\", \"1\") ContentType(\"text\") \
                    UserProperty(\"a\", \"2\") x";
    assert_eq!(net.read(new), [expected]);
    assert_eq!(net.read(old), ["PUBLISH t q0 x"]);
}

#[test]
fn a_topic_alias_stands_for_its_topic_and_a_wrong_one_ends_the_connection() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "long/topic", Q0);
    net.read(sub);
    let mut alias = PropertiesBuf::new();
    alias.push(Property::TopicAlias(1));
    let properties = alias.as_properties();
    net.publish_packet(publ, &Publish { properties, ..message("long/topic", Q0, 0, "a") });
    net.publish_packet(publ, &Publish { properties, ..message("", Q0, 0, "b") });
    assert_eq!(net.read(sub), ["PUBLISH long/topic q0 a", "PUBLISH long/topic q0 b"]);
    let mut high = PropertiesBuf::new();
    high.push(Property::TopicAlias(17));
    let properties = high.as_properties();
    net.publish_packet(publ, &Publish { properties, ..message("t", Q0, 0, "c") });
    assert_eq!(net.read(publ), ["DISCONNECT Topic Alias invalid", "closed"]);
}

#[test]
fn a_packet_over_the_clients_maximum_is_not_sent_to_it() {
    let mut net = Net::new(1);
    let small = net.join("small", Ask { packet_bytes_max: 20, ..Ask::default() });
    let publ = net.join("pub", Ask::default());
    net.subscribe(small, "t", Q1);
    net.read(small);
    // Twenty bytes, less six and a packet identifier.
    for (qos, fits, expected) in
        [(Q0, "01234567890123", "PUBLISH t q0 "), (Q1, "012345678901", "PUBLISH t q1 #1 ")]
    {
        net.publish(publ, "t", qos, 1, &format!("{fits}!"));
        net.publish(publ, "t", qos, 2, fits);
        assert_eq!(net.read(small), [format!("{expected}{fits}")]);
    }
    assert_eq!(net.shards[0].stats().dropped_too_large, 2);
}

#[test]
fn malformed_bytes_end_their_connection_and_no_other() {
    let mut net = Net::new(1);
    let (bad, good) = (net.join("bad", Ask::default()), net.join("good", Ask::default()));
    net.send_bytes(bad, &[0x36, 0x02, 0x00, 0x00]);
    assert_eq!(net.read(bad), ["DISCONNECT Malformed Packet: QoS 3", "closed"]);
    net.send_bytes(good, &weir_wire::packet::PINGREQ);
    assert_eq!(net.read(good), ["PINGRESP"]);
    assert_eq!(net.shards[0].stats().connections_ended, 1);
}

#[test]
fn what_is_not_connect_comes_first_and_is_closed() {
    let mut net = Net::new(1);
    let stranger = net.open(Version::V311);
    net.send_bytes(stranger, b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(net.read(stranger), ["closed"]);
    assert_eq!(net.shards[0].stats().connections_ended, 1);
}

#[test]
fn a_malformed_connect_is_answered_only_where_it_says_5() {
    // A reserved flag is set.
    for (version, level, answer) in [
        (Version::V5, 5, &["CONNACK Malformed Packet", "closed"][..]),
        (Version::V311, 4, &["closed"]),
    ] {
        let mut net = Net::new(1);
        let peer = net.open(version);
        net.send_bytes(peer, &[0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', level, 3, 0, 0, 0, 0]);
        assert_eq!(net.read(peer), answer);
    }
}

#[test]
fn an_empty_client_identifier_is_assigned_or_refused() {
    let mut net = Net::new(1);
    net.join("", Ask::default());
    net.join("", Ask { version: Version::V311, ..Ask::default() });
    let refused = net.connect("", Ask { version: Version::V311, clean: false, ..Ask::default() });
    assert_eq!(net.read(refused), ["CONNACK Client Identifier not valid", "closed"]);
}

#[test]
fn invalid_filters_are_refused_one_by_one_and_unsubscribe_says_what_was_there() {
    let mut net = Net::new(1);
    let sub = net.join("sub", Ask::default());
    net.subscribe(sub, "a/#/b", Q0);
    assert_eq!(net.read(sub), [format!("SUBACK [{}]", ReasonCode::TopicFilterInvalid as u8)]);
    net.subscribe(sub, "a/b", Q0);
    net.unsubscribe(sub, "a/b");
    net.unsubscribe(sub, "a/b");
    assert_eq!(net.read(sub), ["SUBACK [0]", "UNSUBACK [0]", "UNSUBACK [17]"]);
}

#[test]
fn a_stop_tells_every_client() {
    let mut net = Net::new(1);
    let will = Some(Will { retain: true, ..will("w") });
    let new = net.join("new", Ask { will, ..Ask::default() });
    let old = net.join("old", Ask { version: Version::V311, ..Ask::default() });
    let now = net.now;
    net.shards[0].stop(now, &mut net.wires[0]);
    assert_eq!(net.read(new), ["DISCONNECT Server shutting down", "closed"]);
    assert_eq!(net.read(old), ["closed"]);
    // No will is due, now or when the shell says that the connections are closed.
    net.cut(old);
    assert_eq!(net.shards[0].stats().retained, 0);
}

#[test]
fn a_second_connect_is_a_protocol_error_whatever_it_says() {
    for second in [
        &b"\x10\x0D\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00"[..],
        b"\x10\x0C\x00\x04MQTX\x05\x02\x00\x00\x00\x00",
        b"\x10\x00",
    ] {
        let mut net = Net::new(1);
        let peer = net.join("c", Ask::default());
        net.send_bytes(peer, second);
        let expected = ["DISCONNECT Protocol Error: a second CONNECT", "closed"];
        assert_eq!(net.read(peer), expected, "{second:02x?}");
    }
}
