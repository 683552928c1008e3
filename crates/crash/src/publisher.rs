//! A publisher: a session that lasts, and repeats what was not acknowledged.

use crate::ledger::Sent;
use crate::life::{Life, WAIT};
use crate::link::Link;
use crate::names::{Stream, payload, retained};
use crate::outbox::{Again, Answer, Message, Outbox};
use std::io;
use std::time::{Duration, Instant};
use weir_chance::Chance;
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS};

/// Most messages in flight.
const WINDOW: usize = 100;

/// One in so many messages updates the retained one.
const RETAINED_EVERY: usize = 10;

/// A topic, and what was sent to it.
#[derive(Debug)]
struct Place {
    topic: String,
    qos: QoS,
    retain: bool,
    sent: Sent,
}

/// What a publisher knows over all lives.
#[derive(Debug)]
pub(crate) struct Publisher {
    client_id: String,
    /// Whether the broker has said that there is a session.
    is_known: bool,
    outbox: Outbox,
    window: usize,
    /// A topic for each QoS, and that of the retained message behind them.
    places: Vec<Place>,
    /// The retained message that has to be there.
    retained: Option<u32>,
    chance: Chance,
    pub(crate) sessions_lost: u64,
    pub(crate) dropped: u64,
}

impl Publisher {
    pub(crate) fn new(number: usize, qos: &[QoS], seed: u64) -> Self {
        let streams = Stream::all(1, qos).into_iter();
        let streams = streams.map(|of| Stream { publisher: number, ..of });
        let place = |topic, qos, retain| Place { topic, qos, retain, sent: Sent::default() };
        let mut places: Vec<Place> = streams.map(|of| place(of.topic(), of.qos, false)).collect();
        places.push(place(retained(number), QoS::AtLeastOnce, true));
        Self {
            client_id: format!("crash-p{number}"),
            is_known: false,
            outbox: Outbox::default(),
            window: WINDOW,
            places,
            retained: None,
            chance: Chance::new(seed ^ weir_chance::mix(number as u64)),
            sessions_lost: 0,
            dropped: 0,
        }
    }

    /// What was sent, stream by stream.
    pub(crate) fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.places.iter().filter(|of| !of.retain).map(|of| &of.sent)
    }

    /// What was sent to be retained.
    pub(crate) fn updates(&self) -> &Sent {
        &self.places[self.places.len() - 1].sent
    }

    /// The retained message that the broker has to have.
    pub(crate) fn retained(&self) -> Option<u32> {
        self.retained
    }

    /// From now on, this one is there. What is still in flight will be published once more, and so
    /// an earlier one may take its place.
    pub(crate) fn found(&mut self, found: Option<u32>) {
        let in_flight = self.outbox.messages().filter(|of| of.retain).map(|of| of.number);
        self.retained = found.map(|found| in_flight.fold(found, u32::min));
    }

    /// Publishes until the broker is down, or that is enough.
    pub(crate) fn load(&mut self, life: &Life) -> anyhow::Result<()> {
        let (client_id, mut dropped) = (self.client_id.clone(), 0);
        let done = life.keep_on(&client_id, &mut dropped, || self.connection(life));
        self.dropped += dropped;
        done
    }

    fn connection(&mut self, life: &Life) -> io::Result<()> {
        let mut link = self.come_back(life)?;
        let (started, mut published) = (Instant::now(), 0_u64);
        let mut is_ending = false;
        loop {
            if life.is_down() {
                return Ok(());
            }
            if life.is_enough() && !is_ending {
                is_ending = true;
                // The last messages, by which it shows who still hears.
                for place in 0..self.places.len() {
                    self.publish(&mut link, place);
                }
            }
            let allowed = |rate: f64| (started.elapsed().as_secs_f64() * rate) as u64 + 1;
            let allowed = life.rate.map_or(u64::MAX, allowed);
            while !is_ending && self.outbox.in_flight() < self.window && published < allowed {
                let place = self.choose();
                self.publish(&mut link, place);
                published += 1;
            }
            link.flush()?;
            if is_ending && self.outbox.in_flight() == 0 {
                return Ok(());
            }
            let next = |rate: f64| Duration::from_secs_f64(published as f64 / rate);
            let due = life.rate.filter(|_| self.outbox.in_flight() < self.window && !is_ending);
            let wait = due.map_or(WAIT, |rate| next(rate).saturating_sub(started.elapsed()));
            self.take(&mut link, life, wait.clamp(Duration::from_millis(1), WAIT))?;
        }
    }

    /// Connects, and sends again what was not acknowledged.
    fn come_back(&mut self, life: &Life) -> io::Result<Link> {
        let (mut link, welcome) =
            Link::connect(&life.place, &self.client_id, !self.is_known, true)?;
        self.sessions_lost += u64::from(self.is_known && !welcome.is_session_present);
        self.is_known = true;
        self.window = WINDOW.min(usize::from(welcome.receive_max));
        for again in self.outbox.again(welcome.is_session_present) {
            match again {
                Again::Release(packet_id) => link.answer(Packet::PubRel, packet_id),
                Again::Publish { packet_id, message, dup } => {
                    if !dup {
                        self.places[message.place].sent.doubt(message.number);
                    }
                    self.send(&mut link, packet_id, message, dup);
                }
            }
        }
        link.flush()?;
        Ok(link)
    }

    /// One of its topics.
    fn choose(&mut self) -> usize {
        let retained = self.places.len() - 1;
        if self.chance.below(RETAINED_EVERY) == 0 { retained } else { self.chance.below(retained) }
    }

    fn publish(&mut self, link: &mut Link, place: usize) {
        let Place { qos, retain, ref mut sent, .. } = self.places[place];
        let message = Message { place, qos, retain, number: sent.publish() };
        let packet_id = self.outbox.push(message);
        self.send(link, packet_id, message, false);
    }

    fn send(&self, link: &mut Link, packet_id: PacketId, message: Message, dup: bool) {
        let topic = &self.places[message.place].topic;
        link.push(&Packet::Publish(Publish {
            dup,
            qos: message.qos,
            retain: message.retain,
            topic,
            packet_id: Some(packet_id),
            properties: Properties::EMPTY,
            payload: payload(topic, message.number).as_bytes(),
        }));
    }

    /// Takes the answers that are there, or the next one if it comes within `wait`.
    fn take(&mut self, link: &mut Link, life: &Life, wait: Duration) -> io::Result<()> {
        loop {
            let Some(answer) = link.packet(wait, Answer::of)? else { return Ok(()) };
            self.note(answer, link, life);
            if !link.has_packet() {
                return Ok(());
            }
        }
    }

    fn note(&mut self, answer: Answer, link: &mut Link, life: &Life) {
        let acknowledged = match answer {
            Answer::Ended(packet_id, is_accepted) => {
                let ended = self.outbox.end(packet_id);
                if let Some(message) = ended.filter(|_| !is_accepted) {
                    self.places[message.place].sent.refuse(message.number);
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
        let Some(message) = acknowledged else { return };
        if message.retain {
            self.retained = Some(message.number);
        }
        if self.places[message.place].sent.acknowledge(message.number) {
            life.count();
        }
    }
}
