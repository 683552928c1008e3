//! Memory that the core needs per connection and per subscription: `memory [CONNECTIONS...]`.
//!
//! "asked" is what was asked of the allocator, "resident" what the process grew by, the
//! allocator's own rounding in it.

use procfs::process::Process;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::Instant;
use weir_costs::memory::{Held, messages, subscribers};
use weir_wire::Version;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// At and just past a power of two, where what doubles is fullest and emptiest.
const CONNECTIONS: [u32; 4] = [100_000, 131_072, 131_073, 1_000_000];
const FILTERS: u32 = 1_000_000;
const MESSAGES: u32 = 300_000;

fn main() -> anyhow::Result<()> {
    let asked: Vec<u32> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let counts = if asked.is_empty() { CONNECTIONS.to_vec() } else { asked };
    println!(
        "{:>8} {:>11} {:>9} {:>9} {:>11}",
        "version", "connections", "asked B", "resident", "left B all"
    );
    for version in [Version::V311, Version::V5] {
        for &count in &counts {
            connections(version, count)?;
        }
    }
    subscriptions()
}

fn connections(version: Version, count: u32) -> anyhow::Result<()> {
    let mut held = Held::default();
    let before = (heap(), resident()?);
    held.connect(version, count);
    let grown = (heap() - before.0, resident()? - before.1);
    let each = |bytes: i64| bytes as f64 / f64::from(count);
    held.leave(count);
    let left = heap() - before.0;
    let version = format!("{version:?}");
    let (asked, resident) = (each(grown.0), each(grown.1));
    println!("{version:>8} {count:>11} {asked:>9.1} {resident:>9.1} {left:>11}");
    Ok(())
}

fn subscriptions() -> anyhow::Result<()> {
    for filters in [1, FILTERS] {
        let mut held = Held::default();
        held.connect(Version::V311, subscribers(filters));
        let packets = messages(MESSAGES, FILTERS);
        let before = (heap(), resident()?);
        held.subscribe(filters);
        let grown = (heap() - before.0, resident()? - before.1);
        let each = |bytes: i64| bytes as f64 / f64::from(filters);
        let begin = Instant::now();
        let delivered = held.publish(&packets);
        let ns = begin.elapsed().as_nanos() as f64 / f64::from(MESSAGES);
        println!(
            "{filters} subscriptions to {} filters: {:.1} B asked, {:.1} B resident each; a \
             message: {:.2} deliveries, {ns:.0} ns",
            held.filters(),
            each(grown.0),
            each(grown.1),
            delivered as f64 / f64::from(MESSAGES),
        );
    }
    Ok(())
}

/// Bytes on the heap.
fn heap() -> i64 {
    let stats = ALLOCATOR.stats();
    // What a reallocation grew or shrank by is counted as allocated or freed already.
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

fn resident() -> anyhow::Result<i64> {
    let pages = Process::myself()?.statm()?.resident;
    Ok((pages * procfs::page_size()) as i64)
}
