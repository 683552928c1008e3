//! Every bound: what happens at it, and what is counted.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, clippy::allow_attributes)]
#![allow(clippy::allow_attributes_without_reason)]

mod net;

use net::{Ask, Net, message};
use weir_core::{Limits, Stats, WhenAbsent, WhenConnected};
use weir_wire::packet::Publish;
use weir_wire::{PacketKind, PropertiesBuf, Property, QoS, ReasonCode, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 100, ..Ask::default() }
}

fn stats(net: &Net) -> Stats {
    net.shards[0].stats()
}

#[test]
fn a_topic_too_long_or_too_deep_is_refused_and_the_connection_goes_on() {
    let limits = Limits { topic_bytes_max: 10, topic_levels_max: 3, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let peer = net.join("c", Ask::default());
    for (topic, why) in [
        ("a/b/c", None),
        ("0123456789", None),
        ("01234567890", Some("the topic name is too long")),
        ("a/b/c/d", Some("too many topic levels")),
    ] {
        net.publish(peer, topic, Q1, 1, "x");
        let answer = match why {
            None => "PUBACK #1 No matching subscribers".to_owned(),
            Some(why) => format!("PUBACK #1 Topic Name invalid: {why}"),
        };
        assert_eq!(net.read(peer), [answer], "{topic}");
    }
    for (filter, code) in
        [("a/b/+", 0), ("a/b/c/#", 0x8F), ("0123456789#", 0x8F), ("01234567/+/#", 0x8F)]
    {
        net.subscribe(peer, filter, Q0);
        assert_eq!(net.read(peer), [format!("SUBACK [{code}]")], "{filter}");
    }
    assert_eq!((stats(&net).publishes_refused, stats(&net).subscriptions_refused), (2, 3));
    // QoS 0 and older versions have no answer for it.
    net.publish(peer, "a/b/c/d", Q0, 0, "x");
    let expected = ["DISCONNECT Topic Name invalid: too many topic levels", "closed"];
    assert_eq!(net.read(peer), expected);
    let older = net.join("d", Ask { version: Version::V311, ..Ask::default() });
    net.publish(older, "a/b/c/d", Q1, 1, "x");
    assert_eq!(net.read(older), ["closed"]);
}

#[test]
fn a_connection_over_a_bound_of_the_shell_is_told_why_at_its_connect() {
    let mut net = Net::new(1);
    for (version, answer) in [
        (Version::V5, "CONNACK Connection rate exceeded: a bound on connections is reached"),
        (Version::V311, "CONNACK Server unavailable"),
    ] {
        let peer = net.open_refused(version, ReasonCode::ConnectionRateExceeded);
        net.say_connect(peer, "c", Ask { version, ..Ask::default() });
        assert_eq!(net.read(peer), [answer, "closed"]);
    }
    assert_eq!((stats(&net).connections_refused, stats(&net).connections), (2, 0));
}

#[test]
fn a_topic_alias_over_the_bound_ends_the_connection() {
    let limits = Limits { topic_alias_maximum: 2, ..Limits::default() };
    for alias in [0, 3] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.join("c", Ask::default());
        let mut properties = PropertiesBuf::new();
        properties.push(Property::TopicAlias(alias));
        let properties = properties.as_properties();
        net.publish_packet(peer, &Publish { properties, ..message("t", Q0, 0, "x") });
        assert_eq!(net.read(peer), ["DISCONNECT Topic Alias invalid", "closed"]);
    }
}

#[test]
fn a_full_queue_refuses_the_publisher_where_that_is_set() {
    let limits = Limits {
        queue_messages_max: 2,
        queue_full_connected: WhenConnected::RefusePublisher,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    let narrow = net.join("narrow", Ask { receive_maximum: 1, ..Ask::default() });
    let absent = net.join("absent", kept());
    net.subscribe(narrow, "n", Q1);
    net.subscribe(absent, "a", Q1);
    net.cut(absent);
    for (topic, taken) in [("n", 3), ("a", 2)] {
        for id in 1..=4 {
            net.publish(publ, topic, Q1, id, "x");
            let answer = if id <= taken {
                format!("PUBACK #{id} Success")
            } else {
                format!("PUBACK #{id} Quota exceeded: a subscriber's queue is full")
            };
            assert_eq!(net.read(publ), [answer], "{topic}");
        }
    }
    // An acknowledgement makes room.
    net.ack(narrow, PacketKind::PubAck, 1);
    net.publish(publ, "n", Q1, 9, "x");
    assert_eq!(net.read(publ), ["PUBACK #9 Success"]);
    assert_eq!((stats(&net).publishes_refused, stats(&net).dropped_queue_full), (3, 0));
    let older = net.join("older", Ask { version: Version::V311, ..Ask::default() });
    net.publish(older, "a", Q1, 1, "x");
    assert_eq!(net.read(older), ["closed"]);
}

#[test]
fn a_refused_qos_2_message_is_new_when_its_older_publisher_sends_it_again() {
    let limits = Limits {
        queue_messages_max: 1,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    };
    let mut net = Net::with_limits(1, &limits);
    let absent = net.join("absent", kept());
    net.subscribe(absent, "a", Q1);
    net.cut(absent);
    let older = Ask { version: Version::V311, clean: false, ..Ask::default() };
    let publ = net.join("pub", older);
    net.publish(publ, "a", QoS::ExactlyOnce, 1, "first");
    net.publish(publ, "a", QoS::ExactlyOnce, 2, "second");
    assert_eq!(net.read(publ), ["PUBREC #1 Success", "closed"]);
    let absent = net.join("absent", Ask { clean: false, ..kept() });
    net.ack(absent, PacketKind::PubAck, 1);
    let publ = net.join("pub", older);
    net.publish_packet(publ, &Publish { dup: true, ..message("a", QoS::ExactlyOnce, 2, "second") });
    assert_eq!(net.read(publ), ["PUBREC #2 Success"]);
    assert_eq!(net.read(absent), ["PUBLISH a q1 #2 second"]);
}

#[test]
fn a_refused_qos_2_message_is_new_when_its_refusal_was_never_sent() {
    let limits = Limits {
        queue_messages_max: 1,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    };
    let mut net = Net::with_limits(2, &limits);
    let names = net.names();
    // A name of the other shard's is a topic of the other shard's as well.
    let (publisher, absent, elsewhere) = (&names[0][0], &names[0][1], &names[1][0]);
    let sub = net.join(absent, kept());
    net.subscribe(sub, "a", Q1);
    net.deliver_mail();
    net.cut(sub);
    let publ = net.join(publisher, kept());
    net.publish(publ, "a", QoS::ExactlyOnce, 1, "first");
    // The refusal waits behind an acknowledgement that the other shard has to allow.
    let retained = Publish { retain: true, ..message(elsewhere, Q1, 2, "x") };
    net.publish_packet(publ, &retained);
    net.publish(publ, "a", QoS::ExactlyOnce, 3, "second");
    assert_eq!(net.read(publ), ["PUBREC #1 Success"]);
    net.cut(publ);
    let sub = net.join(absent, kept());
    net.ack(sub, PacketKind::PubAck, 1);
    let publ = net.join(publisher, kept());
    net.publish_packet(publ, &Publish { dup: true, ..message("a", QoS::ExactlyOnce, 3, "second") });
    assert_eq!(net.read(publ), ["PUBREC #3 Success"]);
    assert_eq!(net.read(sub), ["PUBLISH a q1 #2 second"]);
}

#[test]
fn what_a_resumed_client_takes_no_more_is_dropped_instead_of_sent_again() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let sub = net.join("sub", kept());
    net.subscribe(sub, "a", QoS::ExactlyOnce);
    let long = "x".repeat(100);
    for (id, payload) in [(1, "first"), (2, &long), (3, &long), (4, "last")] {
        let qos = if id == 2 { Q1 } else { QoS::ExactlyOnce };
        net.publish(publ, "a", qos, id, payload);
    }
    net.cut(sub);
    let narrow = Ask { clean: false, packet_bytes_max: 60, receive_maximum: 1, ..kept() };
    let sub = net.connect("sub", narrow);
    assert_eq!(net.read(sub), ["CONNACK Success present", "PUBLISH a q2 #1 dup first"]);
    net.ack(sub, PacketKind::PubRec, 1);
    net.ack(sub, PacketKind::PubComp, 1);
    assert_eq!(net.read(sub), ["PUBREL #1 Success", "PUBLISH a q2 #4 dup last"]);
    assert_eq!(stats(&net).dropped_too_large, 2);
    net.ack(sub, PacketKind::PubRec, 4);
    net.ack(sub, PacketKind::PubComp, 4);
    net.publish(publ, "a", Q1, 5, "new");
    assert_eq!(net.read(sub), ["PUBREL #4 Success", "PUBLISH a q1 #5 new"]);
}

#[test]
fn the_full_queue_of_an_absent_session_ends_it_where_that_is_set() {
    let limits = Limits {
        queue_messages_max: 2,
        queue_full_absent: WhenAbsent::EndSession,
        ..Limits::default()
    };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    let absent = net.join("absent", kept());
    net.subscribe(absent, "a", Q1);
    net.cut(absent);
    for id in 1..=4 {
        net.publish(publ, "a", Q1, id, "x");
    }
    assert_eq!((stats(&net).sessions, stats(&net).queue_overflows), (1, 1));
    assert_eq!(net.read(publ).last().unwrap(), "PUBACK #4 No matching subscribers");
    let notices = net.wires[0].notices.join("\n");
    assert!(notices.contains("SessionEnded") && notices.contains("absent"), "{notices}");
}

#[test]
fn under_pressure_nothing_is_taken_that_has_to_be_kept() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let live = net.join("live", Ask::default());
    let absent = net.join("absent", kept());
    net.subscribe(live, "live/#", Q1);
    net.subscribe(absent, "absent/#", Q1);
    net.cut(absent);
    net.shards[0].set_pressed(true);
    net.read(live);

    let full = "the memory ceiling is reached";
    net.publish(publ, "absent/a", Q1, 1, "x");
    assert_eq!(net.read(publ), [format!("PUBACK #1 Quota exceeded: {full}")]);
    net.publish_packet(publ, &Publish { retain: true, ..message("live/r", Q1, 2, "x") });
    assert_eq!(net.read(publ), ["PUBACK #2 Quota exceeded: the retained store is full"]);
    net.subscribe(live, "more", Q1);
    assert_eq!(net.read(live), ["SUBACK [151]"]);
    let new = net.connect("new", Ask::default());
    assert_eq!(net.read(new), [format!("CONNACK Quota exceeded: {full}"), "closed".into()]);

    // What can be passed on is, and who was there may come back for what waits.
    net.publish(publ, "live/a", Q1, 3, "x");
    assert_eq!(net.read(publ), ["PUBACK #3 Success"]);
    assert_eq!(net.read(live), ["PUBLISH live/a q1 #1 x"]);
    let absent = net.connect("absent", kept());
    assert_eq!(net.read(absent), ["CONNACK Success present"]);

    net.shards[0].set_pressed(false);
    let new = net.connect("new", Ask::default());
    assert_eq!(net.read(new), ["CONNACK Success"]);
    assert_eq!(stats(&net).dropped_queue_full, 0);
}

#[test]
fn under_pressure_a_retained_message_may_still_be_cleared_or_shrink() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let retained = |payload| Publish { retain: true, ..message("t", Q1, 1, payload) };
    net.publish_packet(publ, &retained("long"));
    net.shards[0].set_pressed(true);
    net.read(publ);
    net.publish_packet(publ, &retained("tiny"));
    net.publish_packet(publ, &retained("longer"));
    net.publish_packet(publ, &retained(""));
    let answers = net.read(publ);
    assert!(!answers[0].contains("Quota") && answers[1].contains("Quota"), "{answers:?}");
    assert!(!answers[2].contains("Quota") && stats(&net).retained == 0, "{answers:?}");
}

#[test]
fn under_pressure_a_large_packet_is_not_awaited() {
    let mut net = Net::new(1);
    let peer = net.join("c", Ask::default());
    let mut start = vec![0x30, 0x80, 0x80, 0x20, 0, 1, b't', 0];
    start.resize(20_000, 0);
    net.send_bytes(peer, &start);
    assert_eq!(net.read(peer), [""; 0]);
    net.shards[0].set_pressed(true);
    net.send_bytes(peer, &start);
    assert!(net.read(peer)[0].starts_with("DISCONNECT Quota exceeded"));
    assert_eq!(stats(&net).connections, 0);
}

#[test]
fn under_pressure_a_slow_readers_output_is_bounded_closely() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "t", Q1);
    net.set_stuck(sub, 100_000);
    net.publish(publ, "t", Q0, 0, "fits");
    net.shards[0].set_pressed(true);
    net.publish(publ, "t", Q0, 0, "dropped");
    net.publish(publ, "t", Q1, 1, "refused");
    assert_eq!(net.read(sub), ["SUBACK [1]", "PUBLISH t q0 fits"]);
    assert!(net.read(publ)[0].contains("Quota exceeded"));
    assert_eq!(stats(&net).dropped_output_full, 1);
}

#[test]
fn counters_of_connections_balance() {
    let mut net = Net::new(1);
    let peers: Vec<_> = (0..5).map(|at| net.join(&format!("c{at}"), kept())).collect();
    net.cut(peers[0]);
    net.disconnect(peers[1], ReasonCode::Success);
    assert_eq!((stats(&net).connections, stats(&net).sessions), (3, 5));
    net.pass(101);
    assert_eq!((stats(&net).connections, stats(&net).sessions), (3, 3));
}
