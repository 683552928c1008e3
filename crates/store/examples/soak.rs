//! Whether a log grows that should not:
//! `cargo run --release -p weir-store --example soak -- [MILLIONS]`.
//!
//! So many millions of records each on two logs as the broker has them, on a disk in memory. The
//! log of a shard is written anew when it has grown to three times what it took, and then all
//! before that is forgotten; in a log of pages each record is released when it is no longer
//! wanted. What is alive stays the same, so what the disk holds must, too. 100 hours of 1,000
//! messages/s are 360 millions.

use std::collections::BTreeSet;
use weir_chance::Chance;
use weir_store::disk::FakeDisk;
use weir_store::{Body, Log, Lsn, OnDamage, Scan, Settings};

const SEGMENT_BYTES: u32 = 1 << 20;

/// Records that are alive at a time, and those of them that stay for ever.
const ALIVE: usize = 5_000;
const FOR_EVER: usize = 10;

/// How a shard's log may grow: to so many times what its last base took.
const BASES: u64 = 3;

const RECORD: [u8; 100] = [3; 100];
const RECORDS_PER_COMMIT: usize = 50;

struct Soak {
    disk: FakeDisk,
    log: Log,
    chance: Chance,
    live: BTreeSet<Lsn>,
    committed_bytes: u64,
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|number| number.parse().ok());
    let records = millions.unwrap_or(10_u64) * 1_000_000;
    Soak::new().run("a shard's log", records, Soak::anew);
    Soak::new().run("a log of pages", records, Soak::released);
}

impl Soak {
    fn new() -> Self {
        let mut disk = FakeDisk::new(1);
        let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
        let opened = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Heads, |_| {});
        let (log, _) = opened.expect("the disk is empty");
        let (chance, live) = (Chance::new(1), BTreeSet::new());
        Self { disk, log, chance, live, committed_bytes: 0 }
    }

    fn run(mut self, name: &str, records: u64, all: fn(&mut Self, u64)) {
        for part in 1..=10 {
            all(&mut self, records * part / 10);
            println!(
                "{name}, {part}0 %: {} KiB on the disk, {} KiB rewritten",
                self.log.disk_bytes() >> 10,
                self.log.rewritten_bytes() >> 10,
            );
        }
    }

    fn append(&mut self) -> Lsn {
        let body = Body { head: &[], tail: &RECORD };
        self.log.append(1, body, 1).expect("little waits")
    }

    fn append_all(&mut self, count: usize) {
        for _ in 0..count {
            self.append();
        }
    }

    /// As a shard does: nothing is released, but all is logged anew now and then.
    fn anew(&mut self, end: u64) {
        let (mut begun_at, mut base_bytes) = (self.committed_bytes, 0);
        while self.log.next_lsn().count() < end {
            self.append_all(RECORDS_PER_COMMIT);
            self.settle();
            let grown = self.committed_bytes - begun_at;
            if grown > (BASES * base_bytes).max(u64::from(SEGMENT_BYTES) / 2) {
                begun_at = self.committed_bytes;
                let begin = self.append();
                self.append_all(ALIVE - 1);
                self.settle();
                base_bytes = self.committed_bytes - begun_at;
                self.log.forget(begin);
                self.settle();
            }
        }
    }

    /// As the thread of the pages does: each is released by itself, in no order.
    fn released(&mut self, end: u64) {
        let mut pages: Vec<Lsn> = self.live.iter().copied().collect();
        while self.log.next_lsn().count() < end {
            for _ in 0..RECORDS_PER_COMMIT {
                let page = self.append();
                self.live.insert(page);
                pages.push(page);
                if pages.len() > ALIVE {
                    let at = FOR_EVER + self.chance.below(pages.len() - FOR_EVER);
                    let page = pages.swap_remove(at);
                    self.live.remove(&page);
                    self.log.release(page);
                }
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(commit) = self.log.take_commit() {
                self.committed_bytes += commit.bytes().len() as u64;
                commit.perform(&mut self.disk).expect("the disk has no faults");
                self.log.committed(commit);
            } else if let Some(mut chore) = self.log.take_chore() {
                chore.perform(&mut self.disk).expect("the disk has no faults");
                let done = self.log.chore_done(chore, |record| {
                    self.live.is_empty() || self.live.contains(&record.lsn)
                });
                done.expect("nothing is damaged");
            } else {
                return;
            }
        }
    }
}
