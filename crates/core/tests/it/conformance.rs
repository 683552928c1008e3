//! The byte tables against a shard, without a network: every case of every table, on a clock that
//! is given.

use std::collections::BTreeMap;
use weir_conformance::{CaseOutcome, Offers, Received, Target, Verdict, Version, run_case, tables};
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};

/// One shard and what it wrote.
struct InProcess {
    shard: Shard,
    wires: Wires,
    now: Micros,
    /// Bytes that a connection has sent and the shard has not consumed.
    unread: BTreeMap<u32, Vec<u8>>,
    next: u32,
}

#[derive(Default)]
struct Wires {
    outputs: BTreeMap<u32, Vec<u8>>,
    ended: Vec<u32>,
}

impl Sink for Wires {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.outputs.entry(conn.0).or_default().extend_from_slice(bytes);
    }

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, conn: ConnKey) {
        self.ended.push(conn.0);
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {
        unreachable!("there is one shard");
    }

    fn mail(&mut self, _to: ShardId, _mail: Mail) {
        unreachable!("there is one shard");
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}

impl InProcess {
    fn new() -> Self {
        Self {
            shard: Shard::new(ShardId(0), 1, Limits::default(), 42),
            wires: Wires::default(),
            now: Micros(1_000_000),
            unread: BTreeMap::new(),
            next: 0,
        }
    }
}

impl Target for InProcess {
    fn open(&mut self) -> Result<usize, String> {
        let conn = self.next;
        self.next += 1;
        self.shard.opened(ConnKey(conn), self.now);
        Ok(conn as usize)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        let conn = connection as u32;
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
        let output = self.wires.outputs.entry(conn).or_default();
        if let Some(received) = weir_conformance::take_packet(output) {
            return received;
        }
        if self.wires.ended.contains(&conn) { Received::Ended } else { Received::Nothing }
    }

    fn close(&mut self, connection: usize) {
        let conn = connection as u32;
        if !self.wires.ended.contains(&conn) {
            self.wires.ended.push(conn);
            self.shard.closed(ConnKey(conn), self.now, &mut self.wires);
        }
    }

    fn pass(&mut self, millis: u64) {
        let end = self.now + Micros(millis * 1000);
        while let Some(due) = self.shard.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.shard.handle_timeout(self.now, &mut self.wires);
        }
        self.now = end;
    }
}

fn outcomes() -> Vec<CaseOutcome> {
    let mut target = InProcess::new();
    let mut outcomes = Vec::new();
    for (_, table) in tables().unwrap() {
        for case in &table.cases {
            for &version in &case.versions {
                let unique = format!("c{}", outcomes.len());
                outcomes.push(run_case(case, version, &unique, &Offers::all(), &mut target));
            }
        }
    }
    outcomes
}

#[test]
fn every_case_of_every_table_passes() {
    let outcomes = outcomes();
    let mut faults = Vec::new();
    for CaseOutcome { name, version, verdict, .. } in &outcomes {
        if let Verdict::Fail { step, why } = verdict {
            faults.push(format!("{version} {name}\n    at: {step}\n    {why}"));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), outcomes.len(), faults.join("\n"));
    for version in Version::ALL {
        assert!(outcomes.iter().any(|outcome| outcome.version == version), "no case for {version}");
    }
}
