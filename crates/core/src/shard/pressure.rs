//! What changes while memory is short, and whether there is room for a message.
//!
//! The shell knows how much memory the process has; it says when the ceiling is near. Then nothing
//! is taken that has to be kept: new sessions, retained messages, messages that would wait in a
//! queue. What can be passed on at once is served as ever.

use super::Shard;
use super::connection::Refusal;
use super::outlet::standing;
use super::publish::NotTaken;
use crate::bounds::Bounds;
use crate::clients::Clients;
use crate::keys::{ConnKey, Micros};
use crate::limits::{WhenAbsent, WhenConnected};
use crate::message::Delivery;
use crate::routing::{Standing, Subscriber};
use crate::sink::Sink;
use weir_wire::{QoS, ReasonCode};

impl Shard {
    /// Says whether the process is at its memory ceiling.
    pub fn set_pressed(&mut self, is_pressed: bool) {
        self.bounds.set_pressed(is_pressed);
    }

    /// So many bytes are about to be kept: what memory bears is looked at before, not when the
    /// input that brought them is over.
    pub(super) fn keeps(&mut self, bytes: usize, sink: &mut impl Sink) {
        if let Some(is_pressed) = sink.keeps(bytes)
            && is_pressed != self.bounds.is_pressed
        {
            self.bounds.set_pressed(is_pressed);
        }
    }

    /// An incomplete packet of `bytes` waits for its rest.
    pub(super) fn check_partial(
        &mut self,
        conn: ConnKey,
        bytes: usize,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if !self.bounds.allows_partial(bytes) {
            let detail = "the memory ceiling is reached";
            self.end(conn, Refusal::new(ReasonCode::QuotaExceeded, detail), now, sink);
        }
    }

    /// Refuses a message that would have to wait for one of its receivers while memory is short,
    /// or where the settings let a full queue refuse it. Costs nothing otherwise.
    pub(super) fn check_room(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        let limits = &self.bounds.limits;
        let may_refuse = limits.queue_full_connected == WhenConnected::RefusePublisher
            || limits.queue_full_absent == WhenAbsent::RefusePublisher;
        if delivery.qos == QoS::AtMostOnce || !(self.bounds.is_pressed || may_refuse) {
            return Ok(());
        }
        let Self { matched, filters, .. } = self;
        matched.find(filters, delivery.topic);
        matched.collect(filters, delivery);
        self.settle_conditions(delivery, sink);
        let Self { matched, filters, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        let bytes = delivery.bytes();
        let refused = matched
            .subscribers
            .iter()
            .filter(|target| !(target.no_local && delivery.publisher == Some(target.session)))
            .find_map(|target| room.no_room_for(target, bytes, sink))
            .or_else(|| {
                matched.filters.iter().find_map(|&id| {
                    let no_room = |member: &_| room.no_room_for(member, bytes, sink);
                    filters.groups_wanting(id).find_map(|group| group.no_room(no_room))
                })
            });
        let reason = ReasonCode::QuotaExceeded;
        refused.map_or(Ok(()), |detail| Err(NotTaken { reason, detail }))
    }
}

/// What says whether a session has room.
struct Room<'a> {
    clients: &'a Clients,
    bounds: &'a Bounds,
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
        let Bounds { limits, is_pressed, .. } = self.bounds;
        let session = &self.clients[target.session];
        let refuses_when_full = match standing(session, self.bounds, sink) {
            Standing::Ready => return None,
            Standing::Busy if !session.catches_up() => {
                limits.queue_full_connected == WhenConnected::RefusePublisher
            }
            Standing::Busy | Standing::Absent => {
                limits.queue_full_absent == WhenAbsent::RefusePublisher
            }
        };
        if *is_pressed {
            return Some("the memory ceiling is reached");
        }
        (refuses_when_full && self.bounds.would_be_over(session, 1, bytes))
            .then_some("a subscriber's queue is full")
    }
}
