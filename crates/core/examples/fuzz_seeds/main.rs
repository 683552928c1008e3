//! Writes the packets of every conversation in the byte tables to `fuzz/corpus/TARGET/`, where the
//! fuzz targets begin: what the client of a table sends, and what a shard answers. `scripts/fuzz`
//! runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use weir_conformance::{Offers, Received, Target, Version, run_case, tables, take_packet};
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::{self as wire, PacketKind};

#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/packet.rs"]
mod packet;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/shards/script.rs"]
mod script;

mod flows;

use packet::{FLAGS, Family, TARGETS, protocol};

/// Longer packets are no good seeds: most of the time would go into their payload.
const SEED_BYTES_MAX: usize = 8 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seeds = Seeds::default();
    for (_, table) in tables()? {
        for case in &table.cases {
            for &version in &case.versions {
                let mut broker = Broker::new();
                // Whether the case passes is the business of the conformance tests.
                run_case(case, version, "u", &Offers::all(), &mut broker);
                seeds.add_case(version, &broker.record);
            }
        }
    }
    flows::flows().into_iter().for_each(|script| seeds.add("core", script));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let count = seeds.write(&corpus)?;
    println!("{count} seeds for {} targets in fuzz/corpus", seeds.inputs.len());
    Ok(())
}

/// Inputs by target, none twice.
#[derive(Default)]
struct Seeds {
    inputs: BTreeMap<&'static str, BTreeSet<Vec<u8>>>,
}

impl Seeds {
    fn add_case(&mut self, version: Version, record: &Record) {
        // One shard, and two that get each other's letters at once.
        self.add("core", [&[0], &record.steps.concat()[..]].concat());
        let letters = [script::letters(0), script::letters(1)].concat();
        let steps: Vec<u8> =
            record.steps.iter().flat_map(|step| [&step[..], &letters].concat()).collect();
        self.add("core", [&[1], &steps[..]].concat());
        for stream in record.sent.values() {
            // No limit, one piece, then the stream.
            let head = [Version::V31, Version::V311, Version::V5].map(|known| known == version);
            let head = head.iter().position(|&is_it| is_it).unwrap_or_default();
            self.add("frames", [&[head as u8, 0], &stream[..]].concat());
        }
        for stream in record.sent.values().chain(record.received.values()) {
            let mut rest = stream.clone();
            while let Some(Received::Packet(packet)) = take_packet(&mut rest) {
                self.add_packet(version, &packet);
            }
        }
    }

    fn add_packet(&mut self, version: Version, packet: &[u8]) {
        let family = if version == Version::V5 { Family::V5 } else { Family::V3 };
        let length_bytes = packet[1..].iter().take_while(|&&byte| byte >= 0x80).count() + 1;
        let mut body = &packet[1 + length_bytes..];
        let is_of = |kind: PacketKind| kind as u8 == packet[0] >> 4;
        if is_of(PacketKind::Connect) {
            // In its target the protocol stands already.
            let versions = [wire::Version::V31, wire::Version::V311, wire::Version::V5];
            let strip = |version| body.strip_prefix(protocol(version));
            body = versions.into_iter().find_map(strip).unwrap_or(body);
        }
        let target = TARGETS.iter().find(|target| is_of(target.kind) && target.family == family);
        if let Some(target) = target {
            self.add(target.name, [&[packet[0] & FLAGS], body].concat());
        }
    }

    fn add(&mut self, target: &'static str, input: Vec<u8>) {
        if input.len() <= SEED_BYTES_MAX {
            self.inputs.entry(target).or_default().insert(input);
        }
    }

    fn write(&self, corpus: &Path) -> std::io::Result<usize> {
        for (target, inputs) in &self.inputs {
            let folder: PathBuf = corpus.join(target);
            fs::create_dir_all(&folder)?;
            for (number, input) in inputs.iter().enumerate() {
                fs::write(folder.join(format!("seed-{number:04}")), input)?;
            }
        }
        Ok(self.inputs.values().map(BTreeSet::len).sum())
    }
}

/// What went over each connection of a case.
#[derive(Default)]
struct Record {
    /// As a script of the core's target.
    steps: Vec<Vec<u8>>,
    sent: BTreeMap<u32, Vec<u8>>,
    received: BTreeMap<u32, Vec<u8>>,
}

/// One shard that records.
struct Broker {
    shard: Shard,
    wires: Wires,
    record: Record,
    unread: BTreeMap<u32, Vec<u8>>,
    now: Micros,
}

#[derive(Default)]
struct Wires {
    outputs: BTreeMap<u32, Vec<u8>>,
    ended: BTreeSet<u32>,
}

impl Broker {
    fn new() -> Self {
        Self {
            shard: Shard::new(ShardId(0), 1, Limits::default(), 42),
            wires: Wires::default(),
            record: Record::default(),
            unread: BTreeMap::new(),
            now: Micros(1_000_000),
        }
    }
}

impl Target for Broker {
    fn open(&mut self) -> Result<usize, String> {
        let conn = self.record.sent.len() as u32;
        self.record.sent.insert(conn, Vec::new());
        self.record.steps.push(script::open(conn as u8).to_vec());
        self.shard.opened(ConnKey(conn), self.now);
        Ok(conn as usize)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        let conn = connection as u32;
        self.record.sent.entry(conn).or_default().extend_from_slice(bytes);
        self.record.steps.push(script::raw(conn as u8, bytes));
        if self.wires.ended.contains(&conn) {
            return;
        }
        let unread = self.unread.entry(conn).or_default();
        unread.extend_from_slice(bytes);
        let consumed = self.shard.received(ConnKey(conn), unread, self.now, &mut self.wires);
        unread.drain(..consumed.min(unread.len()));
    }

    fn receive(&mut self, connection: usize, _expected: bool) -> Received {
        let conn = connection as u32;
        match take_packet(self.wires.outputs.entry(conn).or_default()) {
            Some(Received::Packet(packet)) => {
                self.record.received.entry(conn).or_default().extend_from_slice(&packet);
                Received::Packet(packet)
            }
            Some(other) => other,
            None if self.wires.ended.contains(&conn) => Received::Ended,
            None => Received::Nothing,
        }
    }

    fn close(&mut self, connection: usize) {
        let conn = connection as u32;
        if self.wires.ended.insert(conn) {
            self.record.steps.push(script::cut(conn as u8).to_vec());
            self.shard.closed(ConnKey(conn), self.now, &mut self.wires);
        }
    }

    fn pass(&mut self, millis: u64) {
        self.record.steps.push(script::WAIT_1_S.repeat(millis.div_ceil(1000) as usize));
        let end = self.now + Micros(millis * 1000);
        while let Some(due) = self.shard.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.shard.handle_timeout(self.now, &mut self.wires);
        }
        self.now = end;
    }
}

impl Sink for Wires {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.outputs.entry(conn.0).or_default().extend_from_slice(bytes);
    }

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, conn: ConnKey) {
        self.ended.insert(conn.0);
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {
        unreachable!("there is one shard");
    }

    fn mail(&mut self, _to: ShardId, _mail: Mail) {
        unreachable!("there is one shard");
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}
