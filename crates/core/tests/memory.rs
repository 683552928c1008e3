//! What a shard holds for its clients, by counting what it asks of the allocator.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::packet::{Connect, SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, Properties, Version};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CLIENTS: u32 = 100_000;

/// Filters of other nodes' clients.
const INTERESTS: u64 = 3_000_000;

/// Takes what is written, and forgets it.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _conn: ConnKey, _bytes: &[u8]) {}

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, _conn: ConnKey) {}

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {}

    fn mail(&mut self, _to: ShardId, _mail: Mail) {}

    fn notice(&mut self, _notice: Notice<'_>) {}
}

/// Bytes on the heap.
fn heap() -> i64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

fn connect(shard: &mut Shard, version: Version, at: u32, now: Micros) {
    let connect = Connect {
        version,
        clean_start: true,
        keep_alive_s: 60,
        client_id: &format!("client-{at:09}"),
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    };
    let mut bytes = Vec::new();
    connect.encode(&mut bytes);
    shard.opened(ConnKey(at), now);
    assert_eq!(shard.received(ConnKey(at), &bytes, now, &mut Nowhere), bytes.len());
}

fn subscribe(shard: &mut Shard, version: Version, at: u32, now: Micros) {
    let mut filters = SubscribeBuf::new();
    filters.push(&format!("v1/t{at}/+/m"), SubscriptionOptions::default());
    filters.push(&format!("v1/t{at}/d/m"), SubscriptionOptions::default());
    let mut bytes = Vec::new();
    let subscribe = filters.subscribe(version, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(version, &mut bytes);
    assert_eq!(shard.received(ConnKey(at), &bytes, now, &mut Nowhere), bytes.len());
}

/// One test, as the allocator counts for the whole process.
#[test]
fn what_a_shard_holds_is_little_and_after_a_storm_the_memory_is_back() {
    three_million_filters_of_other_nodes_take_26_mb_and_are_forgotten();
    an_idle_client_costs_little_and_after_a_storm_the_memory_is_back();
}

fn three_million_filters_of_other_nodes_take_26_mb_and_are_forgotten() {
    let begin = heap();
    let mut shard = Shard::of_node(ShardId(0), 0..2, Limits::default(), 1);
    let now = Micros(1_000_000);
    shard.set_clustered(1, Micros(1), weir_core::Wall(0));
    shard.node_joined(2..4, now, &mut Nowhere);
    for at in 0..INTERESTS {
        // Two in five have wildcards, and a few are of both shards.
        let end = ["state", "+", "alarm", "#", "info"][at as usize % 5];
        let filter = format!("fleet/{}/truck/{at}/{end}", at % 100).into();
        let from = ShardId(2 + at as u16 % 2);
        shard.mail(from, Mail::Interest { filter, number: at + 1 }, now, &mut Nowhere);
    }
    let bytes = heap() - begin;
    println!("{} bytes each", bytes as f64 / INTERESTS as f64);
    assert!(bytes < 26_000_000, "{bytes} bytes");
    assert_eq!(shard.stats().interests, INTERESTS);
    shard.node_lost(2..4, now, &mut Nowhere);
    let mut slices = 0;
    while let Some(due) = shard.poll_timeout() {
        shard.handle_timeout(due, &mut Nowhere);
        assert!(shard.steps() < u64::from(Limits::default().input_steps_max) + 100);
        slices += 1;
    }
    assert_eq!(shard.stats().interests, 0);
    assert!(slices > 100, "in {slices} slices");
    let left = heap() - begin;
    assert!(left < 256 * 1024, "{left} bytes are left");
}

fn an_idle_client_costs_little_and_after_a_storm_the_memory_is_back() {
    for version in [Version::V311, Version::V5] {
        let mut shard = Shard::new(ShardId(0), 1, Limits::default(), 1);
        let begin = heap();
        let mut now = Micros(1_000_000);
        for at in 0..CLIENTS {
            now = now + Micros(100);
            connect(&mut shard, version, at, now);
        }
        let each = (heap() - begin) / i64::from(CLIENTS);
        // Its socket has 56 more: under 168 of the 256 there are.
        assert!(each < 112, "{each} bytes a client");
        for at in 0..CLIENTS {
            subscribe(&mut shard, version, at, now);
        }
        // A few of the first stay, and nine in ten go in the order of their last digit.
        for at in (0..9).flat_map(|digit| (20..CLIENTS).filter(move |at| at % 10 == digit)) {
            shard.closed(ConnKey(at), now, &mut Nowhere);
        }
        for at in (29..CLIENTS).step_by(10) {
            shard.closed(ConnKey(at), now, &mut Nowhere);
        }
        assert_eq!(shard.stats().sessions, 20);
        let left = heap() - begin;
        assert!(left < 128 * 1024, "{left} bytes are left for 20 clients");
        assert_eq!(shard.stats().filters, 40);
    }
}
