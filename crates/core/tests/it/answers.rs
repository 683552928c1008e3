//! Answers that wait: each for its own, in the order of the requests, within bounds.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{Features, Limits, Settings, Verdict};
use weir_wire::packet::{PINGREQ, SubscriptionOptions, Will};
use weir_wire::{QoS, ReasonCode};

fn with_authentication() -> Net {
    let features = Features { authentication: true, ..Features::default() };
    Net::with_settings(1, &Settings { features, ..Settings::default() })
}

#[test]
fn a_late_verdict_is_not_given_to_whoever_has_the_connection_key_by_then() {
    let mut net = with_authentication();
    let alice = net.connect("alice", Ask::default());
    let about_alice = net.wires[0].tickets[&net.key_of(alice)];
    net.cut(alice);
    let key = net.key_of(alice);
    net.free_keys.push(key);
    let mallory = net.connect("mallory", Ask::default());
    assert_eq!(net.key_of(mallory), key);
    net.answer_ticket(0, about_alice, Verdict::Accept(Vec::new()));
    assert_eq!(net.read(mallory), [""; 0]);
    assert_eq!(net.shards[0].stats().answers_late, 1);
    net.authenticated(mallory, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(mallory), ["CONNACK Not authorized", "closed"]);
}

#[test]
fn a_verdict_is_taken_once() {
    let mut net = with_authentication();
    let alice = net.connect("alice", Ask::default());
    net.authenticated(alice, Verdict::Accept(Vec::new()));
    net.authenticated(alice, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(alice), ["CONNACK Success"]);
    assert_eq!(net.shards[0].stats().answers_late, 1);
}

#[test]
fn what_comes_before_the_verdict_waits_and_is_read_after_it() {
    let mut net = with_authentication();
    let alice = net.connect("alice", Ask::default());
    net.subscribe(alice, "t", QoS::AtMostOnce);
    assert!(net.left(alice) > 0);
    assert!(net.wires[0].paused.contains(&net.key_of(alice)), "nothing more is read");
    net.authenticated(alice, Verdict::Accept(Vec::new()));
    assert_eq!(net.read(alice), ["CONNACK Success", "SUBACK [0]"]);
    assert_eq!(net.left(alice), 0);
}

#[test]
fn no_more_than_a_packet_waits_for_the_verdict() {
    let features = Features { authentication: true, ..Features::default() };
    let limits = Limits { packet_bytes_max: 1000, ..Limits::default() };
    let mut net = Net::with_settings(1, &Settings { limits, features, ..Settings::default() });
    let alice = net.connect("alice", Ask::default());
    net.send_bytes(alice, &[0; 1001]);
    assert_eq!(net.read(alice), ["CONNACK Quota exceeded", "closed"]);
    assert_eq!(net.shards[0].stats().awaited, 0);
}

/// A publisher on shard 0 and a subscriber to `t` on shard 1.
fn publisher_and_subscriber(net: &mut Net) -> (Peer, Peer) {
    let names = net.names();
    let publisher = net.join(&names[0][0], Ask::default());
    let subscriber = net.join(&names[1][0], Ask::default());
    net.subscribe(subscriber, "t", QoS::AtLeastOnce);
    net.deliver_mail();
    assert_eq!(net.read(subscriber), ["SUBACK [1]"]);
    (publisher, subscriber)
}

#[test]
fn a_message_that_was_acknowledged_comes_before_the_unsuback() {
    for (qos, ack) in
        [(QoS::AtLeastOnce, "PUBACK #7 Success"), (QoS::ExactlyOnce, "PUBREC #7 Success")]
    {
        let mut net = Net::new(2);
        let (publisher, subscriber) = publisher_and_subscriber(&mut net);
        net.publish(publisher, "t", qos, 7, "x");
        // The subscriber may leave when the publisher knows.
        while net.read(publisher).is_empty() {
            assert!(net.deliver_between(0, 1) || net.deliver_between(1, 0), "never {ack}");
        }
        net.unsubscribe(subscriber, "t");
        net.deliver_mail();
        assert_eq!(net.read(subscriber), ["PUBLISH t q1 #1 x", "UNSUBACK [0]"]);
    }
}

#[test]
fn a_message_for_nobody_elsewhere_is_acknowledged_at_once() {
    let mut net = Net::new(2);
    let (publisher, _) = publisher_and_subscriber(&mut net);
    net.publish(publisher, "u", QoS::AtLeastOnce, 7, "x");
    assert_eq!(net.read(publisher), ["PUBACK #7 No matching subscribers"]);
}

#[test]
fn one_receipt_acknowledges_all_messages_of_a_turn() {
    let mut net = Net::new(2);
    let (publisher, subscriber) = publisher_and_subscriber(&mut net);
    for id in 1..=3 {
        net.publish(publisher, "t", QoS::AtLeastOnce, id, "x");
    }
    assert_eq!(net.letters(0, 1), 3);
    net.deliver_mail_in_one_turn(0, 1);
    assert_eq!(net.letters(1, 0), 1);
    assert_eq!(net.read(publisher), [""; 0]);
    net.deliver_mail();
    let acks = [1, 2, 3].map(|id| format!("PUBACK #{id} Success"));
    assert_eq!(net.read(publisher), acks);
    assert_eq!(net.read(subscriber).len(), 3);
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn answers_leave_in_the_order_of_the_requests() {
    let mut net = Net::new(2);
    let (publisher, _) = publisher_and_subscriber(&mut net);
    net.subscribe(publisher, "a", QoS::AtMostOnce);
    net.send_bytes(publisher, &PINGREQ);
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "x");
    net.publish(publisher, "nobody", QoS::ExactlyOnce, 2, "x");
    net.ack(publisher, weir_wire::PacketKind::PubRel, 2);
    net.unsubscribe(publisher, "a");
    net.send_bytes(publisher, &PINGREQ);
    assert_eq!(net.read(publisher), [""; 0]);
    net.deliver_mail();
    let wanted = [
        "SUBACK [0]",
        "PINGRESP",
        "PUBACK #1 Success",
        "PUBREC #2 No matching subscribers",
        "PUBCOMP #2 Success",
        "UNSUBACK [0]",
        "PINGRESP",
    ];
    assert_eq!(net.read(publisher), wanted);
}

#[test]
fn a_client_whose_answers_wait_is_read_no_more_over_the_bound_and_again_below_it() {
    let limits = Limits { answers_held_max: 4, ..Limits::default() };
    let mut net = Net::with_limits(2, &limits);
    let (publisher, _) = publisher_and_subscriber(&mut net);
    net.subscribe(publisher, "a", QoS::AtMostOnce);
    net.send_bytes(publisher, &PINGREQ.repeat(100));
    assert_eq!(net.left(publisher), 2 * 97, "a SUBACK and three PINGRESP wait");
    assert!(net.wires[0].paused.contains(&net.key_of(publisher)));
    net.deliver_mail();
    assert_eq!(net.left(publisher), 0);
    assert_eq!(net.read(publisher).len(), 101);
    assert!(net.wires[0].paused.is_empty());
}

#[test]
fn an_answer_that_never_comes_ends_the_connection() {
    let mut net = Net::new(2);
    let (publisher, _) = publisher_and_subscriber(&mut net);
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "x");
    // The letter is lost.
    net.wires[0].mail.clear();
    net.pass(Limits::default().answer_wait_s_max * 3);
    let said = net.read(publisher);
    assert!(said[0].starts_with("DISCONNECT Implementation specific error"), "{said:?}");
    assert_eq!(said[1], "closed");
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn an_answer_for_a_connection_that_is_gone_is_nobodys() {
    let mut net = Net::new(2);
    let (publisher, subscriber) = publisher_and_subscriber(&mut net);
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "x");
    let key = net.key_of(publisher);
    net.cut(publisher);
    net.free_keys.push(key);
    let names = net.names();
    let other = net.join(&names[0][1], Ask::default());
    assert_eq!(net.key_of(other), key);
    net.deliver_mail();
    assert_eq!(net.read(other), [""; 0]);
    assert_eq!(net.read(subscriber), ["PUBLISH t q1 #1 x"]);
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn a_session_gets_what_it_asked_for_though_its_connection_ended_before_the_suback() {
    let mut net = Net::new(2);
    let names = net.names();
    let publisher = net.join(&names[1][0], Ask::default());
    let mut retained = message("t", QoS::AtMostOnce, 0, "kept");
    retained.retain = true;
    net.publish_packet(publisher, &retained);
    let keeps = Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let subscriber = net.join(&names[0][0], keeps);
    net.subscribe_with(subscriber, "t", SubscriptionOptions::default(), None);
    net.cut(subscriber);
    net.deliver_mail();
    let back = net.connect(&names[0][0], keeps);
    net.deliver_mail();
    assert_eq!(net.read(back), ["CONNACK Success present", "PUBLISH t q0 retain kept"]);
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn a_client_from_which_nothing_is_read_is_not_silent() {
    let mut net = Net::with_limits(2, &Limits { answers_held_max: 2, ..Limits::default() });
    let names = net.names();
    let client = net.join(&names[0][0], Ask { keep_alive_s: 2, ..Ask::default() });
    net.subscribe(client, "a", QoS::AtMostOnce);
    net.send_bytes(client, &PINGREQ.repeat(10));
    net.pass(30);
    assert_eq!(net.read(client), [""; 0]);
    net.deliver_mail();
    assert_eq!(net.read(client).len(), 11);
    net.pass(4);
    assert_eq!(net.read(client).last().unwrap(), "closed");
}

#[test]
fn a_disconnect_lets_the_answers_before_it_go_out() {
    for reason in [ReasonCode::Success, ReasonCode::DisconnectWithWill] {
        let mut net = Net::new(2);
        let (publisher, subscriber) = publisher_and_subscriber(&mut net);
        net.publish(publisher, "t", QoS::AtLeastOnce, 7, "x");
        net.publish(publisher, "t", QoS::ExactlyOnce, 8, "y");
        net.send_bytes(publisher, &PINGREQ);
        net.disconnect(publisher, reason);
        // Nothing is looked at behind it.
        net.send_bytes(publisher, &PINGREQ);
        assert_eq!((net.read(publisher), net.left(publisher)), (vec![], 0));
        net.deliver_mail();
        let answers = ["PUBACK #7 Success", "PUBREC #8 Success", "PINGRESP", "closed"];
        assert_eq!(net.read(publisher), answers);
        assert_eq!(net.read(subscriber).len(), 2);
        let stats = net.shards[0].stats();
        assert_eq!((stats.connections, stats.connections_ended, stats.awaited), (0, 0, 0));
        let left = |notice: &&String| notice.starts_with("Left");
        assert_eq!(net.wires[0].notices.iter().filter(left).count(), 1);
    }
}

#[test]
fn a_disconnect_takes_the_will_though_answers_wait() {
    let will = Will {
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "t",
        payload: b"will",
        properties: weir_wire::Properties::EMPTY,
    };
    for (reason, wills) in [(ReasonCode::Success, 0), (ReasonCode::DisconnectWithWill, 1)] {
        for is_cut in [false, true] {
            let mut net = Net::new(2);
            let (_, subscriber) = publisher_and_subscriber(&mut net);
            let name = net.names()[0][1].clone();
            let publisher = net.join(&name, Ask { will: Some(will), ..Ask::default() });
            net.publish(publisher, "t", QoS::AtLeastOnce, 7, "x");
            net.disconnect(publisher, reason);
            if is_cut {
                net.cut(publisher);
            }
            net.deliver_mail();
            assert_eq!(net.read(subscriber).len(), 1 + wills, "{reason:?} {is_cut}");
        }
    }
}

#[test]
fn whoever_disconnects_does_not_wait_for_ever_and_is_told_nothing_more() {
    type End = fn(&mut Net);
    let ends: [End; 2] = [|net| net.pass(61), |net| net.shards[0].stop(net.now, &mut net.wires[0])];
    for end in ends {
        let mut net = Net::new(2);
        let (_, subscriber) = publisher_and_subscriber(&mut net);
        let name = net.names()[0][1].clone();
        // It is not silent meanwhile.
        let publisher = net.join(&name, Ask { keep_alive_s: 1, ..Ask::default() });
        net.publish(publisher, "t", QoS::AtLeastOnce, 7, "x");
        net.disconnect(publisher, ReasonCode::Success);
        net.pass(50);
        assert_eq!(net.read(publisher), [""; 0]);
        end(&mut net);
        assert_eq!(net.read(publisher), ["closed"]);
        net.deliver_mail();
        assert_eq!((net.read(publisher).len(), net.read(subscriber).len()), (0, 1));
        assert_eq!(net.shards[0].stats().awaited, 0);
    }
}

#[test]
fn whoever_comes_back_while_its_disconnect_waits_takes_its_session_over() {
    let mut net = Net::new(2);
    let kept = Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let (_, subscriber) = publisher_and_subscriber(&mut net);
    let name = net.names()[0][1].clone();
    let publisher = net.join(&name, kept);
    net.publish(publisher, "t", QoS::AtLeastOnce, 7, "x");
    net.disconnect(publisher, ReasonCode::Success);
    let again = net.connect(&name, kept);
    assert_eq!(net.read(again), ["CONNACK Success present"]);
    assert_eq!(net.read(publisher), ["closed"]);
    net.deliver_mail();
    assert_eq!((net.read(again).len(), net.read(subscriber).len()), (0, 1));
}

#[test]
fn a_client_hears_that_the_broker_is_there_while_its_answer_waits_for_long() {
    let mut net = Net::new(2);
    let names = net.names();
    let client = net.join(&names[0][0], Ask { keep_alive_s: 2, ..Ask::default() });
    net.subscribe(client, "a", QoS::AtMostOnce);
    net.pass(2);
    net.send_bytes(client, &PINGREQ);
    assert_eq!(net.read(client), ["PINGRESP"]);
    net.deliver_mail();
    assert_eq!(net.read(client), ["SUBACK [0]"]);
}
