//! Whether a log grows that should not:
//! `cargo run --release -p weir-store --example soak -- [MILLIONS [MESSAGES]]`.
//!
//! So many millions of records on a disk in memory: messages of which so many wait at a time and
//! ten for ever, 10,000 sessions that are there for ever, and 1,000 topics whose retained message
//! comes, changes and goes. What is live stays the same, so what the disk holds must, too.

use std::collections::BTreeMap;
use weir_chance::Chance;
use weir_store::disk::FakeDisk;
use weir_store::{Body, Log, Lsn, OnDamage, Scan, Settings};

const SEGMENT_BYTES: u32 = 1 << 20;
const SESSIONS: usize = 10_000;
const TOPICS: usize = 1_000;
const FOR_EVER: usize = 10;
const RECORDS_PER_COMMIT: usize = 50;

/// The kinds of records: a retained message, that it is gone, another message, that it is done.
const RETAINED: u8 = 1;
const GONE: u8 = 2;
const MESSAGE: u8 = 3;
const DONE: u8 = 4;
const SESSION: u8 = 5;

struct Soak {
    disk: FakeDisk,
    log: Log,
    chance: Chance,
    /// The retained message of a topic, and the first one behind its last tombstone.
    retained: BTreeMap<usize, (Lsn, Lsn)>,
    /// Messages that wait, in no order.
    waiting: Vec<Lsn>,
    live: std::collections::BTreeSet<Lsn>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|number| number.parse().ok());
    let records = arguments.next().unwrap_or(10_usize) * 1_000_000;
    let messages = arguments.next().unwrap_or(20_000_usize);
    let mut disk = FakeDisk::new(1);
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    let opened = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Heads, |_| {});
    let (log, _) = opened.expect("the disk is empty");
    let mut soak = Soak {
        disk,
        log,
        chance: Chance::new(1),
        retained: BTreeMap::new(),
        waiting: Vec::new(),
        live: std::collections::BTreeSet::new(),
    };
    for _ in 0..SESSIONS {
        soak.append(SESSION, &[5; 40]);
    }
    let from = soak.log.next_lsn().count();
    for part in 1..=10 {
        let end = from + (records * part / 10) as u64;
        while soak.log.next_lsn().count() < end {
            (0..RECORDS_PER_COMMIT).for_each(|_| soak.step(messages));
            soak.settle();
        }
        println!(
            "{part}0 %: {} KiB on the disk, {} KiB rewritten, {} records live",
            soak.log.disk_bytes() >> 10,
            soak.log.rewritten_bytes() >> 10,
            soak.live.len(),
        );
    }
}

impl Soak {
    fn append(&mut self, kind: u8, tail: &[u8]) -> Lsn {
        let lsn = self.log.append(kind, Body { head: &[], tail }, 1).expect("little waits");
        self.live.insert(lsn);
        lsn
    }

    fn bury(&mut self, kind: u8, since: Lsn, dead: Lsn) {
        self.log.append_tombstone(kind, since, Body::default()).expect("little waits");
        self.release(dead);
    }

    fn release(&mut self, lsn: Lsn) {
        self.live.remove(&lsn);
        self.log.release(lsn);
    }

    fn step(&mut self, messages: usize) {
        let topic = self.chance.below(TOPICS);
        match (self.chance.below(10), self.retained.get(&topic).copied()) {
            (0, Some((lsn, first))) => {
                self.bury(GONE, first, lsn);
                self.retained.remove(&topic);
            }
            (0..3, known) => {
                let lsn = self.append(RETAINED, &[1; 100]);
                let first = known.map_or(lsn, |(_, first)| first);
                self.retained.insert(topic, (lsn, first));
                if let Some((old, _)) = known {
                    self.release(old);
                }
            }
            _ if self.waiting.len() >= messages => {
                let at = FOR_EVER + self.chance.below(self.waiting.len() - FOR_EVER);
                let lsn = self.waiting.swap_remove(at);
                self.bury(DONE, lsn, lsn);
            }
            _ => {
                let lsn = self.append(MESSAGE, &[3; 100]);
                self.waiting.push(lsn);
            }
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(commit) = self.log.take_commit() {
                commit.perform(&mut self.disk).expect("the disk has no faults");
                self.log.committed(commit);
            } else if let Some(mut chore) = self.log.take_chore() {
                chore.perform(&mut self.disk).expect("the disk has no faults");
                let done = self.log.chore_done(chore, |record| self.live.contains(&record.lsn));
                done.expect("nothing is damaged");
            } else {
                return;
            }
        }
    }
}
