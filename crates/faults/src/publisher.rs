//! A publisher: a session that lasts, and repeats what was not acknowledged wherever it is.

use crate::client::{Arrived, Begun, Phase, Run, Traveller, say_goodbye};
use crate::ledger::{RETAINED, ROWS, content};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use weir_crash::link::Link;
use weir_crash::outbox::{Again, Answer, Message, Outbox};
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS};

/// How many publish.
pub(crate) const PUBLISHERS: usize = 6;

/// From one message of a publisher to the next.
const PERIOD: Duration = Duration::from_millis(120);

/// Most messages in flight.
const WINDOW: usize = 20;

/// One in so many messages is retained.
const RETAINED_EVERY: usize = 10;

const WAIT: Duration = Duration::from_millis(50);

/// A publisher, with what it knows.
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    run: &'a Run,
    traveller: Traveller,
    number: usize,
    outbox: Outbox,
}

impl<'a> Publisher<'a> {
    /// The first half of all comes to one node each.
    pub(crate) fn new(run: &'a Run, number: usize, seed: u64) -> Self {
        let pins = number < PUBLISHERS / 2;
        let client_id = format!("{}-p{number}", if pins { "pinned" } else { "wandering" });
        let traveller = Traveller::new(run, &client_id, number, pins, seed);
        Self { run, traveller, number, outbox: Outbox::default() }
    }

    /// Publishes until the run ends.
    pub(crate) fn load(mut self) {
        while !self.run.is_in(Phase::End) {
            if self.connection().is_err() {
                std::thread::sleep(WAIT);
            }
            self.traveller.go_on();
        }
    }

    fn connection(&mut self) -> io::Result<()> {
        let Arrived { mut link, begun, .. } = self.traveller.come(self.run)?;
        if matches!(begun, Begun::Anew | Begun::Perhaps) {
            let (session, now) = (self.traveller.session, self.run.now());
            self.run.ledger().anew(session, now, begun == Begun::Anew);
        }
        self.repeat(&mut link, begun)?;
        // PUBACK waits for a lost node until its lease has ended.
        let patience = Duration::from_secs(if self.traveller.pinned.is_some() { 12 } else { 5 });
        let (came, stay) = (Instant::now(), self.traveller.stay());
        let (mut heard, mut due) = (came, came);
        loop {
            let is_loading = self.run.is_in(Phase::Load);
            if self.run.is_in(Phase::End) {
                return Ok(());
            }
            if is_loading && came.elapsed() > stay {
                if self.traveller.chance.below(2) == 0 {
                    say_goodbye(&mut link)?;
                }
                return Ok(());
            }
            if is_loading && due.elapsed() >= PERIOD && self.outbox.in_flight() < WINDOW {
                due = Instant::now();
                self.publish(&mut link);
            }
            link.flush()?;
            match link.packet(WAIT, Answer::of)? {
                Some(answer) => {
                    heard = Instant::now();
                    self.note(answer, &mut link);
                }
                None if self.outbox.in_flight() == 0 => heard = Instant::now(),
                None if heard.elapsed() > patience => return Err(ErrorKind::TimedOut.into()),
                None => {}
            }
        }
    }

    /// Sends again what was not acknowledged.
    fn repeat(&mut self, link: &mut Link, begun: Begun) -> io::Result<()> {
        let node = self.traveller.node;
        let was_killed = self.run.is_hit(|fault| fault.ends_process(node));
        let is_lost = begun != Begun::Before;
        for again in self.outbox.again(!matches!(begun, Begun::First | Begun::Anew)) {
            match again {
                Again::Release(packet_id) => link.answer(Packet::PubRel, packet_id),
                Again::Publish { packet_id, message, dup } => {
                    if is_lost || was_killed {
                        let row = self.row(message.place);
                        self.run.ledger().doubt(row, message.number, is_lost);
                    }
                    self.send(link, packet_id, message, dup);
                }
            }
        }
        link.flush()
    }

    fn row(&self, place: usize) -> usize {
        self.number * ROWS + place
    }

    fn publish(&mut self, link: &mut Link) {
        let chance = &mut self.traveller.chance;
        let is_retained = chance.below(RETAINED_EVERY) == 0;
        let place = if is_retained { RETAINED } else { chance.below(RETAINED) };
        let qos = if place == 1 { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
        let (row, node, now) = (self.row(place), self.traveller.node, self.run.now());
        let number = self.run.ledger().publish(row, node, now);
        let message = Message { place, qos, retain: is_retained, number };
        let packet_id = self.outbox.push(message);
        self.send(link, packet_id, message, false);
    }

    fn send(&self, link: &mut Link, packet_id: PacketId, message: Message, dup: bool) {
        let Message { place, qos, retain, number } = message;
        let (topic, payload) = content(self.number, place, number, PUBLISHERS);
        let (properties, packet_id) = (Properties::EMPTY, Some(packet_id));
        let (topic, payload) = (topic.as_str(), payload.as_bytes());
        link.push(&Packet::Publish(Publish {
            dup,
            qos,
            retain,
            topic,
            packet_id,
            properties,
            payload,
        }));
    }

    fn note(&mut self, answer: Answer, link: &mut Link) {
        let acknowledged = match answer {
            Answer::Ended(packet_id, is_accepted) => {
                let ended = self.outbox.end(packet_id);
                if let Some(message) = ended.filter(|_| !is_accepted) {
                    self.run.ledger().refuse(self.row(message.place), message.number);
                }
                ended.filter(|_| is_accepted)
            }
            Answer::Received(packet_id) => {
                let first = self.outbox.release(packet_id);
                link.answer(Packet::PubRel, packet_id);
                first
            }
            Answer::Completed(packet_id) => {
                self.outbox.complete(packet_id);
                None
            }
            Answer::Other => None,
        };
        if let Some(message) = acknowledged {
            let (row, now) = (self.row(message.place), self.run.now());
            self.run.ledger().acknowledge(row, message.number, now);
        }
    }
}
