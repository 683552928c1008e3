//! Retained messages for a subscription. It is made again and again: each time they come anew.

use super::Workload;
use crate::hub::Hub;
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Frame, PacketId, Properties, QoS, Version};

const TOPICS: usize = 10_000;
const FLEETS: usize = 100;
const LOOKUPS: usize = 1000;

/// A subscription that finds the one message of its topic.
pub(super) const ONE: Workload = Workload {
    name: "retained-1-of-10000",
    operations: LOOKUPS as u64,
    prepare: || {
        let filters = (0..LOOKUPS).map(|at| topic(at * 7919 % TOPICS));
        subscribe_to(filters, 1)
    },
};

/// A subscription that finds 100 messages; the cost is of a message.
pub(super) const MANY: Workload = Workload {
    name: "retained-100-of-10000",
    operations: TOPICS as u64,
    prepare: || {
        let filters = (0..FLEETS).map(|fleet| format!("fleet/{fleet}/+/state"));
        subscribe_to(filters, TOPICS / FLEETS)
    },
};

fn topic(at: usize) -> String {
    format!("fleet/{}/truck-{at}/state", at % FLEETS)
}

/// Subscribes to every filter, each of which finds so many messages.
fn subscribe_to(filters: impl Iterator<Item = String>, messages: usize) -> Box<dyn FnMut()> {
    let mut hub = Hub::new();
    let publisher = hub.connect();
    let mut bytes = Vec::new();
    for at in 0..TOPICS {
        let publish = Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: true,
            topic: &topic(at),
            packet_id: None,
            properties: Properties::EMPTY,
            payload: &[0x61; 16],
        };
        publish.encode(Version::V311, &mut bytes);
    }
    hub.send(publisher, &bytes);
    let subscriber = hub.connect();
    let packets: Vec<Vec<u8>> = filters.map(|filter| subscribe(&filter)).collect();
    Box::new(move || {
        for packet in &packets {
            hub.send(subscriber, packet);
            let output = &mut hub.outputs.0[subscriber.0 as usize];
            assert_eq!(packets_in(output), 1 + messages, "SUBACK and the messages");
            output.clear();
        }
    })
}

fn subscribe(filter: &str) -> Vec<u8> {
    let mut filters = SubscribeBuf::new();
    let options = SubscriptionOptions { qos: QoS::AtMostOnce, ..Default::default() };
    filters.push(filter, options);
    let mut bytes = Vec::new();
    filters
        .subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY)
        .encode(Version::V311, &mut bytes);
    bytes
}

fn packets_in(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Some(frame)) = Frame::check(bytes, u32::MAX) {
        bytes = &bytes[frame.bytes..];
        count += 1;
    }
    count
}
