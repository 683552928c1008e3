//! What changes while memory is short, and whether there is room for a message.
//!
//! The shell knows how much memory the process has; it says when the ceiling is near. Then nothing
//! is taken that has to be kept: new sessions, retained messages, messages that would wait in a
//! queue. What can be passed on at once is served as ever.

use super::Shard;
use super::connection::Refusal;
use super::delivery::is_over;
use super::groups::standing;
use super::publish::NotTaken;
use crate::keys::{ConnKey, Micros};
use crate::limits::{Limits, WhenAbsent, WhenConnected};
use crate::message::Delivery;
use crate::pages::Pages;
use crate::routing::{FilterId, Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use weir_wire::{QoS, ReasonCode};

/// Output of one connection while pressed, in bytes.
const PRESSED_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A part of a packet while pressed, in bytes; more ends the connection.
const PRESSED_PARTIAL_BYTES_MAX: usize = 16 * 1024;

impl Shard {
    /// Says whether the process is at its memory ceiling.
    pub fn set_pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
        self.output_bytes_max = if is_pressed {
            self.limits.output_bytes_max.min(PRESSED_OUTPUT_BYTES_MAX)
        } else {
            self.limits.output_bytes_max
        };
    }

    /// An incomplete packet of `bytes` waits for its rest.
    pub(super) fn check_partial(
        &mut self,
        conn: ConnKey,
        bytes: usize,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if self.is_pressed && bytes > PRESSED_PARTIAL_BYTES_MAX {
            let detail = "the memory ceiling is reached";
            self.end(conn, Refusal::new(ReasonCode::QuotaExceeded, detail), now, sink);
        }
    }

    /// Refuses a message that would have to wait for one of its receivers while memory is short,
    /// or where the settings let a full queue refuse it. Costs nothing otherwise.
    pub(super) fn check_room(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &impl Sink,
    ) -> Result<(), NotTaken> {
        let limits = &self.limits;
        let may_refuse = limits.queue_full_connected == WhenConnected::RefusePublisher
            || limits.queue_full_absent == WhenAbsent::RefusePublisher;
        if delivery.qos == QoS::AtMostOnce || !(self.is_pressed || may_refuse) {
            return Ok(());
        }
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.filters.find(delivery.topic, &mut found);
        let refused = self.who_has_no_room(&found, delivery, sink);
        self.found = found;
        let reason = ReasonCode::QuotaExceeded;
        refused.map_or(Ok(()), |detail| Err(NotTaken { reason, detail }))
    }

    fn who_has_no_room(
        &mut self,
        found: &[FilterId],
        delivery: &Delivery<'_>,
        sink: &impl Sink,
    ) -> Option<&'static str> {
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        for &id in found {
            targets.extend_from_slice(&self.filters.get(id).subscribers);
        }
        self.filters.add_filtered(found, &delivery.content(), &mut targets);
        let Self { filters, sessions, limits, is_pressed, output_bytes_max, .. } = self;
        let room =
            Room { sessions, limits, is_pressed: *is_pressed, output_bytes_max: *output_bytes_max };
        let bytes = delivery.bytes();
        let refused = targets
            .iter()
            .filter(|target| !(target.no_local && delivery.publisher == Some(target.session)))
            .find_map(|target| room.no_room_for(target, bytes, sink))
            .or_else(|| {
                found.iter().find_map(|&id| {
                    let no_room = |member: &_| room.no_room_for(member, bytes, sink);
                    filters.groups_wanting(id).find_map(|group| group.no_room(no_room))
                })
            });
        self.targets = targets;
        refused
    }
}

/// What says whether a session has room.
struct Room<'a> {
    sessions: &'a Pages<Session>,
    limits: &'a Limits,
    is_pressed: bool,
    output_bytes_max: usize,
}

impl Room<'_> {
    fn no_room_for(
        &self,
        target: &Subscriber,
        bytes: u64,
        sink: &impl Sink,
    ) -> Option<&'static str> {
        if target.qos == QoS::AtMostOnce {
            return None;
        }
        let session = &self.sessions[target.session.0 as usize];
        let refuses_when_full = match standing(session, self.output_bytes_max, sink) {
            Standing::Ready => return None,
            Standing::Busy if !session.catches_up() => {
                self.limits.queue_full_connected == WhenConnected::RefusePublisher
            }
            Standing::Busy | Standing::Absent => {
                self.limits.queue_full_absent == WhenAbsent::RefusePublisher
            }
        };
        if self.is_pressed {
            return Some("the memory ceiling is reached");
        }
        (refuses_when_full && is_over(session, self.limits, 1, bytes))
            .then_some("a subscriber's queue is full")
    }
}
