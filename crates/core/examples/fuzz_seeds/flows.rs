//! Scripts that the byte tables cannot give: some clients, the network and the clock, in an order
//! that a fuzzer would be long in finding.

use crate::script;

/// How many flows there are for each settings byte.
const FLOWS: u64 = 8;

/// Scripts of subscribers that come and go while others publish.
pub(crate) fn flows() -> Vec<Vec<u8>> {
    let all = (0..=u8::MAX)
        .step_by(3)
        .flat_map(|settings| (0..FLOWS).map(move |number| Flow::new(settings, number).script()));
    all.collect()
}

struct Flow {
    bytes: Vec<u8>,
    chance: u64,
}

impl Flow {
    fn new(settings: u8, number: u64) -> Self {
        Self { bytes: vec![settings], chance: u64::from(settings) << 8 | number }
    }

    /// A number below `count`, by a linear congruence: the same in every run.
    fn below(&mut self, count: u64) -> u8 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.chance >> 33) % count) as u8
    }

    fn script(mut self) -> Vec<u8> {
        for conn in 0..3 {
            self.connect(conn);
        }
        for conn in 0..2 {
            self.subscribe(conn);
        }
        for round in 0..3 {
            for _ in 0..6 {
                self.publish(2);
            }
            let conn = self.below(2);
            match self.below(5) {
                0 => self.step(script::STUCK, conn, &[round & 1]),
                1 | 2 => self.step(script::ACKNOWLEDGE, conn, &[]),
                3 => self.step(script::CUT, conn, &[]),
                _ => self.connect(conn),
            }
            let (time, shard) = (self.below(8), self.below(2));
            self.step(script::PASS, time, &[]);
            self.step(script::PRESSED, shard, &[round & 1]);
            self.letters();
            let conn = self.below(3);
            self.connect(conn);
            self.subscribe(conn);
        }
        self.bytes
    }

    fn step(&mut self, step: u8, at: u8, more: &[u8]) {
        self.bytes.push((step << 3) | at);
        self.bytes.extend_from_slice(more);
    }

    fn letters(&mut self) {
        for shard in 0..2 {
            let count = self.below(16);
            self.step(script::MAIL, shard, &[count]);
        }
    }

    /// A packet made of choices; more of them than it takes are read as steps.
    fn packet(&mut self, conn: u8, kind: u8, choices: &[u8]) {
        let split = if self.below(8) == 0 { 3 } else { 0 };
        self.step(script::PACKET, conn, &[kind, split]);
        self.bytes.extend_from_slice(choices);
        if self.below(2) == 0 {
            self.letters();
        }
    }

    fn connect(&mut self, conn: u8) {
        let (shard, version) = (self.below(2), self.below(4));
        let (client_id, clean) = (1 + conn, self.below(2));
        if version < 2 {
            // A session expiry, a Receive Maximum, a Maximum Packet Size and topic aliases.
            let limits = [2 + self.below(4), self.below(4), 20 + self.below(230), self.below(4)];
            let which = self.below(8) << 1 | 1;
            let mut choices = vec![version, client_id, clean, which];
            choices.extend((0..4).filter(|bit| which & 1 << bit != 0).map(|bit| limits[bit]));
            self.packet(conn, shard << 4, &choices);
        } else {
            self.packet(conn, shard << 4, &[version, client_id, clean]);
        }
        if self.bytes[0] & 0b1000 != 0 {
            self.step(script::VERDICT, conn, &[0]);
        }
    }

    fn subscribe(&mut self, conn: u8) {
        let choices = [1, self.below(14), self.below(256), self.below(14), self.below(256)];
        let more = [self.below(256), self.below(8)];
        self.packet(conn, 6, &[&choices[..], &more].concat());
    }

    fn publish(&mut self, conn: u8) {
        let (topic, qos, retain) = (self.below(10), self.below(3), self.below(4) / 3);
        let id = if qos > 0 { vec![self.below(8)] } else { Vec::new() };
        let choices = [&[topic, qos, retain << 1], &id[..], &[self.below(8)]].concat();
        self.packet(conn, 2, &choices);
    }
}
