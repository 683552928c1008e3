//! Every bound: what happens at it, and what is counted.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Stats, WhenAbsent, WhenConnected};
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf};
use weir_wire::{
    Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 100, ..Ask::default() }
}

/// A kept session that takes one message at a time.
fn narrow() -> Ask<'static> {
    Ask { receive_maximum: 1, ..kept() }
}

/// A publisher, and such a session that is subscribed to `t` and may have three messages waiting.
fn slow_subscriber() -> (Net, Peer, Peer) {
    let limits = Limits { queue_messages_max: 3, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    let slow = net.join("slow", narrow());
    net.subscribe(slow, "t", Q1);
    (net, publ, slow)
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
    let by_reason = [ReasonCode::TopicNameInvalid, ReasonCode::TopicFilterInvalid]
        .map(|reason| stats(&net).refusals.count(reason));
    assert_eq!(by_reason, [4, 3], "each refusal once, with its end or its answer");
}

#[test]
fn who_comes_back_to_a_full_queue_may_catch_up() {
    let (mut net, publ, slow) = slow_subscriber();
    net.cut(slow);
    for id in 1..=5 {
        net.publish(publ, "t", Q1, id, &id.to_string());
    }
    let slow = net.connect("slow", narrow());
    assert_eq!(net.read(slow), ["CONNACK Success present", "PUBLISH t q1 #1 3"]);
    // One has left the queue; with these it is over its bound by one.
    for id in 6..=7 {
        net.publish(publ, "t", Q1, id, &id.to_string());
    }
    for (id, payload) in [(1, "5"), (2, "6"), (3, "7")] {
        net.ack(slow, PacketKind::PubAck, id);
        assert_eq!(net.read(slow), [format!("PUBLISH t q1 #{} {payload}", id + 1)]);
    }
    assert_eq!((stats(&net).dropped_queue_full, stats(&net).queue_overflows), (3, 0));
    // It has caught up: from now on it is as slow as it likes to be.
    for id in 8..=11 {
        net.publish(publ, "t", Q1, id, "x");
    }
    assert_eq!(net.read(slow), ["DISCONNECT Quota exceeded: its queue is full", "closed"]);
    assert_eq!((stats(&net).dropped_queue_full, stats(&net).queue_overflows), (4, 1));
}

/// Otherwise a client that is subscribed to what it publishes, and comes back to a full queue,
/// never gets to empty it: its own PUBLISH ends each connection.
#[test]
fn who_comes_back_to_a_full_queue_that_refuses_is_refused_and_catches_up() {
    let limits = Limits {
        queue_messages_max: 3,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    let slow = net.join("slow", narrow());
    net.subscribe(slow, "t", Q1);
    net.cut(slow);
    for id in 1..=3 {
        net.publish(publ, "t", Q1, id, &id.to_string());
    }
    let slow = net.connect("slow", narrow());
    assert_eq!(net.read(slow), ["CONNACK Success present", "PUBLISH t q1 #1 1"]);
    net.publish(slow, "t", Q1, 1, "own");
    net.publish(slow, "t", Q1, 2, "own");
    let full = "PUBACK #2 Quota exceeded: a subscriber's queue is full";
    assert_eq!(net.read(slow), ["PUBACK #1 Success", full]);
    for (id, payload) in [(1, "2"), (2, "3"), (3, "own")] {
        net.ack(slow, PacketKind::PubAck, id);
        assert_eq!(net.read(slow), [format!("PUBLISH t q1 #{} {payload}", id + 1)]);
    }
    assert_eq!((stats(&net).dropped_queue_full, stats(&net).queue_overflows), (0, 0));
}

#[test]
fn a_queue_that_runs_over_many_times_in_one_input_ends_the_connection_only() {
    let (mut net, publ, slow) = slow_subscriber();
    net.read(slow);
    let mut bytes = Vec::new();
    for id in 1..=9 {
        message("t", Q1, id, &id.to_string()).encode(Version::V5, &mut bytes);
    }
    net.send_bytes(publ, &bytes);
    let lines = net.read(slow);
    let end = ["PUBLISH t q1 #1 1", "DISCONNECT Quota exceeded: its queue is full", "closed"];
    assert_eq!(lines, end);
    assert_eq!((stats(&net).queue_overflows, stats(&net).sessions), (1, 2));
    let slow = net.connect("slow", narrow());
    assert_eq!(net.read(slow)[0], "CONNACK Success present", "nothing of it is lost but messages");
}

/// Proves 5.0:MQTT-3.1.3-8. Proves 3.1.1:MQTT-3.1.3-9.
#[test]
fn a_client_identifier_too_long_is_refused() {
    let limits = Limits { client_id_bytes_max: 4, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let fits = net.connect("four", Ask::default());
    assert_eq!(net.read(fits), ["CONNACK Success"]);
    for version in [Version::V5, Version::V311] {
        let peer = net.connect("fiver", Ask { version, ..Ask::default() });
        let lines = net.read(peer);
        assert!(lines[0].starts_with("CONNACK Client Identifier not valid"), "{lines:?}");
        assert_eq!(lines[1..], ["closed"]);
    }
    assert_eq!(stats(&net).sessions, 1);
}

/// Proves 5.0:MQTT-4.3.3-9.
#[test]
fn the_identifier_of_a_message_refused_at_pubrec_is_free() {
    let limits = Limits { topic_bytes_max: 4, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let sub = net.join("sub", Ask::default());
    net.subscribe(sub, "ok", Q0);
    net.read(sub);
    let publ = net.join("pub", Ask::default());
    net.publish(publ, "too/long", Q2, 1, "x");
    let refused = net.read(publ);
    assert!(refused[0].starts_with("PUBREC #1 Topic Name invalid"), "{refused:?}");
    net.publish(publ, "ok", Q2, 1, "new");
    assert_eq!(net.read(publ), ["PUBREC #1 Success"]);
    assert_eq!(net.read(sub), ["PUBLISH ok q0 new"]);
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
    for (alias, is_taken) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.join("c", Ask::default());
        let mut properties = PropertiesBuf::new();
        properties.push(Property::TopicAlias(alias));
        let properties = properties.as_properties();
        net.publish_packet(peer, &Publish { properties, ..message("t", Q0, 0, "x") });
        let end = ["DISCONNECT Topic Alias invalid", "closed"];
        assert_eq!(net.read(peer), if is_taken { &[][..] } else { &end }, "{alias}");
    }
}

#[test]
fn more_qos_2_messages_than_the_receive_maximum_end_the_connection() {
    let limits = Limits { receive_maximum: 2, ..Limits::default() };
    for version in [Version::V5, Version::V311] {
        let mut net = Net::with_limits(1, &limits);
        let sub = net.join("sub", Ask::default());
        let publ = net.join("pub", Ask { version, ..Ask::default() });
        net.subscribe(sub, "t", Q0);
        (1..=3).for_each(|id| net.publish(publ, "t", QoS::ExactlyOnce, id, "x"));
        let answers = net.read(publ);
        assert_eq!(answers[..2], ["PUBREC #1 Success", "PUBREC #2 Success"]);
        // Older clients are told no maximum.
        let third = match version {
            Version::V5 => &["DISCONNECT Receive Maximum exceeded", "closed"][..],
            _ => &["PUBREC #3 Success"],
        };
        assert_eq!(answers[2..], *third);
    }
    // One that is released makes room; one sent again takes none.
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    for id in [1, 2, 2, 1] {
        net.publish(publ, "t", QoS::ExactlyOnce, id, "x");
    }
    net.ack(publ, PacketKind::PubRel, 1);
    net.publish(publ, "t", QoS::ExactlyOnce, 3, "x");
    let last = net.read(publ).pop();
    assert_eq!(last.as_deref(), Some("PUBREC #3 No matching subscribers"));
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

/// A full queue of one message refuses the publisher.
fn refusing() -> Limits {
    Limits {
        queue_messages_max: 1,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    }
}

/// An absent subscriber to `a` that takes one message, on the shard of a publisher: the names of
/// both, and that of a topic of the other shard.
fn one_that_waits() -> (Net, [String; 3]) {
    let mut net = Net::with_limits(2, &refusing());
    let names = net.names();
    // A name of the other shard's is a topic of the other shard's as well.
    let of = |shard: usize, at: usize| names[shard][at].clone();
    let [publisher, absent, elsewhere] = [of(0, 0), of(0, 1), of(1, 0)];
    let sub = net.join(&absent, kept());
    net.subscribe(sub, "a", Q1);
    net.deliver_mail();
    net.cut(sub);
    (net, [publisher, absent, elsewhere])
}

#[test]
fn an_older_publisher_gets_its_answers_before_a_refusal_ends_its_connection() {
    for (makes_room, last) in [(false, "closed"), (true, "PUBACK #3 Success")] {
        let (mut net, [publisher, absent, elsewhere]) = one_that_waits();
        let older = Ask { version: Version::V311, clean: false, ..Ask::default() };
        let publ = net.join(&publisher, older);
        net.publish(publ, "a", Q1, 1, "first");
        // The other shard has to allow it.
        net.publish_packet(publ, &Publish { retain: true, ..message(&elsewhere, Q1, 2, "x") });
        net.publish(publ, "a", Q1, 3, "second");
        net.publish(publ, "b", QoS::AtMostOnce, 0, "behind it");
        assert_eq!(net.read(publ), ["PUBACK #1 Success"]);
        assert!(net.left(publ) > 0 && stats(&net).publishes_in == 2);
        if makes_room {
            let sub = net.join(&absent, kept());
            net.ack(sub, PacketKind::PubAck, 1);
        }
        net.deliver_mail();
        assert_eq!(net.read(publ), ["PUBACK #2 Success", last]);
        let (publishes_in, publishes_refused) = if makes_room { (4, 0) } else { (3, 1) };
        let now = stats(&net);
        assert_eq!((now.publishes_in, now.publishes_refused), (publishes_in, publishes_refused));
    }
}

#[test]
fn a_refused_qos_2_message_is_new_when_its_older_publisher_sends_it_again() {
    let mut net = Net::with_limits(1, &refusing());
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
    let (mut net, [publisher, absent, elsewhere]) = one_that_waits();
    let publ = net.join(&publisher, kept());
    net.publish(publ, "a", QoS::ExactlyOnce, 1, "first");
    // The refusal waits behind an acknowledgement that the other shard has to allow.
    let retained = Publish { retain: true, ..message(&elsewhere, Q1, 2, "x") };
    net.publish_packet(publ, &retained);
    net.publish(publ, "a", QoS::ExactlyOnce, 3, "second");
    assert_eq!(net.read(publ), ["PUBREC #1 Success"]);
    net.cut(publ);
    let sub = net.join(&absent, kept());
    net.ack(sub, PacketKind::PubAck, 1);
    let publ = net.join(&publisher, kept());
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
fn a_full_queue_refuses_the_publisher_only_for_the_sessions_that_it_is_set_for() {
    for refuses_connected in [true, false] {
        let (queue_full_connected, queue_full_absent) = if refuses_connected {
            (WhenConnected::RefusePublisher, WhenAbsent::DropOldest)
        } else {
            (WhenConnected::EndConnection, WhenAbsent::RefusePublisher)
        };
        let limits = Limits {
            queue_messages_max: 1,
            queue_full_connected,
            queue_full_absent,
            ..Limits::default()
        };
        let mut net = Net::with_limits(1, &limits);
        let publ = net.join("pub", Ask::default());
        let stuck = net.join("stuck", Ask::default());
        let absent = net.join("absent", kept());
        net.subscribe(stuck, "s", Q1);
        net.subscribe(absent, "a", Q1);
        net.set_stuck(stuck, usize::MAX);
        net.cut(absent);
        for (topic, is_refused) in [("s", refuses_connected), ("a", !refuses_connected)] {
            net.publish(publ, topic, Q1, 1, "x");
            net.publish(publ, topic, Q1, 2, "x");
            let lines = net.read(publ);
            assert_eq!(lines[1].contains("Quota exceeded"), is_refused, "{topic} {lines:?}");
        }
        // The connection's end drops a message as well.
        let Stats { dropped_queue_full, queue_overflows, publishes_refused, .. } = stats(&net);
        let overflows = u64::from(!refuses_connected);
        assert_eq!((dropped_queue_full, queue_overflows, publishes_refused), (1, overflows, 1));
    }
}

#[test]
fn a_message_that_would_overfill_a_queue_by_its_bytes_is_refused_where_that_is_set() {
    // Eleven bytes each: the bound is met, or missed by one.
    for (queue_bytes_max, taken) in [(10, 0), (11, 1), (21, 1), (22, 2), (32, 2), (33, 3)] {
        let limits = Limits {
            queue_bytes_max,
            queue_full_connected: WhenConnected::RefusePublisher,
            queue_full_absent: WhenAbsent::RefusePublisher,
            ..Limits::default()
        };
        let mut net = Net::with_limits(1, &limits);
        let publ = net.join("pub", Ask::default());
        let stuck = net.join("stuck", Ask::default());
        let absent = net.join("absent", kept());
        net.subscribe(stuck, "s", Q1);
        net.subscribe(absent, "a", Q1);
        net.set_stuck(stuck, usize::MAX);
        net.cut(absent);
        for topic in ["s", "a"] {
            for id in 1..=4 {
                net.publish(publ, topic, Q1, id, "0123456789");
                let is_taken = net.read(publ) == [format!("PUBACK #{id} Success")];
                assert_eq!(is_taken, id <= taken, "{topic} {id} of {queue_bytes_max}");
            }
        }
        assert_eq!((stats(&net).dropped_queue_full, stats(&net).queue_overflows), (0, 0));
    }
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
fn under_pressure_a_group_takes_what_one_of_its_members_can() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let (live, absent) = (net.join("live", Ask::default()), net.join("absent", kept()));
    for member in [live, absent] {
        net.subscribe(member, "$share/g/t", Q1);
        net.read(member);
    }
    net.cut(absent);
    net.shards[0].set_pressed(true);
    net.publish(publ, "t", Q1, 1, "x");
    assert_eq!(net.read(publ), ["PUBACK #1 Success"]);
    assert_eq!(net.read(live), ["PUBLISH t q1 #1 x"]);
    net.set_stuck(live, usize::MAX);
    net.publish(publ, "t", Q1, 2, "x");
    let full = "PUBACK #2 Quota exceeded: the memory ceiling is reached";
    assert_eq!(net.read(publ), [full]);
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
fn under_pressure_a_slow_readers_output_is_bounded_closely() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "t", Q1);
    net.set_stuck(sub, 64 * 1024 + 1);
    net.publish(publ, "t", Q0, 0, "fits");
    net.shards[0].set_pressed(true);
    net.publish(publ, "t", Q0, 0, "dropped");
    net.publish(publ, "t", Q1, 1, "refused");
    net.set_stuck(sub, 64 * 1024);
    net.publish(publ, "t", Q0, 0, "fits");
    net.publish(publ, "t", Q1, 2, "fits");
    let expected = ["SUBACK [1]", "PUBLISH t q0 fits", "PUBLISH t q0 fits", "PUBLISH t q1 #1 fits"];
    assert_eq!(net.read(sub), expected);
    let answers = net.read(publ);
    assert!(answers[0].contains("Quota exceeded"), "{answers:?}");
    assert_eq!(answers[1..], ["PUBACK #2 Success"]);
    assert_eq!(stats(&net).dropped_output_full, 1);
}

#[test]
fn under_pressure_a_message_that_would_wait_for_any_reason_is_refused() {
    type Hinder = fn(&mut Net, Peer, Peer);
    let hinders: [Hinder; 3] = [
        |net, sub, _| net.set_stuck(sub, 64 * 1024 + 1),
        // Its window is full.
        |net, _, publ| net.publish(publ, "t", Q1, 1, "x"),
        // Its queue has not been sent, though there is room again.
        |net, sub, publ| {
            net.set_stuck(sub, usize::MAX);
            net.publish(publ, "t", Q1, 1, "x");
            net.set_stuck(sub, 0);
        },
    ];
    for (at, hinder) in hinders.into_iter().enumerate() {
        let mut net = Net::new(1);
        let sub = net.join("sub", Ask { receive_maximum: 1, ..Ask::default() });
        let publ = net.join("pub", Ask::default());
        net.subscribe(sub, "t", Q1);
        hinder(&mut net, sub, publ);
        net.shards[0].set_pressed(true);
        net.read(publ);
        net.publish(publ, "t", Q1, 2, "x");
        assert!(net.read(publ)[0].contains("Quota exceeded"), "{at}");
    }
}

#[test]
fn under_pressure_nobody_is_refused_for_what_no_local_keeps_from_it() {
    let mut net = Net::new(1);
    let (one, two) = (net.join("one", Ask::default()), net.join("two", Ask::default()));
    let options = SubscriptionOptions { qos: Q1, no_local: true, ..Default::default() };
    net.subscribe_with(one, "t", options, None);
    net.read(one);
    net.set_stuck(one, usize::MAX);
    net.shards[0].set_pressed(true);
    net.publish(one, "t", Q1, 1, "x");
    assert_eq!(net.read(one), ["PUBACK #1 Success"]);
    net.publish(two, "t", Q1, 1, "x");
    assert!(net.read(two)[0].contains("Quota exceeded"));
}

#[test]
fn what_is_owed_waits_for_the_output_as_all_does() {
    let mut net = Net::new(1);
    let (peer, publ) = (net.join("c", kept()), net.join("pub", Ask::default()));
    net.subscribe(peer, "t", Q1);
    for id in 1..=2 {
        net.publish(publ, "t", Q1, id, "x");
    }
    net.cut(peer);
    let peer = net.open(Version::V5);
    net.set_stuck(peer, usize::MAX);
    net.say_connect(peer, "c", kept());
    net.publish(publ, "t", Q1, 3, "y");
    assert_eq!(net.read(peer), ["CONNACK Success present"]);
    net.set_stuck(peer, 0);
    net.drained(peer);
    let expected = ["PUBLISH t q1 #1 dup x", "PUBLISH t q1 #2 dup x", "PUBLISH t q1 #3 y"];
    assert_eq!(net.read(peer), expected);
}

#[test]
fn what_is_in_flight_to_a_session_is_bounded_in_bytes() {
    let limits = Limits { queue_bytes_max: 10, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    // One that ends with its connection keeps nothing, so nothing has to be bounded.
    for (client_id, ask, sent) in [("kept", kept(), 2), ("clean", Ask::default(), 3)] {
        let peer = net.join(client_id, ask);
        net.subscribe(peer, client_id, Q1);
        net.read(peer);
        for id in 1..=3 {
            net.publish(publ, client_id, Q1, id, "1");
        }
        assert_eq!(net.read(peer).len(), sent, "{client_id}");
        net.ack(peer, PacketKind::PubAck, 1);
        assert_eq!(net.read(peer).len(), 3 - sent, "{client_id}");
    }
}

#[test]
fn a_resumed_session_gets_nothing_larger_than_it_takes_now() {
    let mut net = Net::new(1);
    let (peer, publ) = (net.join("c", kept()), net.join("pub", Ask::default()));
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    for (id, payload) in [(1, "x".repeat(200)), (2, "small".into())] {
        net.publish(publ, "t", Q1, id, &payload);
    }
    net.cut(peer);
    let peer = net.connect("c", Ask { packet_bytes_max: 100, ..kept() });
    let expected = ["CONNACK Success present", "PUBLISH t q1 #2 dup small"];
    assert_eq!(net.read(peer), expected);
    assert_eq!(stats(&net).dropped_too_large, 1);
    // As if it had been acknowledged: it does not come in a later connection.
    net.cut(peer);
    let peer = net.connect("c", kept());
    assert_eq!(net.read(peer), expected);
}

#[test]
fn a_request_whose_answer_is_larger_than_the_client_takes_ends_the_connection() {
    for (filters, is_taken) in [(15, true), (16, false)] {
        let ask = Ask { packet_bytes_max: 20, ..Ask::default() };
        let mut net = Net::new(1);
        let mut subscribe = SubscribeBuf::new();
        let mut unsubscribe = UnsubscribeBuf::new();
        for number in 0..filters {
            subscribe.push(&format!("t{number}"), SubscriptionOptions::default());
            unsubscribe.push("t0");
        }
        let (id, none) = (PacketId::FIRST, Properties::EMPTY);
        let packets = [
            Packet::Subscribe(subscribe.subscribe(Version::V5, id, none)),
            Packet::Unsubscribe(unsubscribe.unsubscribe(id, none)),
        ];
        for packet in packets {
            let peer = net.join("c", ask);
            let mut bytes = Vec::new();
            packet.encode(Version::V5, &mut bytes);
            net.send_bytes(peer, &bytes);
            let lines = net.read(peer);
            assert_eq!(lines[0] != "DISCONNECT Packet too large", is_taken, "{lines:?}");
            assert!(is_taken || stats(&net).filters == 0, "a filter was noted");
        }
    }
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

#[test]
fn counters_of_messages_count_each_once() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let (live, absent) = (net.join("live", Ask::default()), net.join("absent", kept()));
    net.subscribe(live, "t", Q1);
    net.subscribe(absent, "t", Q1);
    net.cut(absent);
    for id in 1..=2 {
        net.publish(publ, "t", Q0, 0, "x");
        net.publish(publ, "t", Q1, id, "x");
    }
    let counted = |net: &Net| (stats(net).publishes_in, stats(net).publishes_out);
    assert_eq!(counted(&net), (4, 4));
    assert_eq!(stats(&net).dropped_absent_qos0, 2);
    // From the queue, then again to a connection that did not acknowledge.
    for sent in [2, 2] {
        let before = stats(&net).publishes_out;
        let absent = net.join("absent", kept());
        assert_eq!(stats(&net).publishes_out, before + sent);
        net.cut(absent);
    }
}

#[test]
fn the_retained_stores_bytes_are_what_it_holds_now() {
    // Room for two messages of eleven bytes.
    let limits = Limits { retained_bytes_max: 22, client_share_percent: 100, ..Limits::default() };
    let mut net = Net::with_limits(1, &limits);
    let publ = net.join("pub", Ask::default());
    let full = "PUBACK #1 Quota exceeded: the retained store is full";
    let kept = "PUBACK #1 No matching subscribers";
    for (topic, payload, answer) in [
        ("a", "0123456789", kept),
        ("b", "0123456789", kept),
        ("c", "", kept),
        ("c", "0", full),
        ("a", "01234567890", full),
        ("a", "", kept),
        ("c", "0123456789", kept),
        ("a", "0", full),
    ] {
        net.publish_packet(publ, &Publish { retain: true, ..message(topic, Q1, 1, payload) });
        assert_eq!(net.read(publ), [answer], "{topic} {payload}");
    }
    assert_eq!((stats(&net).retained, stats(&net).retained_refused), (2, 3));
}

#[test]
fn a_filter_is_counted_once_however_many_want_it() {
    let mut net = Net::new(1);
    let peers = [net.join("a", Ask::default()), net.join("b", Ask::default())];
    for peer in peers {
        net.subscribe(peer, "t", Q0);
        net.subscribe(peer, "$share/g/t", Q0);
    }
    net.subscribe(peers[0], "t/#", Q0);
    assert_eq!(stats(&net).filters, 2);
}

#[test]
fn what_is_below_sys_is_the_brokers_own() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    for topic in ["$SYS", "$SYS/broker/uptime", "$SYS/broker/connection/a/b/state"] {
        net.publish(publ, topic, QoS::AtLeastOnce, 1, "x");
        let why = "topics below $SYS are the broker's own";
        assert_eq!(net.read(publ), [format!("PUBACK #1 Not authorized: {why}")], "{topic}");
    }
    for topic in ["$SYSTEM/a", "$other", "$SYS/broker/connection/bridge/state"] {
        net.publish(publ, topic, QoS::AtLeastOnce, 1, "x");
        assert_eq!(net.read(publ), ["PUBACK #1 No matching subscribers"], "{topic}");
    }
    net.publish(publ, "$SYS/a", QoS::AtMostOnce, 0, "x");
    let why = "DISCONNECT Not authorized: topics below $SYS are the broker's own";
    assert_eq!(net.read(publ), [why, "closed"]);
}

#[test]
fn a_payload_of_1_mib_passes_with_the_longest_topic() {
    for version in [Version::V311, Version::V5] {
        let mut net = Net::new(1);
        let publ = net.join("pub", Ask { version, ..Ask::default() });
        let (topic, payload) = ("t".repeat(65_535), "x".repeat(1024 * 1024));
        net.publish(publ, &topic, QoS::AtLeastOnce, 1, &payload);
        assert_eq!(net.read(publ).len(), 1, "an acknowledgement: {version:?}");
        assert_eq!(net.shards[0].stats().publishes_in, 1);
    }
}
