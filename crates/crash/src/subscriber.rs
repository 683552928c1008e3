//! A subscriber: a session that lasts, whose subscriptions are made once.

use crate::inbox::{Arrival, Inbox};
use crate::ledger::{Heard, Received};
use crate::life::{Life, WAIT};
use crate::link::{Link, Place};
use crate::names::{Stream, filter, number};
use anyhow::Context;
use std::io;
use std::time::{Duration, Instant};
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, QoS};

/// How long it listens on when all is there: nothing must come twice.
const SILENCE: Duration = Duration::from_secs(1);

/// What a subscriber knows over all lives.
#[derive(Debug)]
pub(crate) struct Subscriber {
    client_id: String,
    qos: Vec<QoS>,
    /// Whether the broker has granted the subscriptions.
    is_known: bool,
    link: Option<Link>,
    inbox: Inbox,
    pub(crate) received: Received,
    pub(crate) sessions_lost: u64,
    pub(crate) dropped: u64,
}

/// What a packet asks for.
enum Step {
    Publish { qos: QoS, packet_id: Option<PacketId>, message: Option<(usize, u32)> },
    Release(PacketId),
    Granted(Vec<u8>),
    Other,
}

impl Subscriber {
    pub(crate) fn new(number: usize, publishers: usize, qos: &[QoS]) -> Self {
        let streams = vec![Heard::default(); publishers * qos.len()];
        Self {
            client_id: format!("crash-s{number}"),
            qos: qos.to_vec(),
            is_known: false,
            link: None,
            inbox: Inbox::default(),
            received: Received { streams, ..Received::default() },
            sessions_lost: 0,
            dropped: 0,
        }
    }

    /// Comes back to its session, and subscribes where there is none.
    pub(crate) fn join(&mut self, place: &Place) -> anyhow::Result<()> {
        let joined = self.try_join(place);
        joined.with_context(|| format!("{} cannot connect and subscribe", self.client_id))
    }

    fn try_join(&mut self, place: &Place) -> io::Result<()> {
        let (mut link, welcome) = Link::connect(place, &self.client_id, !self.is_known, true)?;
        if !welcome.is_session_present {
            self.sessions_lost += u64::from(self.is_known);
            self.inbox.forget();
            let filters: Vec<(String, QoS)> = self.qos.iter().map(|&q| (filter(q), q)).collect();
            link.subscribe(filters.iter().map(|(filter, qos)| (filter.as_str(), *qos)));
            link.flush()?;
            let wanted: Vec<u8> = self.qos.iter().map(|&qos| qos as u8).collect();
            let granted = self.granted(&mut link)?;
            if granted != wanted {
                let error = format!("it granted {granted:?} where QoS {wanted:?} was asked for");
                return Err(io::Error::other(error));
            }
            self.is_known = true;
        }
        self.link = Some(link);
        Ok(())
    }

    fn granted(&mut self, link: &mut Link) -> io::Result<Vec<u8>> {
        const ANSWER_MAX: Duration = Duration::from_secs(20);
        loop {
            let step = self.next(link, ANSWER_MAX)?.ok_or(io::ErrorKind::TimedOut)?;
            match step {
                Step::Granted(codes) => return Ok(codes),
                step => self.take(&step, link),
            }
        }
    }

    /// Takes messages until the broker is down, or all that are owed are there.
    pub(crate) fn listen(&mut self, life: &Life) -> anyhow::Result<()> {
        let (client_id, mut dropped) = (self.client_id.clone(), 0);
        let done = life.keep_on(&client_id, &mut dropped, || self.connection(life));
        self.dropped += dropped;
        self.link = None;
        done
    }

    fn connection(&mut self, life: &Life) -> io::Result<()> {
        if self.link.is_none() {
            self.try_join(&life.place)?;
        }
        let Some(mut link) = self.link.take() else { return Ok(()) };
        let mut heard_at = Instant::now();
        while !life.is_down() {
            if let Some(step) = self.next(&mut link, WAIT)? {
                heard_at = Instant::now();
                self.take(&step, &mut link);
                if !link.has_packet() {
                    link.flush()?;
                }
                continue;
            }
            let Some(owed) = life.owed() else {
                // Silence counts from when nobody publishes any more.
                heard_at = Instant::now();
                continue;
            };
            let came: u64 = self.received.streams.iter().map(Heard::distinct).sum();
            let silence = if came >= owed { SILENCE } else { life.silence };
            if heard_at.elapsed() >= silence {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next(&self, link: &mut Link, wait: Duration) -> io::Result<Option<Step>> {
        link.packet(wait, |packet| match packet {
            Packet::Publish(publish) => Step::Publish {
                qos: publish.qos,
                packet_id: publish.packet_id,
                message: self.known(publish),
            },
            Packet::PubRel(ack) => Step::Release(ack.packet_id),
            Packet::SubAck(suback) => Step::Granted(suback.codes.to_vec()),
            _ => Step::Other,
        })
    }

    /// The row of the stream and the number; nothing if it was altered.
    fn known(&self, publish: &Publish<'_>) -> Option<(usize, u32)> {
        let stream = Stream::of(publish.topic).filter(|of| of.qos == publish.qos)?;
        let at = self.qos.iter().position(|&qos| qos == stream.qos)?;
        let row = stream.publisher * self.qos.len() + at;
        let number = number(publish.topic, publish.payload)?;
        (row < self.received.streams.len()).then_some((row, number))
    }

    fn take(&mut self, step: &Step, link: &mut Link) {
        match *step {
            Step::Publish { qos, packet_id, message } => {
                self.received.altered += u64::from(message.is_none());
                let is_new = match (qos, packet_id, message) {
                    (QoS::ExactlyOnce, Some(packet_id), Some(message)) => {
                        let arrival = self.inbox.arrive(packet_id, message);
                        self.received.reused_ids += u64::from(arrival == Arrival::Reused);
                        arrival == Arrival::New
                    }
                    _ => true,
                };
                if let Some((row, number)) = message.filter(|_| is_new) {
                    self.received.streams[row].deliver(number);
                }
                link.acknowledge(qos, packet_id);
            }
            Step::Release(packet_id) => {
                self.inbox.release(packet_id);
                link.answer(Packet::PubComp, packet_id);
            }
            Step::Granted(_) | Step::Other => {}
        }
    }
}
