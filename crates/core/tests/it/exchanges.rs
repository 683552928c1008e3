//! Exchanges of QoS 1 and 2 and the queue behind them, where their order or sizes are odd.

use crate::net::{Ask, Net, Peer};
use weir_core::Limits;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PacketKind, QoS};

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

/// A subscriber to `t` with one delivery open at most, and a publisher.
fn narrow(limits: &Limits, qos: QoS) -> (Net, Peer, Peer) {
    let mut net = Net::with_limits(1, limits);
    let sub = net.join("sub", Ask { receive_maximum: 1, ..Ask::default() });
    let publ = net.join("pub", Ask::default());
    net.subscribe(sub, "t", qos);
    net.read(sub);
    (net, sub, publ)
}

#[test]
fn a_qos_2_delivery_holds_its_place_until_pubcomp() {
    let (mut net, sub, publ) = narrow(&Limits::default(), Q2);
    net.publish(publ, "t", Q2, 1, "one");
    net.publish(publ, "t", Q2, 2, "two");
    assert_eq!(net.read(sub), ["PUBLISH t q2 #1 one"]);
    net.ack(sub, PacketKind::PubRec, 1);
    assert_eq!(net.read(sub), ["PUBREL #1 Success"]);
    net.ack(sub, PacketKind::PubComp, 1);
    assert_eq!(net.read(sub), ["PUBLISH t q2 #2 two"]);
}

#[test]
fn an_acknowledgement_of_another_kind_ends_the_connection() {
    let (ack, rec, comp) = (PacketKind::PubAck, PacketKind::PubRec, PacketKind::PubComp);
    let cases: [(QoS, &[PacketKind], PacketKind); 5] = [
        (Q1, &[], rec),
        (Q1, &[], comp),
        (Q2, &[], ack),
        (Q2, &[], comp),
        // PUBREL was sent, and PUBCOMP is what is left.
        (Q2, &[rec], ack),
    ];
    for (qos, right, wrong) in cases {
        let (mut net, sub, publ) = narrow(&Limits::default(), qos);
        net.publish(publ, "t", qos, 1, "one");
        right.iter().for_each(|&kind| net.ack(sub, kind, 1));
        net.read(sub);
        // One that nothing is known of is a late answer, and harms nobody.
        net.ack(sub, wrong, 7);
        net.read(sub);
        net.ack(sub, wrong, 1);
        let lines = net.read(sub);
        let why = "an acknowledgement of another kind than the message waits for";
        let expected = [format!("DISCONNECT Protocol Error: {why}"), "closed".to_owned()];
        assert_eq!(lines, expected, "{qos:?}, {right:?}, {wrong:?}");
    }
}

#[test]
fn an_acknowledgement_that_comes_twice_harms_nobody() {
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", Ask::default()), net.join("pub", Ask::default()));
    net.subscribe(sub, "t", Q1);
    net.publish(publ, "t", Q1, 1, "one");
    net.publish(publ, "t", Q1, 2, "two");
    net.read(sub);
    // The second waits behind the first, and is done.
    [2, 2, 1, 1].into_iter().for_each(|id| net.ack(sub, PacketKind::PubAck, id));
    assert_eq!(net.read(sub), [""; 0]);
}

#[test]
fn a_queues_bytes_are_what_waits_in_it_now() {
    // Room for two messages of eleven bytes.
    let limits = Limits { queue_bytes_max: 25, ..Limits::default() };
    let (mut net, sub, publ) = narrow(&limits, Q1);
    for id in 1..=3 {
        net.publish(publ, "t", Q1, id, "0123456789");
    }
    for id in 1..=5 {
        net.ack(sub, PacketKind::PubAck, id);
        net.publish(publ, "t", Q1, id + 3, "0123456789");
    }
    assert_eq!(net.read(sub).len(), 6, "two wait and nobody is cut off");
    net.publish(publ, "t", Q1, 9, "0123456789");
    assert_eq!(net.read(sub), ["DISCONNECT Quota exceeded: its queue is full", "closed"]);
}

#[test]
fn what_waits_in_a_queue_is_sent_as_it_would_have_been_at_once() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let ask = Ask { receive_maximum: 1, packet_bytes_max: 20, ..Ask::default() };
    let sub = net.join("sub", ask);
    let options = SubscriptionOptions { qos: Q1, ..SubscriptionOptions::default() };
    net.subscribe_with(sub, "t", options, Some(7));
    net.read(sub);
    // Twenty bytes with the subscription identifier, then one more.
    for (id, payload) in [(1, "first"), (2, "0123456789"), (3, "0123456789!"), (4, "last")] {
        net.publish(publ, "t", Q1, id, payload);
    }
    for (id, payload) in [(1, "first"), (2, "0123456789"), (3, "last")] {
        let expected = format!("PUBLISH t q1 #{id} SubscriptionIdentifier(7) {payload}");
        assert_eq!(net.read(sub), [expected]);
        net.ack(sub, PacketKind::PubAck, id);
    }
    let stats = net.shards[0].stats();
    assert_eq!((stats.publishes_out, stats.dropped_too_large), (3, 1));
    let conn = net.key_of(sub);
    let dropped = format!(
        "Dropped {{ conn: Some({conn:?}), client_id: \"sub\", topic: \"t\", \
         cause: \"over Maximum Packet Size\" }}"
    );
    assert!(net.wires[0].notices.contains(&dropped), "{:?}", net.wires[0].notices);
}
