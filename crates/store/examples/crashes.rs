//! Crashes of a log, as many as wanted, and with a planted fault if one is named:
//! `cargo run --release -p weir-store --example crashes -- 1000000 [FAULT [SEED]]`.

#[path = "../tests/it/harness.rs"]
mod harness;

use harness::{PLANTS, World};

const LIVES: u64 = 30;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let crashes: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let name = arguments.next();
    let plant = name.as_ref().map(|name| {
        let known = PLANTS.iter().find(|plant| format!("{plant:?}") == *name);
        *known.unwrap_or_else(|| panic!("planted faults are {PLANTS:?}"))
    });
    let first: u64 = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (mut found, mut seeds, mut acknowledged, mut done) = (0, 0, 0, 0);
    let mut totals = Vec::new();
    for seed in first.. {
        let mut world = World::new(seed, plant);
        seeds += 1;
        for life in 0..LIVES {
            if let Err(what) = world.live() {
                found += 1;
                if found <= 10 {
                    println!("seed {seed} life {life}: {what}");
                }
                break;
            }
        }
        done += world.totals.crashes;
        acknowledged += world.totals.acknowledged;
        let all = &world.totals;
        totals.resize(6, 0);
        let each =
            [all.recovered, all.rewritten_bytes, all.recycled, all.pages, all.cut_bytes, all.full];
        totals.iter_mut().zip(each).for_each(|(total, one)| *total += one);
        if done >= crashes || seeds >= crashes {
            break;
        }
    }
    println!(
        "{done} crashes in {seeds} seeds, {acknowledged} records acknowledged: {found} findings"
    );
    println!("recovered, bytes rewritten, recycled, pages, bytes cut, full: {totals:?}");
}
