//! The byte tables against shards, without a network: every case of every table, on a clock that
//! is given.

use crate::net::Net;
use weir_conformance::{CaseOutcome, Offers, Received, Target, Verdict, Version, run_case, tables};
use weir_core::Micros;

/// A broker of some shards, whose letters arrive at once.
struct InProcess(Net);

impl Target for InProcess {
    fn open(&mut self) -> Result<usize, String> {
        Ok(self.0.open(weir_wire::Version::V5))
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        if !self.0.is_closed(connection) {
            self.0.send_bytes(connection, bytes);
            self.0.deliver_mail();
        }
    }

    fn receive(&mut self, connection: usize, _expected: bool) -> Received {
        if let Some(received) = weir_conformance::take_packet(self.0.output(connection)) {
            return received;
        }
        if self.0.is_closed(connection) { Received::Ended } else { Received::Nothing }
    }

    fn close(&mut self, connection: usize) {
        if !self.0.is_closed(connection) {
            self.0.cut(connection);
            self.0.deliver_mail();
        }
    }

    fn pass(&mut self, millis: u64) {
        self.0.pass_time(Micros(millis * 1_000));
        self.0.deliver_mail();
    }
}

/// A broker that tells receivers of retained messages when those expire, whoever published them.
struct AddsExpiry(InProcess);

impl Target for AddsExpiry {
    fn open(&mut self) -> Result<usize, String> {
        self.0.open()
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        self.0.send(connection, bytes);
    }

    fn receive(&mut self, connection: usize, expected: bool) -> Received {
        match self.0.receive(connection, expected) {
            Received::Packet(packet) => Received::Packet(with_expiry(packet)),
            other => other,
        }
    }

    fn close(&mut self, connection: usize) {
        self.0.close(connection);
    }

    fn pass(&mut self, millis: u64) {
        self.0.pass(millis);
    }
}

/// With a Message Expiry Interval of a minute, if it is a retained message without one. All lengths
/// are less than 128 here, a byte each.
fn with_expiry(mut packet: Vec<u8>) -> Vec<u8> {
    const MESSAGE_EXPIRY: [u8; 5] = [2, 0, 0, 0, 60];
    let first = packet[0];
    if first >> 4 != 3 || first & 1 == 0 || packet[1] >= 120 {
        return packet;
    }
    let topic_bytes = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let packet_id_bytes = if first & 6 == 0 { 0 } else { 2 };
    let properties = 4 + topic_bytes + packet_id_bytes;
    if packet[properties] > 0 && packet[properties + 1] == MESSAGE_EXPIRY[0] {
        return packet;
    }
    packet[1] += MESSAGE_EXPIRY.len() as u8;
    packet[properties] += MESSAGE_EXPIRY.len() as u8;
    packet.splice(properties + 1..=properties, MESSAGE_EXPIRY);
    packet
}

fn outcomes(target: &mut impl Target, versions: &[Version]) -> Vec<CaseOutcome> {
    let mut outcomes = Vec::new();
    for (_, table) in tables().unwrap() {
        for case in &table.cases {
            for &version in case.versions.iter().filter(|version| versions.contains(version)) {
                let unique = format!("c{}", outcomes.len());
                outcomes.push(run_case(case, version, &unique, &Offers::all(), target));
            }
        }
    }
    outcomes
}

#[test]
fn every_case_of_every_table_passes_with_any_number_of_shards() {
    for shards in [1, 2, 4] {
        let outcomes = outcomes(&mut InProcess(Net::new(shards)), &Version::ALL);
        let mut faults = Vec::new();
        for CaseOutcome { name, version, verdict, .. } in &outcomes {
            if let Verdict::Fail { step, why } = verdict {
                faults.push(format!("{version} {name}\n    at: {step}\n    {why}"));
            }
        }
        let (failed, all) = (faults.len(), outcomes.len());
        assert!(failed == 0, "{shards} shards: {failed} of {all}:\n{}", faults.join("\n"));
        for version in Version::ALL {
            let is_there = outcomes.iter().any(|outcome| outcome.version == version);
            assert!(is_there, "no case for {version}");
        }
    }
}

#[test]
fn a_property_that_a_broker_adds_to_retained_messages_fails_a_case_of_its_own() {
    let outcomes = outcomes(&mut AddsExpiry(InProcess(Net::new(1))), &[Version::V5]);
    let failed = outcomes.iter().filter(|one| matches!(one.verdict, Verdict::Fail { .. }));
    let names: Vec<&str> = failed.map(|outcome| &*outcome.name).collect();
    assert_eq!(names, ["v5-a-retained-message-has-no-properties-of-the-brokers-own"]);
}
