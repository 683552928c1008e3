//! Bases while a shard runs: when they go on, and what they write.

use crate::net::{Ask, Net};
use crate::rebuild::{DURABLE, begun, rebuild, sessions};
use weir_core::{Limits, Lsn, Record, Wall};
use weir_wire::packet::Will;
use weir_wire::{PacketKind, Properties, QoS};

fn begin(net: &mut Net) {
    net.shards[0].begin_base(net.now, &mut net.wires[0]);
}

fn is_basing(net: &Net) -> bool {
    net.shards[0].is_basing()
}

/// Records of a kind from this place of the log on.
fn count(net: &Net, from: usize, kind: &Record<'_>) -> usize {
    net.wires[0].log[from..].iter().filter(|&&(_, it, _)| it == kind.kind()).count()
}

fn a_message() -> Record<'static> {
    Record::Message {
        topic: "",
        payload: &[],
        properties: &[],
        qos: QoS::AtMostOnce,
        retain: false,
        expires_at: None,
    }
}

/// Absent sessions with a subscription to `t`.
fn absent(net: &mut Net, count: usize) {
    for number in 0..count {
        let peer = net.join(&format!("s{number}"), DURABLE);
        net.subscribe(peer, "t", QoS::AtLeastOnce);
        net.go_on();
        net.cut(peer);
    }
    net.commit(0);
}

#[test]
fn a_base_goes_on_in_slices_each_when_the_one_before_is_committed() {
    let limits = Limits { input_steps_max: 100, ..Limits::default() };
    let mut net = begun(&limits);
    absent(&mut net, 100);
    let before = net.shards[0].base();
    net.steps_seen_max = 0;
    begin(&mut net);
    let base = net.wires[0].log.last().unwrap().0;
    net.go_on();
    let mut slices = 1;
    while is_basing(&net) {
        assert_eq!(net.shards[0].base(), before, "until it is done it is the one before");
        let length = net.wires[0].log.len();
        // Whoever asks for one now has it already.
        begin(&mut net);
        net.go_on();
        assert_eq!(net.wires[0].log.len(), length, "the slice is not committed yet");
        net.commit(0);
        net.go_on();
        slices += 1;
        assert!(slices < 50);
    }
    assert!(slices >= 5, "{slices}");
    assert!(net.steps_seen_max < 120, "{}", net.steps_seen_max);
    let end = net.wires[0].log.last().unwrap().0;
    assert_eq!(net.shards[0].base(), Some((base, end)));
    net.go_on();
    assert_eq!(net.wires[0].log.last().unwrap().0, end);
    // The next one begins anew.
    begin(&mut net);
    assert!(is_basing(&net) && net.wires[0].log.last().unwrap().0 > end);
}

#[test]
fn others_are_served_between_the_slices_of_a_base() {
    let limits = Limits { input_steps_max: 100, ..Limits::default() };
    let mut net = begun(&limits);
    absent(&mut net, 100);
    let publisher = net.join("p", Ask::default());
    begin(&mut net);
    net.go_on();
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    assert!(is_basing(&net) && net.read(publisher).is_empty());
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    let end = net.wires[0].log.len();
    let whole = rebuild(&net.wires[0].log, &[end]).unwrap();
    assert_eq!(sessions(whole, net.now).len(), 100);
}

#[test]
fn a_connected_session_is_logged_with_the_will_of_its_connection_and_is_not_absent() {
    let (topic, payload, qos, retain) = ("w", b"lost", QoS::AtLeastOnce, false);
    let will = Will { topic, payload, qos, retain, properties: Properties::EMPTY };
    let mut net = begun(&Limits::default());
    let peer = net.join("s", Ask { will: Some(will), ..DURABLE });
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    net.publish(peer, "t", QoS::ExactlyOnce, 1, "a");
    net.publish(peer, "t", QoS::AtLeastOnce, 2, "b");
    net.ack(peer, PacketKind::PubRec, 1);
    net.commit(0);
    let from = net.wires[0].log.len();
    begin(&mut net);
    net.go_on();
    assert!(!is_basing(&net));
    let log = net.wires[0].log.clone();
    let records = log[from..]
        .iter()
        .map(|(lsn, kind, body)| (*lsn, Record::decode(*kind, body, Wall(0)).unwrap()));
    let records: Vec<(Lsn, Record<'_>)> = records.collect();
    let [begin, (session, begun), rest @ .., gone, end] = &records[..] else {
        panic!("{records:?}")
    };
    let Record::Session { session: Lsn::NONE, client_id: "s", expiry_s: 60, will } = begun else {
        panic!("{begun:?}")
    };
    assert_eq!(will.as_ref().unwrap().topic, "w");
    assert_eq!((&begin.1, &end.1), (&Record::Base, &Record::BaseEnd));
    let kinds: Vec<_> = rest.iter().map(|(_, record)| record.kind()).collect();
    assert_eq!(kinds, [4, 12, 10, 6, 7]);
    // Its copy is whole.
    assert!(matches!(gone.1, Record::Gone { session: before } if before < begin.0), "{gone:?}");
    // From here on it has its new name.
    net.ack(peer, PacketKind::PubAck, 2);
    let (_, kind, body) = net.wires[0].log.last().unwrap();
    let done = Record::decode(*kind, body, Wall(0)).unwrap();
    assert!(matches!(done, Record::Done { session: of, .. } if of == *session), "{done:?}");
}

#[test]
fn a_message_that_several_wait_for_is_logged_once_a_base() {
    let limits = Limits { input_steps_max: 1, ..Limits::default() };
    let mut net = begun(&limits);
    absent(&mut net, 3);
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.commit(0);
    for round in 1..=2 {
        let from = net.wires[0].log.len();
        begin(&mut net);
        for _ in 0..10 {
            net.go_on();
            net.commit(0);
        }
        assert!(!is_basing(&net));
        assert_eq!(count(&net, from, &a_message()), 1, "round {round}");
    }
    let log = &net.wires[0].log;
    assert_eq!(sessions(rebuild(log, &[]).unwrap(), net.now).len(), 3);
}

#[test]
fn without_a_log_there_is_no_base() {
    let mut net = Net::new(1);
    begin(&mut net);
    assert!(!is_basing(&net) && net.wires[0].log.is_empty());
    net.shards[0].end_base(net.now, &mut net.wires[0]);
    assert_eq!(net.shards[0].base(), None);
}

#[test]
fn a_client_whose_connack_waits_is_connected_in_a_base() {
    let mut net = begun(&Limits::default());
    let properties = Properties::EMPTY;
    let (topic, payload, qos, retain) = ("w", &b"gone"[..], QoS::AtLeastOnce, false);
    let will = Some(Will { topic, payload, qos, retain, properties });
    net.connect("s", Ask { will, expiry_s: 4, ..DURABLE });
    begin(&mut net);
    net.go_on();
    net.commit(0);
    net.go_on();
    assert!(!is_basing(&net));
    let log = &net.wires[0].log;
    let base = net.shards[0].base().unwrap().0;
    let from = log.iter().position(|&(lsn, ..)| lsn == base).unwrap();
    let again = sessions(rebuild(&log[from..], &[]).unwrap(), net.now);
    assert_eq!(again, sessions(rebuild(log, &[]).unwrap(), net.now));
    assert!(again[0].contains("gone") || again[0].contains("will_at: Some"), "{again:?}");
}
