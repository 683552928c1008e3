//! What is recorded of sessions that outlive their connections, and which answers wait for that.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Lsn, Micros, Record, Wall};
use weir_wire::packet::{Disconnect, Publish, SubscribeBuf, SubscriptionOptions, Will};
use weir_wire::{
    PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

pub(crate) const DURABLE: Ask<'static> = Ask {
    version: Version::V5,
    clean: false,
    keep_alive_s: 0,
    expiry_s: 60,
    receive_maximum: 0,
    packet_bytes_max: 0,
    will: None,
    properties: &[],
};

fn net() -> Net {
    Net::with_logs(1, &Limits::default())
}

/// What the shard has recorded since this was asked last, a line a record. A session or message is
/// called by the number of records before its own.
fn records(net: &Net, seen: &mut usize) -> Vec<String> {
    let log = &net.wires[0].log;
    let nth = |lsn: Lsn| log.iter().position(|&(at, ..)| at == lsn).unwrap();
    let new = log[*seen..].iter().map(|(_, kind, body)| {
        match Record::decode(*kind, body, Wall(0)).unwrap() {
            Record::Session { session: Lsn::NONE, client_id, expiry_s, will } => {
                let will = will.map_or(String::new(), |will| format!(" will {}", will.topic));
                format!("new session {client_id} {expiry_s}{will}")
            }
            Record::Session { session, expiry_s, .. } => {
                format!("session {} again {expiry_s}", nth(session))
            }
            Record::Absent { session, expires_at, will_at } => {
                let from_now = |at: Option<Micros>| at.map(|at| net.now.secs_until(at));
                let (expires, will) = (from_now(expires_at), from_now(will_at));
                format!("absent {} {expires:?} {will:?}", nth(session))
            }
            Record::Gone { session } => format!("gone {}", nth(session)),
            Record::Subscribed { session, name, options, subscription_id, .. } => {
                let qos = options.qos as u8;
                format!("subscribed {} {name} q{qos} {subscription_id:?}", nth(session))
            }
            Record::Unsubscribed { session, name } => {
                format!("unsubscribed {} {name}", nth(session))
            }
            Record::Message { topic, payload, .. } => {
                format!("message {topic} {}", String::from_utf8_lossy(payload))
            }
            Record::Queued { session, message, qos, packet_id, subscription_ids, .. } => {
                let packet_id = packet_id.map(PacketId::value);
                let (to, message, qos) = (nth(session), nth(message), qos as u8);
                format!("queued {to} {message} q{qos} {packet_id:?} {subscription_ids:?}")
            }
            Record::Sent { session, packet_id } => {
                format!("sent {} #{}", nth(session), packet_id.value())
            }
            Record::Retained { topic, payload, qos, .. } => {
                format!("retained {topic} {} q{}", String::from_utf8_lossy(payload), qos as u8)
            }
            Record::Cleared { topic } => format!("cleared {topic}"),
            Record::Dropped { session } => format!("dropped {}", nth(session)),
            Record::Received { session, packet_id } => {
                format!("received {} #{}", nth(session), packet_id.value())
            }
            Record::Done { session, packet_id } => {
                format!("done {} #{}", nth(session), packet_id.value())
            }
            Record::Noted { session, packet_id } => {
                format!("noted {} #{}", nth(session), packet_id.value())
            }
            Record::Released { session, packet_id } => {
                format!("released {} #{}", nth(session), packet_id.value())
            }
            other => format!("{other:?}"),
        }
    });
    let lines = new.collect();
    *seen = log.len();
    lines
}

/// A session with a subscription at QoS 2, and all of it committed.
fn subscriber(net: &mut Net, client_id: &str, filter: &str) -> Peer {
    let peer = net.join(client_id, DURABLE);
    net.subscribe(peer, filter, QoS::ExactlyOnce);
    net.commit(0);
    assert_eq!(net.read(peer), ["SUBACK [2]"]);
    peer
}

#[test]
fn no_acknowledgement_leaves_before_the_commit_and_all_in_order_after() {
    let mut net = net();
    let subscriber = subscriber(&mut net, "s", "t");
    net.cut(subscriber);
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    let first = net.wires[0].log.last().unwrap().0;
    net.publish(publisher, "t", QoS::ExactlyOnce, 2, "b");
    net.publish(publisher, "t", QoS::AtLeastOnce, 3, "c");
    assert!(net.read(publisher).is_empty());
    assert_eq!(net.shards[0].stats().log_waits, 3);
    net.commit_to(0, Lsn(first.0 - 1));
    assert!(net.read(publisher).is_empty());
    net.commit_to(0, first);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBREC #2 Success", "PUBACK #3 Success"]);
    assert_eq!(net.shards[0].stats().log_waits, 0);
    // Whoever comes back gets all of it.
    let back = net.connect("s", DURABLE);
    net.commit(0);
    net.commit(0);
    let lines = ["PUBLISH t q1 #1 a", "PUBLISH t q2 #2 b", "PUBLISH t q1 #3 c"];
    assert_eq!(net.read(back)[1..], lines);
}

#[test]
fn a_subscription_and_its_end_are_answered_once_they_are_committed() {
    let mut net = net();
    let peer = net.join("s", DURABLE);
    net.subscribe(peer, "t", QoS::AtLeastOnce);
    assert!(net.read(peer).is_empty());
    net.commit(0);
    assert_eq!(net.read(peer), ["SUBACK [1]"]);
    net.unsubscribe(peer, "t");
    assert!(net.read(peer).is_empty());
    net.commit(0);
    assert_eq!(net.read(peer), ["UNSUBACK [0]"]);
    // Nothing changes: nothing is recorded, and nobody waits.
    net.unsubscribe(peer, "t");
    assert_eq!(net.read(peer), ["UNSUBACK [17]"]);
}

#[test]
fn sessions_that_end_with_their_connection_write_nothing_and_wait_for_nothing() {
    let mut net = net();
    let peer = net.join("c", Ask::default());
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    assert_eq!(net.read(peer), ["SUBACK [2]"]);
    net.publish(peer, "t", QoS::AtLeastOnce, 1, "a");
    assert_eq!(net.read(peer), ["PUBLISH t q1 #1 a", "PUBACK #1 Success"]);
    net.ack(peer, PacketKind::PubAck, 1);
    net.publish(peer, "t", QoS::ExactlyOnce, 2, "b");
    assert_eq!(net.read(peer), ["PUBLISH t q2 #2 b", "PUBREC #2 Success"]);
    net.ack(peer, PacketKind::PubRec, 2);
    net.ack(peer, PacketKind::PubComp, 2);
    net.ack(peer, PacketKind::PubRel, 2);
    assert_eq!(net.read(peer), ["PUBREL #2 Success", "PUBCOMP #2 Success"]);
    net.unsubscribe(peer, "t");
    assert_eq!(net.read(peer), ["UNSUBACK [0]"]);
    net.disconnect(peer, ReasonCode::Success);
    let old = net.join("old", Ask { version: Version::V311, ..Ask::default() });
    net.subscribe(old, "t", QoS::AtLeastOnce);
    assert_eq!(net.read(old), ["SUBACK [1]"]);
    net.cut(old);
    assert!(net.wires[0].log.is_empty());
}

#[test]
fn without_a_log_nothing_is_written_and_nothing_waits() {
    let mut net = Net::new(1);
    let peer = net.join("s", DURABLE);
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    net.publish(peer, "t", QoS::AtLeastOnce, 1, "a");
    assert_eq!(net.read(peer), ["SUBACK [2]", "PUBLISH t q1 #1 a", "PUBACK #1 Success"]);
    net.unsubscribe(peer, "t");
    assert_eq!(net.read(peer), ["UNSUBACK [0]"]);
    net.cut(peer);
    assert!(net.wires[0].log.is_empty());
    assert_eq!(net.shards[0].stats().records_logged, 0);
}

#[test]
fn what_need_not_wait_goes_behind_what_does_on_its_connection_and_no_other() {
    let mut net = net();
    subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    let other = net.join("q", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.publish(publisher, "nobody", QoS::AtLeastOnce, 2, "b");
    net.send_bytes(publisher, &[0xC0, 0]);
    net.publish(other, "nobody", QoS::AtLeastOnce, 3, "c");
    assert!(net.read(publisher).is_empty());
    assert_eq!(net.read(other), ["PUBACK #3 No matching subscribers"]);
    net.commit(0);
    let behind = ["PUBACK #1 Success", "PUBACK #2 No matching subscribers", "PINGRESP"];
    assert_eq!(net.read(publisher), behind);
}

#[test]
fn what_was_committed_before_a_request_holds_nobody() {
    let mut net = net();
    let subscriber = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    // Not committed, and of another request.
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "b");
    let other = net.join("q", Ask::default());
    net.publish(other, "nobody", QoS::AtLeastOnce, 1, "c");
    assert_eq!(net.read(other), ["PUBACK #1 No matching subscribers"]);
    assert_eq!(net.read(subscriber), ["PUBLISH t q1 #1 a", "PUBLISH t q0 b"]);
}

#[test]
fn an_answer_to_a_connection_that_is_gone_is_nobodys() {
    let mut net = net();
    let subscriber = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.subscribe(subscriber, "u", QoS::AtLeastOnce);
    assert_eq!(net.read(subscriber), ["PUBLISH t q1 #1 a"]);
    net.free_keys = vec![net.key_of(publisher), net.key_of(subscriber)];
    net.cut(publisher);
    net.cut(subscriber);
    let others = [net.join("x", Ask::default()), net.join("y", Ask::default())];
    net.commit(0);
    others.into_iter().for_each(|other| assert!(net.read(other).is_empty()));
    let stats = net.shards[0].stats();
    assert_eq!((stats.log_waits, stats.awaited), (0, 0));
}

#[test]
fn a_session_is_recorded_from_its_connect_to_its_end() {
    let (mut net, mut seen) = (net(), 0);
    let peer = net.join("s", DURABLE);
    net.subscribe_with(peer, "t/+", SubscriptionOptions::default(), Some(7));
    net.unsubscribe(peer, "t/+");
    net.cut(peer);
    let begun = ["new session s 60", "subscribed 0 t/+ q0 Some(7)", "unsubscribed 0 t/+"];
    assert_eq!(records(&net, &mut seen)[..3], begun);
    assert_eq!(net.wires[0].log.len(), 4);
    net.join("s", Ask { expiry_s: 90, ..DURABLE });
    assert_eq!(records(&net, &mut seen), ["session 0 again 90"]);
    // A takeover that wants nothing of what was.
    net.join("s", Ask { clean: true, ..DURABLE });
    assert_eq!(records(&net, &mut seen), ["absent 0 Some(90) None", "gone 0", "new session s 60"]);
    let last = net.join("s", DURABLE);
    assert_eq!(records(&net, &mut seen), ["absent 7 Some(60) None", "session 7 again 60"]);
    net.disconnect(last, ReasonCode::Success);
    assert_eq!(records(&net, &mut seen), ["absent 7 Some(60) None"]);
    net.pass(60);
    assert_eq!(records(&net, &mut seen), ["gone 7"]);
}

#[test]
fn the_expiry_that_disconnect_says_is_recorded() {
    let (mut net, mut seen) = (net(), 0);
    let peer = net.join("s", DURABLE);
    records(&net, &mut seen);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(3));
    let (reason, properties) = (ReasonCode::Success, properties.as_properties());
    let mut bytes = Vec::new();
    Disconnect { reason, properties }.encode(Version::V5, &mut bytes);
    net.send_bytes(peer, &bytes);
    assert_eq!(records(&net, &mut seen), ["session 0 again 3", "absent 0 Some(3) None"]);
}

#[test]
fn a_session_that_shall_end_with_its_connection_is_gone_at_once() {
    let (mut net, mut seen) = (net(), 0);
    net.join("s", DURABLE);
    records(&net, &mut seen);
    let peer = net.join("s", Ask { expiry_s: 0, ..DURABLE });
    assert_eq!(records(&net, &mut seen), ["absent 0 Some(60) None", "gone 0"]);
    net.subscribe(peer, "t", QoS::AtLeastOnce);
    net.publish(peer, "t", QoS::AtLeastOnce, 1, "a");
    net.ack(peer, PacketKind::PubAck, 1);
    net.cut(peer);
    assert!(records(&net, &mut seen).is_empty());
    // The client says so as it leaves, while an answer waits.
    let peer = subscriber(&mut net, "s", "t");
    records(&net, &mut seen);
    net.publish(peer, "t", QoS::AtLeastOnce, 1, "a");
    assert_eq!(records(&net, &mut seen).len(), 2);
    let mut bytes = Vec::new();
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(0));
    let properties = properties.as_properties();
    Disconnect { reason: ReasonCode::Success, properties }.encode(Version::V5, &mut bytes);
    net.send_bytes(peer, &bytes);
    assert_eq!(records(&net, &mut seen).len(), 1);
    net.publish(peer, "t", QoS::AtLeastOnce, 2, "b");
    net.commit(0);
    assert!(records(&net, &mut seen).is_empty());
    assert!(net.is_closed(peer));
}

#[test]
fn a_delivery_is_recorded_from_its_queue_to_its_acknowledgement() {
    let (mut net, mut seen) = (net(), 0);
    let peer = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    records(&net, &mut seen);
    let first = seen;
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    let lines = ["message t a".into(), format!("queued 0 {first} q1 Some(1) []")];
    assert_eq!(records(&net, &mut seen), lines);
    net.ack(peer, PacketKind::PubAck, 1);
    // It was done already.
    net.ack(peer, PacketKind::PubAck, 1);
    assert_eq!(records(&net, &mut seen), ["done 0 #1"]);
    net.publish(publisher, "t", QoS::ExactlyOnce, 2, "b");
    records(&net, &mut seen);
    net.ack(peer, PacketKind::PubRec, 2);
    net.ack(peer, PacketKind::PubComp, 2);
    assert_eq!(records(&net, &mut seen), ["received 0 #2", "done 0 #2"]);
    net.cut(peer);
    records(&net, &mut seen);
    let first = seen;
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "not kept");
    net.publish(publisher, "t", QoS::AtLeastOnce, 3, "c");
    let lines = ["message t c".into(), format!("queued 0 {first} q1 None []")];
    assert_eq!(records(&net, &mut seen), lines);
    net.join("s", DURABLE);
    assert_eq!(records(&net, &mut seen), ["session 0 again 60", "sent 0 #3"]);
}

#[test]
fn what_is_not_sent_is_recorded_as_dropped() {
    let limits = Limits { queue_messages_max: 2, ..Limits::default() };
    let (mut net, mut seen) = (Net::with_logs(1, &limits), 0);
    let peer = subscriber(&mut net, "s", "t");
    net.cut(peer);
    let publisher = net.join("p", Ask::default());
    for (id, payload) in
        [(1, "a"), (2, "b"), (3, "much too long for a client like this one, and for others")]
    {
        net.publish(publisher, "t", QoS::AtLeastOnce, id, payload);
    }
    let lines = records(&net, &mut seen);
    assert_eq!(lines.last().unwrap(), "dropped 0", "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("dropped")).count(), 1);
    // The second is sent, the third is more than the client takes.
    net.join("s", Ask { packet_bytes_max: 40, ..DURABLE });
    assert_eq!(records(&net, &mut seen), ["session 0 again 60", "sent 0 #1", "dropped 0"]);
    // Sent again, it is too long by now.
    net.join("s", Ask { packet_bytes_max: 60, ..DURABLE });
    net.publish(publisher, "t", QoS::AtLeastOnce, 4, "of more than forty bytes with its head");
    records(&net, &mut seen);
    let peer = net.connect("s", Ask { packet_bytes_max: 40, ..DURABLE });
    net.commit(0);
    let lines = records(&net, &mut seen);
    assert_eq!(lines[1..], ["session 0 again 60", "done 0 #2"]);
    assert_eq!(net.read(peer)[1..], ["PUBLISH t q1 #1 dup b"]);
}

#[test]
fn a_message_is_recorded_once_for_all_who_get_it() {
    let (mut net, mut seen) = (net(), 0);
    for client_id in ["x", "y", "z"] {
        subscriber(&mut net, client_id, "t");
    }
    net.join("c", Ask::default());
    let publisher = net.join("p", Ask::default());
    records(&net, &mut seen);
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    let lines = records(&net, &mut seen);
    assert_eq!((lines.len(), &*lines[0]), (4, "message t a"), "{lines:?}");
}

#[test]
fn a_will_is_in_the_log_until_it_is_published() {
    let (mut net, mut seen) = (net(), 0);
    let other = subscriber(&mut net, "s", "w");
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    let will = Will {
        topic: "w",
        payload: b"lost",
        qos: QoS::AtLeastOnce,
        retain: false,
        properties: properties.as_properties(),
    };
    records(&net, &mut seen);
    let first = seen;
    let peer = net.join("d", Ask { will: Some(will), ..DURABLE });
    net.cut(peer);
    let lines = ["new session d 60 will w".to_owned(), format!("absent {first} Some(60) Some(5)")];
    assert_eq!(records(&net, &mut seen), lines);
    net.pass(5);
    let lines = records(&net, &mut seen);
    let expected = [
        format!("absent {first} Some(55) None"),
        "message w lost".into(),
        format!("queued 0 {} q1 Some(1) []", first + 3),
    ];
    assert_eq!(lines, expected);
    assert_eq!(net.read(other), ["PUBLISH w q1 #1 lost"]);
}

#[test]
fn a_retained_message_is_recorded_and_its_publisher_waits_for_that() {
    let limits = Limits { retained_messages_max: 1, ..Limits::default() };
    let (mut net, mut seen) = (Net::with_logs(1, &limits), 0);
    let publisher = net.join("p", Ask::default());
    let retain = |net: &mut Net, topic, qos, payload| {
        net.publish_packet(publisher, &Publish { retain: true, ..message(topic, qos, 1, payload) });
        net.read(publisher)
    };
    assert!(retain(&mut net, "t", QoS::AtLeastOnce, "a").is_empty());
    assert_eq!(records(&net, &mut seen), ["retained t a q1"]);
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBACK #1 No matching subscribers"]);
    // What is not kept is not recorded, and nor is what changes nothing.
    let full = ["PUBACK #1 Quota exceeded: the retained store is full"];
    assert_eq!(retain(&mut net, "u", QoS::AtLeastOnce, "a"), full);
    let none = ["PUBACK #1 No matching subscribers"];
    assert_eq!(retain(&mut net, "u", QoS::AtLeastOnce, ""), none);
    assert!(records(&net, &mut seen).is_empty());
    retain(&mut net, "t", QoS::AtMostOnce, "b");
    assert_eq!(records(&net, &mut seen), ["retained t b q0"]);
    assert!(retain(&mut net, "t", QoS::AtLeastOnce, "").is_empty());
    assert_eq!(records(&net, &mut seen), ["cleared t"]);
    net.commit(0);
    assert_eq!(net.read(publisher), none);
}

#[test]
fn many_answers_that_a_commit_frees_leave_in_slices() {
    let limits = Limits { input_steps_max: 200, ..Limits::default() };
    let mut net = Net::with_logs(1, &limits);
    let peer = subscriber(&mut net, "s", "t");
    net.cut(peer);
    let publisher = net.join("p", Ask::default());
    for id in 1..=300 {
        net.publish(publisher, "t", QoS::AtLeastOnce, id, "a");
        net.go_on();
    }
    assert!(net.read(publisher).is_empty());
    net.steps_seen_max = 0;
    net.commit(0);
    let at_once = net.read(publisher).len();
    assert!((1..300).contains(&at_once), "{at_once}");
    net.go_on();
    assert_eq!(at_once + net.read(publisher).len(), 300);
    assert!(net.steps_seen_max < 400, "{}", net.steps_seen_max);
}

#[test]
fn a_subscribe_of_many_filters_waits_for_the_last_of_them() {
    let limits = Limits { input_steps_max: 200, ..Limits::default() };
    let mut net = Net::with_logs(1, &limits);
    let peer = net.join("s", DURABLE);
    let mut filters = SubscribeBuf::new();
    (0..200).for_each(|at| filters.push(&format!("t/{at}"), SubscriptionOptions::default()));
    let mut bytes = Vec::new();
    filters
        .subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY)
        .encode(Version::V5, &mut bytes);
    net.send_bytes(peer, &bytes);
    net.commit(0);
    let some = net.wires[0].log.len();
    net.go_on();
    let all = net.wires[0].log.len();
    assert!(some < all && all == 201, "{some} {all}");
    assert!(net.read(peer).is_empty());
    let before_last = net.wires[0].log[all - 2].0;
    net.commit_to(0, before_last);
    assert!(net.read(peer).is_empty());
    net.commit(0);
    assert_eq!(net.read(peer).len(), 1);
}

#[test]
fn a_partition_does_not_move_while_a_log_is_kept() {
    let mut net = Net::with_logs(2, &Limits::default());
    let names = net.names();
    assert_eq!(net.begin_move(&names[0][0], 1), Err(weir_core::NotMoved::Logged));
}

#[test]
fn what_a_durable_publisher_sends_at_qos_2_is_noted_with_the_message_and_released() {
    let (mut net, mut seen) = (net(), 0);
    subscriber(&mut net, "s", "t");
    let publisher = net.join("p", DURABLE);
    let name = records(&net, &mut seen).len() - 1;
    let first = seen;
    net.publish(publisher, "t", QoS::ExactlyOnce, 7, "a");
    let lines = [
        "message t a".into(),
        format!("queued 0 {first} q2 Some(1) []"),
        format!("noted {name} #7"),
    ];
    assert_eq!(records(&net, &mut seen), lines);
    let before_last = net.wires[0].log[seen - 2].0;
    net.commit_to(0, before_last);
    assert!(net.read(publisher).is_empty());
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBREC #7 Success"]);
    // It comes again, and is noted already.
    net.publish(publisher, "t", QoS::ExactlyOnce, 7, "a");
    assert_eq!(net.read(publisher), ["PUBREC #7 Success"]);
    assert!(records(&net, &mut seen).is_empty());
    net.ack(publisher, PacketKind::PubRel, 7);
    assert_eq!(records(&net, &mut seen), [format!("released {name} #7")]);
    assert!(net.read(publisher).is_empty());
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBCOMP #7 Success"]);
    net.ack(publisher, PacketKind::PubRel, 7);
    assert_eq!(net.read(publisher), ["PUBCOMP #7 Packet Identifier not found"]);
    // Nobody gets it, and it is noted all the same.
    net.publish(publisher, "nobody", QoS::ExactlyOnce, 8, "a");
    assert_eq!(records(&net, &mut seen), [format!("noted {name} #8")]);
    net.publish(publisher, "nobody", QoS::AtLeastOnce, 9, "a");
    assert!(records(&net, &mut seen).is_empty());
}

#[test]
fn pubrel_waits_for_the_record_of_its_pubrec() {
    let mut net = net();
    let peer = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBLISH t q2 #1 a"]);
    net.ack(peer, PacketKind::PubRec, 1);
    assert!(net.read(peer).is_empty());
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBREL #1 Success"]);
    // Whoever comes back is owed it, and no message.
    net.cut(peer);
    let back = net.connect("s", DURABLE);
    net.commit(0);
    assert_eq!(net.read(back), ["CONNACK Success present", "PUBREL #1 Success"]);
}

#[test]
fn a_publish_of_qos_2_waits_for_its_identifier_and_what_follows_stays_behind_it() {
    let mut net = net();
    let peer = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.publish(publisher, "t", QoS::ExactlyOnce, 2, "b");
    net.publish(publisher, "t", QoS::AtLeastOnce, 3, "c");
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "d");
    assert_eq!(net.read(peer), ["PUBLISH t q1 #1 a", "PUBLISH t q0 d"]);
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBLISH t q2 #2 b", "PUBLISH t q1 #3 c"]);
    net.publish(publisher, "t", QoS::AtLeastOnce, 4, "e");
    assert_eq!(net.read(peer), ["PUBLISH t q1 #4 e"]);
    // The connection is gone before: it is owed as all that was sent.
    net.publish(publisher, "t", QoS::ExactlyOnce, 5, "f");
    net.cut(peer);
    let back = net.connect("s", DURABLE);
    net.commit(0);
    let lines = net.read(back);
    assert_eq!((lines.len(), &*lines[5]), (6, "PUBLISH t q2 #5 dup f"), "{lines:?}");
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn what_waited_in_the_queue_waits_for_its_identifier_too() {
    let mut net = net();
    let peer = net.join("s", Ask { receive_maximum: 1, ..DURABLE });
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    net.commit(0);
    assert_eq!(net.read(peer), ["SUBACK [2]"]);
    let publisher = net.join("p", Ask::default());
    for (id, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce), (3, QoS::ExactlyOnce)] {
        net.publish(publisher, "t", qos, id, "a");
    }
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBLISH t q1 #1 a"]);
    net.ack(peer, PacketKind::PubAck, 1);
    assert!(net.read(peer).is_empty());
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBLISH t q2 #2 a"]);
}

#[test]
fn a_client_that_answers_what_it_was_not_sent_is_not_sent_it() {
    let mut net = net();
    let peer = subscriber(&mut net, "s", "t");
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.ack(peer, PacketKind::PubRec, 1);
    net.commit(0);
    assert_eq!(net.read(peer), ["PUBREL #1 Success"]);
}

#[test]
fn a_disconnect_that_waits_for_answers_holds_after_a_crash_too() {
    let mut net = net();
    let absent = subscriber(&mut net, "s", "t");
    net.cut(absent);
    let will = |topic| Will {
        topic,
        payload: b"w",
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    };
    let leaving = net.join("l", Ask { will: Some(will("gone")), ..DURABLE });
    let staying = net.join("p", Ask { will: Some(will("here")), ..DURABLE });
    for (peer, reason) in
        [(leaving, ReasonCode::Success), (staying, ReasonCode::DisconnectWithWill)]
    {
        net.publish(peer, "t", QoS::AtLeastOnce, 1, "a");
        let mut seen = net.wires[0].log.len();
        net.disconnect(peer, reason);
        let records = records(&net, &mut seen);
        match reason {
            // [MQTT-3.14.4-3]
            ReasonCode::Success => {
                assert!(records.len() == 1 && records[0].starts_with("session "), "{records:?}");
                assert!(records[0].ends_with(" again 60"), "it has no will: {records:?}");
            }
            _ => assert_eq!(records, [""; 0], "nothing has changed"),
        }
        assert!(!net.is_closed(peer));
    }
    net.commit(0);
    assert_eq!(net.read(leaving), ["PUBACK #1 Success", "closed"]);
}

#[test]
fn whoever_publishes_to_a_session_whose_end_is_not_committed_waits_for_that() {
    let mut net = net();
    let peer = subscriber(&mut net, "s", "t");
    net.cut(peer);
    net.commit(0);
    let publisher = net.join("p", Ask::default());
    // Its session is to end with this connection: if a crash forgets that, it is still there.
    let back = net.connect("s", Ask { clean: false, ..Ask::default() });
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    assert_eq!(net.read(publisher), [""; 0]);
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    assert_eq!(net.read(back), ["CONNACK Success present", "PUBLISH t q1 #1 a"]);
    net.publish(publisher, "t", QoS::AtLeastOnce, 2, "b");
    assert_eq!(net.read(publisher), ["PUBACK #2 Success"]);
}
