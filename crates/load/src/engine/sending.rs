//! Publishing: what is due is picked up, and sent as soon as the broker lets it.

use super::Engine;
use super::book::{ClientSink, State};
use crate::outcome::Phase;
use crate::plan::Plan;
use crate::schedule::Stream;
use crate::stamp::Stamp;
use std::rc::Rc;
use weir_reactor::{Io, now_us};
use weir_wire::QoS;

/// Messages picked up in one turn, so that a generator behind its schedule still reads.
const PICKED_PER_TURN_MAX: u32 = 4096;

/// Bytes that may wait for a publisher's socket; beyond, its messages wait as numbers.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// How long after measure messages may still leave that window, socket or generator held back;
/// then they are unsent. A broker that was slow at the very end is not yet a broker that refuses.
const SEND_GRACE_US: u64 = 1_000_000;

/// The time is taken again after this many messages.
const MESSAGES_PER_CLOCK: u32 = 32;

/// How far one group's schedule has been picked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
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
    pub(super) fn first(plan: &Plan, stream: &Stream<'_>) -> Self {
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

impl Engine<'_> {
    /// Whether messages may leave: while they become due, and a while longer for those held back.
    pub(super) fn is_sending(&self, now: u64) -> bool {
        self.end.is_none()
            && match self.phase {
                Phase::WarmUp | Phase::Measure => true,
                Phase::Drain => {
                    now < self.phase_start_us + SEND_GRACE_US && !self.book.audit.is_closed()
                }
                Phase::Connect | Phase::Subscribe => false,
            }
    }

    /// When the loop has to send next.
    pub(super) fn next_due_us(&self, now: u64) -> Option<u64> {
        if !self.is_sending(now) {
            return None;
        }
        if !self.held.is_empty() {
            return Some(now);
        }
        self.earliest().map(|(_, due_us)| due_us)
    }

    /// The schedule whose next message is due first, and when. There are few schedules: one for
    /// each group that publishes.
    #[inline]
    fn earliest(&self) -> Option<(usize, u64)> {
        let next = self.schedules.iter().zip(&self.positions).enumerate();
        next.filter(|(_, (schedule, position))| position.next < schedule.total())
            .map(|(at, (schedule, position))| (at, schedule.intended_us(position.next)))
            .min_by_key(|&(_, due_us)| due_us)
    }

    /// Picks up what is due.
    pub(super) fn pick_due(&mut self, io: &mut Io) {
        let mut now = now_us();
        if !self.is_sending(now) {
            return;
        }
        self.send_held(now, io);
        for picked in 1..=PICKED_PER_TURN_MAX {
            let Some((at, due_us)) = self.earliest().filter(|&(_, due_us)| due_us <= now) else {
                return;
            };
            let position = &mut self.positions[at];
            let publisher = position.publisher + self.schedules[at].due(position.next).publisher;
            let is_will = position.is_will;
            position.advance(self.plan);
            self.book.recorder.lag.record(now - due_us, self.is_measured(due_us));
            self.book.publishers[publisher as usize].due += 1;
            self.book.backlog += 1;
            if is_will {
                self.leave_will(publisher, due_us, now, io);
            } else {
                self.send_due(publisher, now, io);
            }
            if picked % MESSAGES_PER_CLOCK == 0 {
                now = now_us();
            }
        }
    }

    /// Tries again what was held because a turn had written too much. If the flush between has
    /// not helped, the socket is blocked and the reactor will say when it has drained.
    fn send_held(&mut self, now: u64, io: &mut Io) {
        let held = std::mem::take(&mut self.held);
        for &at in &held {
            self.book.publishers[at as usize].is_held = false;
        }
        for at in held {
            let token = self.book.slots[self.book.publishers[at as usize].client as usize].token;
            if token.is_some_and(|token| io.pending(token) <= PENDING_BYTES_MAX) {
                self.send_due(at, now, io);
            }
        }
    }

    pub(super) fn is_measured(&self, intended_us: u64) -> bool {
        self.book
            .measure
            .is_some_and(|(start_us, end_us)| (start_us..end_us).contains(&intended_us))
    }

    /// The payload of one message, made once more. When a will is due is not known before.
    pub(super) fn payload_of(&self, at: u32, sequence: u32) -> Vec<u8> {
        let publisher = &self.book.publishers[at as usize];
        let schedule = self.schedules.get(publisher.schedule as usize);
        let intended_us = match schedule.filter(|_| !publisher.is_will) {
            Some(schedule) => schedule.intended_of(publisher.place, sequence),
            None => 0,
        };
        let blank = &self.payloads[publisher.schedule as usize];
        let mut payload = blank[..publisher.payload_bytes as usize].to_vec();
        let stamp = Stamp { run: self.plan.run, publisher: at, sequence, intended_us };
        if publisher.is_json {
            stamp.write_text(&mut payload);
        } else {
            stamp.write(&mut payload);
        }
        payload
    }

    /// Sends what the publisher has due, as far as window and socket allow.
    pub(super) fn send_due(&mut self, at: u32, now: u64, io: &mut Io) {
        if !self.is_sending(now) {
            return;
        }
        let run = self.plan.run;
        let Self { book, clients, schedules, scratch, payloads, held, .. } = self;
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
