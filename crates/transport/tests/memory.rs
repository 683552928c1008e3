//! What an idle connection holds, by counting what it asks of the allocator.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

#[path = "it/tls/support.rs"]
#[expect(dead_code, reason = "a part of what the other tests need")]
mod support;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use support::{COMPACT, Cuts, End, Kind, TLS13, exchange, pair};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes on the heap.
fn heap() -> i64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

/// Bytes of one connection of a server that has received and sent something, and is idle now.
fn idle(kind: Kind) -> i64 {
    let (_, _, server, client) = pair(kind);
    let mut client = End::new(client.layer("localhost").unwrap());
    let mut layer = End::new(server.layer());
    exchange(&mut client, &mut layer, &mut Cuts::every(100)).unwrap();
    client.says(&[1; 50_000]);
    layer.says(&[2; 50_000]);
    // What comes in parts is held, and let go.
    exchange(&mut client, &mut layer, &mut Cuts::every(1_000)).unwrap();
    assert_eq!((layer.plain.len(), client.plain.len()), (50_000, 50_000));
    let End { layer, .. } = layer;
    let before = heap();
    drop(layer);
    before - heap()
}

#[test]
fn an_idle_connection_keeps_its_keys_and_nothing_else() {
    // What is made once is there before anything is counted.
    idle(TLS13);
    let (rustls, compact) = (idle(TLS13), idle(COMPACT));
    println!("rustls {rustls}, compact {compact} bytes");
    assert!((1..=136).contains(&compact), "{compact} bytes");
    assert!(rustls > 10 * compact, "{rustls} bytes are rustls' own");
}
