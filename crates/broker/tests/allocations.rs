//! Once warm, a message costs no allocation, on whichever shards its publisher and subscribers are.
//! The whole process is counted: the clients here use memory that they have.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, clippy::allow_attributes)]
#![allow(clippy::allow_attributes_without_reason)]

#[path = "it/support.rs"]
mod support;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use support::{Broker, subscribe};
use weir_broker::Config;
use weir_wire::packet::Publish;
use weir_wire::{PacketId, PacketKind, Properties, QoS, Version};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Enough that each of two shards owns some.
const CLIENTS: usize = 8;
const WARM_UP: usize = 300;
const ROUNDS: usize = 300;
/// Of [`packet`], and of a letter or a buffer more on its way at a time than ever before.
const ALLOCATIONS_MAX: usize = 12;
/// A telemetry message, for conditions.
const PAYLOAD: &[u8] = br#"{"t":1,"pos":{"s":64},"p":{"mcc":257,"mnc":2},"pad":"...."}"#;
const TOPIC: &str = "some/topic";

struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    bytes: usize,
}

impl Peer {
    fn join(broker: &Broker, name: &str) -> Self {
        let mut client = broker.connect(name, &[]);
        client.connack();
        Self { stream: client.stream, buffer: vec![0; 4096], bytes: 0 }
    }

    /// The next packet, which is of this kind, and its identifier, which is where each PUBLISH here
    /// has it.
    fn expect(&mut self, kind: PacketKind) -> PacketId {
        while self.bytes < 2 || self.bytes < 2 + usize::from(self.buffer[1]) {
            let read = self.stream.read(&mut self.buffer[self.bytes..]).unwrap();
            assert!(read > 0, "the connection ended");
            self.bytes += read;
        }
        assert_eq!(self.buffer[0] >> 4, kind as u8, "{kind:?} was expected");
        let length = 2 + usize::from(self.buffer[1]);
        let at = if kind == PacketKind::Publish { 2 + 2 + TOPIC.len() } else { 2 };
        let packet_id = u16::from_be_bytes([self.buffer[at], self.buffer[at + 1]]);
        self.buffer.copy_within(length..self.bytes, 0);
        self.bytes -= length;
        PacketId::new(packet_id).unwrap_or(PacketId::FIRST)
    }

    fn has_input(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let is_there = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        is_there
    }

    fn answer(&mut self, kind: PacketKind, packet_id: PacketId) {
        let [high, low] = packet_id.value().to_be_bytes();
        self.stream.write_all(&[kind.first_byte(), 2, high, low]).unwrap();
    }

    fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.stream.write_all(&subscribe(filter, qos)).unwrap();
        self.expect(PacketKind::SubAck);
    }

    /// Takes a message and does its handshake.
    fn take(&mut self, qos: QoS) {
        let packet_id = self.expect(PacketKind::Publish);
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.answer(PacketKind::PubAck, packet_id),
            QoS::ExactlyOnce => {
                self.answer(PacketKind::PubRec, packet_id);
                let packet_id = self.expect(PacketKind::PubRel);
                self.answer(PacketKind::PubComp, packet_id);
            }
        }
    }
}

fn packet(qos: QoS) -> Vec<u8> {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: TOPIC,
        packet_id: (qos != QoS::AtMostOnce).then_some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload: PAYLOAD,
    }
    .encode(Version::V5, &mut bytes);
    bytes
}

/// A message from each publisher in turn, to every subscriber or, where they share it, to one.
fn rounds(
    publishers: &mut [Peer],
    subscribers: &mut [Peer],
    qos: QoS,
    is_shared: bool,
    count: usize,
) {
    let packet = packet(qos);
    for round in 0..count {
        let publisher = &mut publishers[round % CLIENTS];
        publisher.stream.write_all(&packet).unwrap();
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => {
                publisher.expect(PacketKind::PubAck);
            }
            QoS::ExactlyOnce => {
                let packet_id = publisher.expect(PacketKind::PubRec);
                publisher.answer(PacketKind::PubRel, packet_id);
                publisher.expect(PacketKind::PubComp);
            }
        }
        if is_shared {
            let chosen = loop {
                match subscribers.iter().position(Peer::has_input) {
                    Some(at) => break at,
                    None => std::thread::yield_now(),
                }
            };
            subscribers[chosen].take(qos);
        } else {
            subscribers.iter_mut().for_each(|subscriber| subscriber.take(qos));
        }
    }
}

#[test]
fn a_message_costs_no_allocation() {
    for (filter, is_shared) in [
        (TOPIC, false),
        ("$share/group/some/+", true),
        ("$filter/payload.pos.s%20>%2060%20&&%20has(payload.p.mcc)/some/#", false),
        ("$share/group/$filter/has(payload.p.mcc)/some/#", true),
    ] {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let broker = Broker::start(Config { shards: 2, ..Config::default() });
            let join = |role: &str| -> Vec<Peer> {
                (0..CLIENTS).map(|at| Peer::join(&broker, &format!("{role}-{at}"))).collect()
            };
            let (mut publishers, mut subscribers) = (join("publisher"), join("subscriber"));
            subscribers.iter_mut().for_each(|subscriber| subscriber.subscribe(filter, qos));
            let mut rounds =
                |count| rounds(&mut publishers, &mut subscribers, qos, is_shared, count);
            rounds(WARM_UP);
            let region = Region::new(ALLOCATOR);
            rounds(ROUNDS);
            let change = region.change();
            let allocations = change.allocations + change.reallocations;
            assert!(allocations <= ALLOCATIONS_MAX, "{filter} {qos:?}: {change:?}");
        }
    }
}
