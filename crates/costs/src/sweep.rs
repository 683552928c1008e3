//! What a message costs in the core as something grows: filters, topics. Times, not counts: what
//! grows is memory that no cache holds.
//!
//! The topics are `v1/tT/dD/mM`, drawn at random; of the filters 70 % are exact, 19 % have a `+`,
//! 11 % end in `#`. They are published and subscribed through the front door, so that a figure is
//! of decoding, matching and delivering one message: [`Point::floor_ns`] is of the same messages
//! with nothing to search.

use crate::hub::Hub;
use crate::packets::publish;
use std::collections::HashSet;
use std::time::Instant;
use weir_core::ConnKey;
use weir_wire::QoS;

/// Topics that the messages are drawn from, but where topics are what grows.
pub const TOPICS: usize = 300_000;

/// Messages of one pass.
const MESSAGES: usize = 100_000;
const PASSES: usize = 5;

/// Sessions that share the filters; no one reaches its bound of subscriptions.
const SESSIONS: usize = 1000;

/// Numbers of tenants, devices and measurements: a billion topics.
const LEVELS: u64 = 1000;

/// One point of a curve.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Filters or topics.
    pub count: usize,
    /// Nanoseconds per message, median of the passes.
    pub message_ns: f64,
    /// The same with one filter, `#`, of one subscriber.
    pub floor_ns: f64,
    /// Deliveries per message.
    pub hits: f64,
    /// Growth of resident memory by the filters, each; nothing where they are few.
    pub filter_bytes: Option<f64>,
}

/// Numbers from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn topic(&mut self) -> [u64; 3] {
        [(); 3].map(|()| self.below(LEVELS))
    }
}

fn name([tenant, device, measurement]: [u64; 3]) -> String {
    format!("v1/t{tenant}/d{device}/m{measurement}")
}

/// A filter that matches `topic`, of the kind that its place in a hundred says.
fn filter([tenant, device, measurement]: [u64; 3], place: usize) -> String {
    match place % 100 {
        0..70 => name([tenant, device, measurement]),
        70..77 => format!("v1/t{tenant}/d{device}/+"),
        77..83 => format!("v1/t{tenant}/+/m{measurement}"),
        83..89 => format!("v1/+/d{device}/m{measurement}"),
        _ => format!("v1/t{tenant}/d{device}/#"),
    }
}

/// A shard with filters, and messages for it.
pub struct Bed {
    hub: Hub,
    publisher: ConnKey,
    packets: Vec<Vec<u8>>,
    /// Growth of resident memory by the filters, each.
    pub filter_bytes: Option<f64>,
}

impl Bed {
    /// With `filters` distinct filters, and messages to topics that are drawn from `topics`.
    pub fn new(filters: usize, topics: usize) -> Self {
        let mut chance = Chance(1);
        let names: Vec<[u64; 3]> = (0..topics).map(|_| chance.topic()).collect();
        let mut hub = Hub::new();
        let publisher = hub.connect();
        let sessions: Vec<ConnKey> = (0..SESSIONS).map(|_| hub.connect()).collect();
        let mut known = HashSet::with_capacity(filters);
        // The topics of the messages first, in an order of their own; then any.
        let texts: Vec<String> = (0..)
            .filter_map(|place: usize| {
                let topic = names.get(place).copied().unwrap_or_else(|| chance.topic());
                let text = filter(topic, place * 61);
                known.insert(text.clone()).then_some(text)
            })
            .take(filters)
            .collect();
        drop(known);
        let before = resident_bytes();
        for (at, text) in texts.iter().enumerate() {
            hub.subscribe(sessions[at % SESSIONS], text, QoS::AtMostOnce);
        }
        let grown = resident_bytes().saturating_sub(before);
        let filter_bytes = (filters >= 10_000).then(|| grown as f64 / filters as f64);
        let mut chance = Chance(2);
        let draw = |_| {
            let topic = name(names[chance.below(topics as u64) as usize]);
            publish(&topic, QoS::AtMostOnce, 16)
        };
        let packets = (0..MESSAGES).map(draw).collect();
        Self { hub, publisher, packets, filter_bytes }
    }

    /// With the one filter that matches everything.
    pub fn floor(topics: usize) -> Self {
        let mut bed = Self::new(0, topics);
        let subscriber = bed.hub.connect();
        bed.hub.subscribe(subscriber, "#", QoS::AtMostOnce);
        bed
    }

    /// Messages of a pass.
    pub const MESSAGES: usize = MESSAGES;

    /// Publishes every message once. The result is how many deliveries that made.
    pub fn pass(&mut self) -> usize {
        for packet in &self.packets {
            self.hub.send(self.publisher, packet);
        }
        let packet_bytes = |bytes: &[u8]| usize::from(bytes[1]) + 2;
        let mut deliveries = 0;
        for output in &mut self.hub.outputs.0 {
            let mut rest = &output[..];
            while !rest.is_empty() {
                rest = &rest[packet_bytes(rest)..];
                deliveries += 1;
            }
            output.clear();
        }
        deliveries
    }
}

/// The curve's point at `filters` filters.
pub fn filters(filters: usize) -> Point {
    let mut bed = Bed::new(filters, TOPICS);
    let (message_ns, hits) = measure(&mut bed);
    let filter_bytes = bed.filter_bytes;
    drop(bed);
    let (floor_ns, _) = measure(&mut Bed::floor(TOPICS));
    Point { count: filters, message_ns, floor_ns, hits, filter_bytes }
}

/// The curve's point at `topics` distinct topics, each with one exact filter.
pub fn topics(topics: usize) -> Point {
    let mut bed = Bed::new(0, topics);
    let mut known = HashSet::new();
    let subscriber: Vec<ConnKey> = (0..SESSIONS).map(|_| bed.hub.connect()).collect();
    let mut chance = Chance(1);
    for at in 0..topics {
        let text = name(chance.topic());
        if known.insert(text.clone()) {
            bed.hub.subscribe(subscriber[at % SESSIONS], &text, QoS::AtMostOnce);
        }
    }
    let (message_ns, hits) = measure(&mut bed);
    drop(bed);
    let (floor_ns, _) = measure(&mut Bed::floor(topics));
    Point { count: topics, message_ns, floor_ns, hits, filter_bytes: None }
}

/// Nanoseconds and deliveries per message.
fn measure(bed: &mut Bed) -> (f64, f64) {
    let mut deliveries = bed.pass();
    let mut passes: Vec<f64> = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            deliveries = bed.pass();
            start.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64
        })
        .collect();
    passes.sort_by(f64::total_cmp);
    (passes[PASSES / 2], deliveries as f64 / MESSAGES as f64)
}

fn resident_bytes() -> u64 {
    let memory = procfs::process::Process::myself().and_then(|process| process.statm());
    memory.map_or(0, |memory| memory.resident * procfs::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_finds_the_filters_that_were_made_of_its_topic() {
        let point = filters(1000);
        assert!(point.hits > 0.0 && point.message_ns > 0.0, "{point:?}");
        // Each topic has a filter of its own, and no other.
        let point = topics(50);
        assert!((point.hits - 1.0).abs() < 1e-9, "{point:?}");
    }

    #[test]
    fn the_mix_of_filters_is_as_it_is_said() {
        let texts: Vec<String> = (0..100).map(|place| filter([1, 2, 3], place * 61)).collect();
        let count = |mark| texts.iter().filter(|text| text.contains(mark)).count();
        assert_eq!((count('+'), count('#')), (19, 11));
    }
}
