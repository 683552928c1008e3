//! Runs one case against a target.

use crate::Version;
use crate::assemble::{Context, assemble};
use crate::outcome::{CaseOutcome, Verdict};
use crate::pattern::matches;
use crate::probe::Offers;
use crate::step::{Act, Step};
use crate::table::Case;
use crate::target::{Received, Target};
use crate::token::Token;
use std::collections::BTreeMap;

const PINGREQ: [u8; 2] = [0xC0, 0];
const PINGRESP: [u8; 2] = [0xD0, 0];

/// Runs `case` in `version`, on connections of its own. `unique` keeps its client identifiers and
/// topics apart from those of all other cases.
pub fn run_case(
    case: &Case,
    version: Version,
    unique: &str,
    offers: &Offers,
    target: &mut impl Target,
) -> CaseOutcome {
    let verdict = match offers.lacks(case, version) {
        Some(why) => Verdict::Skip { why },
        None => {
            let captured = BTreeMap::new();
            let context = Context { version, unique: unique.into(), captured };
            let mut run = Run { target, context, connections: BTreeMap::new() };
            let verdict = match run.steps(&case.steps) {
                Ok(()) => Verdict::Pass,
                Err((step, why)) => Verdict::Fail { step, why },
            };
            run.finish();
            verdict
        }
    };
    CaseOutcome {
        name: case.name.clone(),
        version,
        statements: case.statements_of(version).map(str::to_owned).collect(),
        about: case.about.clone(),
        level: case.level,
        verdict,
    }
}

struct Run<'a, T> {
    target: &'a mut T,
    context: Context,
    connections: BTreeMap<String, Connection>,
}

#[derive(Clone, Copy)]
struct Connection {
    number: usize,
    /// A CONNACK came.
    is_connected: bool,
}

impl<T: Target> Run<'_, T> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), (String, String)> {
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            let group = in_any_order(&steps[at..]);
            let done =
                if group > 0 { self.expect_all(&steps[at..at + group]) } else { self.step(step) };
            done.map_err(|why| (step.text.clone(), why))?;
            at += group.max(1);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.act {
            Act::Send { name, bytes, singly } => self.send(name, bytes, *singly),
            Act::Expect { name, patterns, .. } => {
                let packet = self.packet(name)?;
                self.check(patterns, &packet)
            }
            Act::Quiet { name } => self.quiet(name),
            Act::Ends { name, patterns } => self.ends(name, patterns),
            Act::EndsOr { name, patterns } => self.ends_or(name, patterns),
            Act::Cut { name } => {
                let connection = self.connection(name)?;
                self.connections.remove(name);
                self.target.close(connection.number);
                Ok(())
            }
            Act::Wait { millis } => {
                self.target.pass(*millis);
                Ok(())
            }
        }
    }

    fn send(&mut self, name: &str, bytes: &[Token], singly: bool) -> Result<(), String> {
        let bytes = self.target.present(assemble(bytes, &self.context)?);
        let number = match self.connections.get(name) {
            Some(connection) => connection.number,
            None => {
                let number = self.target.open()?;
                let connection = Connection { number, is_connected: false };
                self.connections.insert(name.to_owned(), connection);
                number
            }
        };
        if singly {
            bytes.iter().for_each(|byte| self.target.send(number, &[*byte]));
        } else {
            self.target.send(number, &bytes);
        }
        Ok(())
    }

    fn connection(&self, name: &str) -> Result<Connection, String> {
        self.connections.get(name).copied().ok_or_else(|| format!("{name} is not open"))
    }

    fn packet(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let connection = self.connection(name)?;
        match self.target.receive(connection.number, true) {
            Received::Packet(packet) => {
                self.note(name, &packet);
                Ok(packet)
            }
            other => Err(describe(&other)),
        }
    }

    fn note(&mut self, name: &str, packet: &[u8]) {
        if packet[0] == 0x20
            && let Some(connection) = self.connections.get_mut(name)
        {
            connection.is_connected = true;
        }
    }

    fn check(&mut self, patterns: &[Vec<Token>], packet: &[u8]) -> Result<(), String> {
        let mut why = String::new();
        for pattern in patterns {
            let mut context = self.context.clone();
            match matches(pattern, packet, &mut context) {
                Ok(()) => {
                    self.context = context;
                    return Ok(());
                }
                Err(error) => why = error,
            }
        }
        Err(format!("got {}: {why}", hex(packet)))
    }

    /// As many packets as steps, each matching one of them.
    fn expect_all(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut open: Vec<(&String, &Vec<Vec<Token>>)> = steps
            .iter()
            .filter_map(|step| match &step.act {
                Act::Expect { name, patterns, .. } => Some((name, patterns)),
                _ => None,
            })
            .collect();
        let Some(&(name, _)) = open.first() else { return Ok(()) };
        while !open.is_empty() {
            let packet = self.packet(name)?;
            let mut last = Err(String::new());
            let found = open.iter().position(|(_, patterns)| {
                last = self.check(patterns, &packet);
                last.is_ok()
            });
            match found {
                Some(at) => open.remove(at),
                None => return last,
            };
        }
        Ok(())
    }

    fn quiet(&mut self, name: &str) -> Result<(), String> {
        let connection = self.connection(name)?;
        self.target.send(connection.number, &PINGREQ);
        match self.target.receive(connection.number, true) {
            Received::Packet(packet) if packet == PINGRESP => {}
            other => return Err(describe(&other)),
        }
        match self.target.receive(connection.number, false) {
            Received::Nothing => Ok(()),
            other => Err(describe(&other)),
        }
    }

    fn ends_or(&mut self, name: &str, patterns: &[Vec<Token>]) -> Result<(), String> {
        let connection = self.connection(name)?;
        let received = self.target.receive(connection.number, true);
        match &received {
            Received::Packet(packet) if self.check(patterns, packet).is_ok() => Ok(()),
            _ => self.ended(name, connection, received, &[]),
        }
    }

    fn ends(&mut self, name: &str, patterns: &[Vec<Token>]) -> Result<(), String> {
        let connection = self.connection(name)?;
        let received = self.target.receive(connection.number, true);
        self.ended(name, connection, received, patterns)
    }

    /// `received`, and then the end.
    fn ended(
        &mut self,
        name: &str,
        connection: Connection,
        mut received: Received,
        patterns: &[Vec<Token>],
    ) -> Result<(), String> {
        if let Received::Packet(packet) = &received {
            if !self.may_be_last(packet, connection) {
                return Err(describe(&received));
            }
            if !patterns.is_empty() {
                self.check(patterns, packet)?;
            }
            received = self.target.receive(connection.number, true);
        }
        if received != Received::Ended {
            return Err(format!("the connection is not ended: {}", describe(&received)));
        }
        self.connections.remove(name);
        self.target.close(connection.number);
        Ok(())
    }

    /// A DISCONNECT of 5.0 with an error, or a CONNACK that refuses.
    fn may_be_last(&self, packet: &[u8], connection: Connection) -> bool {
        let reason = |at: usize| packet.get(at).copied().unwrap_or(0);
        match packet[0] {
            0xE0 => self.context.is_v5() && connection.is_connected && reason(2) >= 0x80,
            0x20 => !connection.is_connected && reason(3) > 0,
            _ => false,
        }
    }

    fn finish(self) {
        for connection in self.connections.values() {
            self.target.close(connection.number);
        }
    }
}

/// How many of the first steps stand in any order, on one connection.
fn in_any_order(steps: &[Step]) -> usize {
    let name_of = |step: &Step| match &step.act {
        Act::Expect { name, in_any_order: true, .. } => Some(name.clone()),
        _ => None,
    };
    let Some(name) = steps.first().and_then(name_of) else { return 0 };
    steps.iter().take_while(|step| name_of(step).as_ref() == Some(&name)).count()
}

fn describe(received: &Received) -> String {
    match received {
        Received::Packet(packet) => format!("got {}", hex(packet)),
        Received::Ended => "the connection was ended".into(),
        Received::Nothing => "nothing came".into(),
        Received::Garbage(bytes) => format!("got {}, which is no packet", hex(bytes)),
    }
}

/// Bytes for a person; long ones are cut.
fn hex(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let shown: Vec<String> =
        bytes.iter().take(SHOWN_MAX).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > SHOWN_MAX { " ..." } else { "" };
    shown.join(" ") + more
}
