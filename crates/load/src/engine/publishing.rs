//! What there is to publish: the schedules, how far they have been picked up, and what is sent.

use super::book::{Book, ClientSink, State};
use crate::payload::blank_of;
use crate::plan::Plan;
use crate::publisher::Publisher;
use crate::schedule::{Schedule, Stream, streams};
use crate::stamp::Stamp;
use std::rc::Rc;
use weir_client::Client;
use weir_reactor::Io;
use weir_wire::QoS;

/// Bytes that may wait for a publisher's socket; beyond, its messages wait as numbers.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// One schedule for each group that publishes, so there are few.
#[derive(Debug)]
pub(super) struct Publishing {
    /// Empty until it is known when publishing begins.
    schedules: Vec<Schedule>,
    /// By schedule.
    positions: Vec<Position>,
    /// By schedule: a payload without its stamp.
    payloads: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    /// Publishers to be tried again in the next turn.
    held: Vec<u32>,
}

/// A message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picked {
    pub(super) publisher: u32,
    pub(super) due_us: u64,
    /// Its client is to be cut instead of asked to publish.
    pub(super) is_will: bool,
}

impl Publishing {
    pub(super) fn new(plan: &Plan, streams: &[Stream<'_>]) -> Self {
        Self {
            schedules: Vec::new(),
            positions: streams.iter().map(|stream| Position::first(plan, stream)).collect(),
            payloads: streams.iter().map(|stream| blank_of(stream.publish)).collect(),
            scratch: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Makes the schedules, now that their begin is known.
    pub(super) fn begin(&mut self, plan: &Plan, start_us: u64) {
        let streams = streams(plan, start_us).into_iter();
        self.schedules = streams.map(|stream| stream.schedule).collect();
    }

    pub(super) fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Nothing becomes due from `now_us` on.
    pub(super) fn end_at(&mut self, now_us: u64) {
        self.schedules.iter_mut().for_each(|schedule| schedule.end_at(now_us));
    }

    /// When the next message has to be sent.
    pub(super) fn next_due_us(&self, now_us: u64) -> Option<u64> {
        if !self.held.is_empty() {
            return Some(now_us);
        }
        self.earliest().map(|(_, due_us)| due_us)
    }

    /// The schedule whose next message is due first, and when.
    #[inline]
    fn earliest(&self) -> Option<(usize, u64)> {
        let next = self.schedules.iter().zip(&self.positions).enumerate();
        next.filter(|(_, (schedule, position))| position.next < schedule.total())
            .map(|(at, (schedule, position))| (at, schedule.intended_us(position.next)))
            .min_by_key(|&(_, due_us)| due_us)
    }

    /// Takes the message that is due first, if one is due by now.
    #[inline]
    pub(super) fn pick(&mut self, plan: &Plan, now_us: u64) -> Option<Picked> {
        let (at, due_us) = self.earliest().filter(|&(_, due_us)| due_us <= now_us)?;
        let position = &mut self.positions[at];
        let publisher = position.publisher + self.schedules[at].due(position.next).publisher;
        let is_will = position.is_will;
        position.advance(plan);
        Some(Picked { publisher, due_us, is_will })
    }

    /// Takes the publishers that were held because a turn had written too much. If the flush
    /// between has not helped, the socket is blocked and the reactor will say when it has drained.
    pub(super) fn take_held(&mut self, book: &mut Book, io: &Io) -> Vec<u32> {
        let mut held = std::mem::take(&mut self.held);
        held.retain(|&at| {
            let publisher = &mut book.publishers[at as usize];
            publisher.is_held = false;
            let token = book.slots[publisher.client as usize].token;
            token.is_some_and(|token| io.pending(token) <= PENDING_BYTES_MAX)
        });
        held
    }

    /// Messages of a publisher in all, if publishing has begun.
    pub(super) fn total_of(&self, publisher: &Publisher) -> Option<u32> {
        let schedule = self.schedules.get(publisher.schedule as usize)?;
        Some(schedule.total_of(publisher.place))
    }

    /// When a message of a publisher was due, if publishing has begun.
    pub(super) fn intended_of(&self, publisher: &Publisher, sequence: u32) -> Option<u64> {
        let schedule = self.schedules.get(publisher.schedule as usize)?;
        Some(schedule.intended_of(publisher.place, sequence))
    }

    /// The payload of one message of the publisher `at`, made once more. When a will is due is not
    /// known before.
    pub(super) fn payload_of(
        &self,
        run: u16,
        at: u32,
        publisher: &Publisher,
        sequence: u32,
    ) -> Vec<u8> {
        let intended_us = self.intended_of(publisher, sequence).filter(|_| !publisher.is_will);
        let stamp =
            Stamp { run, publisher: at, sequence, intended_us: intended_us.unwrap_or_default() };
        let blank = &self.payloads[publisher.schedule as usize];
        let mut payload = blank[..publisher.payload_bytes as usize].to_vec();
        if publisher.is_json {
            stamp.write_text(&mut payload);
        } else {
            stamp.write(&mut payload);
        }
        payload
    }

    /// Sends what the publisher `at` has due, as far as window and socket allow.
    pub(super) fn send(
        &mut self,
        (at, run, now): (u32, u16, u64),
        book: &mut Book,
        clients: &mut [Client],
        io: &mut Io,
    ) {
        let Self { schedules, scratch, payloads, held, .. } = self;
        let publisher = &book.publishers[at as usize];
        let client_at = publisher.client;
        if publisher.is_will {
            return;
        }
        let is_json = publisher.is_json;
        let payload = &mut payloads[publisher.schedule as usize];
        let (qos, retain, bytes) =
            (publisher.qos, publisher.retain, publisher.payload_bytes as usize);
        let (schedule, place) = (schedules[publisher.schedule as usize], publisher.place);
        let topic = Rc::clone(&publisher.topic);
        let Some(token) = book.slots[client_at as usize].token else { return };
        if book.slots[client_at as usize].state != State::Ready {
            return;
        }
        let client = &mut clients[client_at as usize];
        while book.publishers[at as usize].sent < book.publishers[at as usize].due {
            if !client.can_publish(qos) {
                return;
            }
            if io.pending(token) > PENDING_BYTES_MAX {
                if !std::mem::replace(&mut book.publishers[at as usize].is_held, true) {
                    held.push(at);
                }
                return;
            }
            let sequence = book.publishers[at as usize].sent;
            let intended_us = schedule.intended_of(place, sequence);
            let stamp = Stamp { run, publisher: at, sequence, intended_us };
            if is_json {
                stamp.write_text(payload);
            } else {
                stamp.write(payload);
            }
            // Send time in the upper half: enough for 71 minutes between PUBLISH and PUBACK.
            let tag = (now & 0xFFFF_FFFF) << 32 | u64::from(sequence);
            let mut sink = ClientSink { io, token, client: client_at, book };
            let message = (&*topic, &payload[..bytes], qos, retain);
            if client.publish(message, tag, now, scratch, &mut sink).is_err() {
                return;
            }
            book.publishers[at as usize].note_send(now.saturating_sub(intended_us));
            book.backlog -= 1;
            book.recorder.counts.published += 1;
            if qos == QoS::AtMostOnce {
                book.owed += u64::from(book.audit.receivers_of(at));
            } else {
                book.open += 1;
            }
        }
    }
}

/// How far one group's schedule has been picked up.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// The group's first publisher and client among all of the plan, and its place there.
    publisher: u32,
    client: u32,
    group: u16,
    /// Its clients are cut instead of asked to publish.
    is_will: bool,
    /// The next message of this slice to become due.
    next: u64,
}

impl Position {
    fn first(plan: &Plan, stream: &Stream<'_>) -> Self {
        let group = plan.groups.iter().position(|group| std::ptr::eq(group, stream.group));
        let mut position = Self {
            publisher: stream.first_publisher,
            client: stream.first_client,
            group: group.unwrap_or_default() as u16,
            is_will: stream.publish.will,
            next: 0,
        };
        position.skip_foreign(plan);
        position
    }

    #[inline]
    fn advance(&mut self, plan: &Plan) {
        self.next += 1;
        if !plan.slice.is_whole() {
            self.skip_foreign(plan);
        }
    }

    /// To the next message of a publisher in this slice; beyond all if there is none.
    fn skip_foreign(&mut self, plan: &Plan) {
        let group = &plan.groups[usize::from(self.group)];
        let clients = u64::from(group.clients);
        let round = self.next - self.next % clients;
        let place_from = |place: u64| {
            let client = plan.slice.next(group, self.client + place as u32);
            client.checked_sub(u64::from(self.client)).filter(|&place| place < clients)
        };
        self.next = match (place_from(self.next % clients), place_from(0)) {
            (Some(place), _) => round + place,
            (None, Some(place)) => round + clients + place,
            (None, None) => u64::MAX,
        };
    }
}
