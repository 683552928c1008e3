//! What all clients share between threads: one takes all that there is, and the others go on.

use crate::support::{Broker, Client};
use std::sync::atomic::{AtomicBool, Ordering};
use weir_broker::Config;
use weir_core::{Walk, walked_by};
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

/// Enough that some of them are on one shard, and their subscribers on another.
const CLIENTS: usize = 8;

#[test]
fn whoever_fills_the_letters_between_threads_holds_nobody_up_for_good() {
    assert_eq!(
        walked_by(Walk::Broker),
        ["letters between two threads: up to 8,192 in a ring, and bytes"]
    );
    let broker = Broker::start(Config { shards: 3, ..Config::default() });
    let join = |name: &str, count: usize| -> Vec<Client> {
        let all = (0..count).map(|at| broker.connect(&format!("{name}-{at}"), &[]));
        let mut all: Vec<Client> = all.collect();
        all.iter_mut().for_each(|one| assert_eq!(one.connack(), Some(ReasonCode::Success)));
        all
    };
    let mut others = join("other", CLIENTS);
    for (at, client) in others.iter_mut().enumerate() {
        client.subscribe(&format!("o/{at}"), QoS::AtLeastOnce);
    }
    // They do not read, on whichever shard they are.
    let (mut deaf, greedy) = (join("deaf", 3), join("greedy", 3));
    deaf.iter_mut().for_each(|deaf| deaf.subscribe("flood", QoS::AtMostOnce));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also if an assertion fails: nobody waits for a flood without an end.
        let _over = Over(&is_over);
        for mut greedy in greedy {
            let is_over = &is_over;
            // What it sends is bounded by what the broker takes from its socket.
            scope.spawn(move || {
                let flood = publish("flood", QoS::AtMostOnce, &[0; 64]).repeat(1_000);
                while !is_over.load(Ordering::Relaxed) {
                    greedy.send(&flood);
                }
            });
        }
        for round in 0..3 {
            for at in 0..CLIENTS {
                let topic = format!("o/{}", (at + 1) % CLIENTS);
                others[at].send(&publish(&topic, QoS::AtLeastOnce, &[round]));
                let mut has_ack = false;
                let mut got = None;
                while !has_ack {
                    has_ack = next(&mut others[at], &mut got);
                }
                while got.is_none() {
                    next(&mut others[(at + 1) % CLIENTS], &mut got);
                }
                assert_eq!(got, Some(round));
            }
        }
    });
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a packet. Says whether it is the acknowledgement; notes the message that it is.
fn next(client: &mut Client, got: &mut Option<u8>) -> bool {
    let read = client.packet(|packet| match packet {
        Packet::PubAck(ack) => {
            assert_eq!(ack.reason, ReasonCode::Success);
            None
        }
        Packet::Publish(publish) => Some(publish.payload[0]),
        other => panic!("{other:?}"),
    });
    let read = read.expect("the broker answers");
    *got = got.or(read);
    read.is_none()
}

fn publish(topic: &str, qos: QoS, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: (qos != QoS::AtMostOnce).then_some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload,
    }
    .encode(Version::V5, &mut bytes);
    bytes
}
