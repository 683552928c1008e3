//! Publishing: what is due is picked up, and sent as soon as the broker lets it.

use super::handler::ClientSink;
use super::{Engine, State};
use crate::outcome::Phase;
use crate::stamp::Stamp;
use std::rc::Rc;
use weir_reactor::{Io, now_us};
use weir_wire::QoS;

/// Messages picked up in one turn, so that a generator behind its schedule still reads.
const PICKED_PER_TURN_MAX: u32 = 4096;

/// Bytes that may wait for a publisher's socket; beyond, its messages wait as numbers.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// The time is taken again after this many messages.
const MESSAGES_PER_CLOCK: u32 = 32;

impl Engine<'_> {
    /// When the next message is due, while there is publishing.
    pub(super) fn next_due_us(&self) -> Option<u64> {
        if !matches!(self.phase, Phase::WarmUp | Phase::Measure) {
            return None;
        }
        self.schedules
            .iter()
            .zip(&self.positions)
            .filter(|(schedule, (_, next))| *next < schedule.total())
            .map(|(schedule, (_, next))| schedule.intended_us(*next))
            .min()
    }

    /// Picks up what is due.
    pub(super) fn pick_due(&mut self, io: &mut Io) {
        let mut now = now_us();
        let mut picked = 0;
        for at in 0..self.schedules.len() {
            let schedule = self.schedules[at];
            let (first, mut next) = self.positions[at];
            while next < schedule.total() && schedule.intended_us(next) <= now {
                let due = schedule.due(next);
                next += 1;
                self.book
                    .recorder
                    .lag
                    .record(now - due.intended_us, self.is_measured(due.intended_us));
                let publisher = first + due.publisher;
                self.book.publishers[publisher as usize].due += 1;
                self.book.backlog += 1;
                self.send_due(publisher, now, io);
                picked += 1;
                if picked % MESSAGES_PER_CLOCK == 0 {
                    now = now_us();
                }
                if picked >= PICKED_PER_TURN_MAX {
                    break;
                }
            }
            self.positions[at].1 = next;
        }
    }

    pub(super) fn is_measured(&self, intended_us: u64) -> bool {
        self.book
            .measure
            .is_some_and(|(start_us, end_us)| (start_us..end_us).contains(&intended_us))
    }

    /// Sends what the publisher has due, as far as window and socket allow.
    pub(super) fn send_due(&mut self, at: u32, now: u64, io: &mut Io) {
        let run = self.plan.run;
        let Self { book, clients, schedules, scratch, payload, .. } = self;
        let publisher = &book.publishers[at as usize];
        let client_at = publisher.client;
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
            if !client.can_publish(qos) || io.pending(token) > PENDING_BYTES_MAX {
                return;
            }
            let sequence = book.publishers[at as usize].sent;
            let intended_us = schedule.intended_of(place, sequence);
            Stamp { run, publisher: at, sequence, intended_us }.write(payload);
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
