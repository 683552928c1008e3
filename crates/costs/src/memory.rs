//! Broker states of which the memory is measured, and nothing around them: what the core writes
//! goes nowhere.

use crate::packets;
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, Properties, QoS, Version};

/// Wildcards stand in 30 of 100 filters: 19 with `+`, 11 with `#`.
const PLUS_OF_100: u32 = 19;
const HASH_OF_100: u32 = 11;

/// Filters of one session.
const FILTERS_EACH: u32 = 1000;

/// One shard, whose output is thrown away but for the count of its packets.
#[derive(Debug)]
pub struct Held {
    shard: Shard,
    sink: Count,
    now: Micros,
}

/// Writes since the start.
#[derive(Debug, Default)]
struct Count(u64);

impl Sink for Count {
    fn write(&mut self, _conn: ConnKey, _bytes: &[u8]) {
        self.0 += 1;
    }

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, conn: ConnKey) {
        panic!("connection {} was ended", conn.0);
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {
        unreachable!("there is one shard");
    }

    fn mail(&mut self, _to: ShardId, _mail: Mail) {
        unreachable!("there is one shard");
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}

impl Default for Held {
    fn default() -> Self {
        let shard = Shard::new(ShardId(0), 1, Limits::default(), 1);
        Self { shard, sink: Count::default(), now: Micros(1_000_000) }
    }
}

impl Held {
    /// Connects the clients `0..count`, each with an identifier of 16 bytes, a clean start and a
    /// keep alive of 60 s, a hundred microseconds apart.
    pub fn connect(&mut self, version: Version, count: u32) {
        for at in 0..count {
            let packet = packets::connect(version, &format!("client-{at:09}"));
            self.now = self.now + Micros(100);
            self.shard.opened(ConnKey(at), self.now);
            self.send(at, &packet);
        }
        assert_eq!(self.shard.stats().sessions, u64::from(count));
    }

    /// All of the clients `0..count` leave.
    pub fn leave(&mut self, count: u32) {
        for at in 0..count {
            self.shard.closed(ConnKey(at), self.now, &mut self.sink);
        }
        assert_eq!(self.shard.stats().sessions, 0);
    }

    /// The first clients subscribe to the filters `0..count` of [`filter`], a thousand each.
    pub fn subscribe(&mut self, count: u32) {
        let mut packet = Vec::new();
        for at in 0..count {
            let mut filters = SubscribeBuf::new();
            filters.push(&filter(at), SubscriptionOptions::default());
            packet.clear();
            let subscribe = filters.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
            subscribe.encode(Version::V311, &mut packet);
            self.send(at / FILTERS_EACH, &packet);
        }
    }

    /// The client 0 publishes each of `packets`; returns how many deliveries followed.
    pub fn publish(&mut self, packets: &[Vec<u8>]) -> u64 {
        let before = self.sink.0;
        for packet in packets {
            self.send(0, packet);
        }
        self.sink.0 - before
    }

    /// Different filters that are subscribed to.
    #[must_use]
    pub fn filters(&self) -> u64 {
        self.shard.stats().filters
    }

    fn send(&mut self, conn: u32, packet: &[u8]) {
        let consumed = self.shard.received(ConnKey(conn), packet, self.now, &mut self.sink);
        assert_eq!(consumed, packet.len());
    }
}

/// The clients that [`Held::subscribe`] needs.
#[must_use]
pub fn subscribers(filters: u32) -> u32 {
    filters.div_ceil(FILTERS_EACH).max(1)
}

/// The `at`th of the filters `v1/tT/dD/mM`, 19 % with `+` and 11 % with `#` somewhere.
#[must_use]
pub fn filter(at: u32) -> String {
    let [t, d, m] = parts(at);
    match (at % 100, at % 3) {
        (kind, 0) if kind < PLUS_OF_100 => format!("v1/+/d{d}/m{m}"),
        (kind, 1) if kind < PLUS_OF_100 => format!("v1/t{t}/+/m{m}"),
        (kind, _) if kind < PLUS_OF_100 => format!("v1/t{t}/d{d}/+"),
        (kind, 0) if kind < PLUS_OF_100 + HASH_OF_100 => format!("v1/t{t}/#"),
        (kind, _) if kind < PLUS_OF_100 + HASH_OF_100 => format!("v1/t{t}/d{d}/#"),
        _ => format!("v1/t{t}/d{d}/m{m}"),
    }
}

/// `count` messages of QoS 0 with 16 bytes to topics that the filters `0..filters` are about.
#[must_use]
pub fn messages(count: u32, filters: u32) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for at in 0..count {
        let [t, d, m] = parts(scattered(at) % filters);
        let publish = Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: &format!("v1/t{t}/d{d}/m{m}"),
            packet_id: None,
            properties: Properties::EMPTY,
            payload: &[0x61; 16],
        };
        let mut packet = Vec::new();
        publish.encode(Version::V311, &mut packet);
        packets.push(packet);
    }
    packets
}

/// Tenant, device and measure.
fn parts(at: u32) -> [u32; 3] {
    [at / 1000 % 1000, scattered(at / 10) % 10_000, at % 10]
}

fn scattered(number: u32) -> u32 {
    (number ^ (number >> 15)).wrapping_mul(0x9E37_79B1).rotate_left(13).wrapping_mul(0x85EB_CA6B)
}
