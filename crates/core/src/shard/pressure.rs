//! What changes while memory is short, and whether there is room for a message.
//!
//! The shell knows how much memory the process has; it says when the ceiling is near. Then nothing
//! is taken that has to be kept: new sessions, retained messages, messages that would wait in a
//! queue. What can be passed on at once is served as ever.

use super::Shard;
use super::connection::Refusal;
use super::outlet::standing;
use super::publish::NotTaken;
use crate::bounds::{Bounds, LEAN_QUEUE_BYTES_MAX};
use crate::clients::Clients;
use crate::keys::{ConnKey, Micros};
use crate::limits::{WhenAbsent, WhenConnected};
use crate::mail::GroupPick;
use crate::message::Delivery;
use crate::routing::{Standing, Subscriber};
use crate::sink::{Shortage, Sink};
use weir_wire::{QoS, ReasonCode};

impl Shard {
    /// Says whether the process is at its memory ceiling.
    pub fn set_pressed(&mut self, is_pressed: bool) {
        self.bounds.set_pressed(is_pressed);
    }

    /// Says whether the process comes near its memory ceiling: whoever has much gets no more.
    pub fn set_lean(&mut self, is_lean: bool) {
        self.bounds.set_lean(is_lean);
    }

    /// So many bytes are about to be kept: what memory bears is looked at before, not when the
    /// input that brought them is over.
    pub(super) fn keeps(&mut self, bytes: usize, sink: &mut impl Sink) {
        let Some(Shortage { is_lean, is_pressed }) = sink.keeps(bytes) else { return };
        if (is_lean, is_pressed) != (self.bounds.is_lean, self.bounds.is_pressed) {
            self.bounds.set_lean(is_lean);
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
        if delivery.qos == QoS::AtMostOnce || !(self.bounds.is_short || may_refuse) {
            return Ok(());
        }
        self.check_subscribers_room(delivery, sink)?;
        let Self { matched, filters, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        let no_room = |member: &_| room.no_room_for(member, delivery.bytes(), sink);
        let mut groups = matched.filters.iter().flat_map(|&id| filters.groups_wanting(id));
        not_taken(groups.find_map(|group| group.no_room(no_room)))
    }

    /// The same for a message of another shard that waits to be told.
    pub(super) fn check_mailed_room(
        &mut self,
        delivery: &Delivery<'_>,
        to_subscribers: bool,
        picks: &[GroupPick],
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        if delivery.qos == QoS::AtMostOnce {
            return Ok(());
        }
        if to_subscribers {
            self.check_subscribers_room(delivery, sink)?;
        }
        let Self { filters, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        let no_room = |member: &_| room.no_room_for(member, delivery.bytes(), sink);
        let mut groups = picks.iter().filter_map(|pick| filters.group(&pick.share));
        not_taken(groups.find_map(|group| group.no_room(no_room)))
    }

    fn check_subscribers_room(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        let Self { matched, filters, .. } = self;
        matched.find(filters, delivery.topic);
        matched.collect(filters, delivery);
        self.settle_conditions(delivery, sink);
        let Self { matched, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        let is_own =
            |target: &&Subscriber| target.no_local && delivery.publisher == Some(target.session);
        let mut others = matched.subscribers.iter().filter(|target| !is_own(target));
        not_taken(others.find_map(|target| room.no_room_for(target, delivery.bytes(), sink)))
    }
}

fn not_taken(detail: Option<&'static str>) -> Result<(), NotTaken> {
    let reason = ReasonCode::QuotaExceeded;
    detail.map_or(Ok(()), |detail| Err(NotTaken { reason, detail }))
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
        let Bounds { limits, is_pressed, is_lean, .. } = self.bounds;
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
        let waiting = session.queue().map_or(0, |queue| queue.bytes) + bytes;
        if *is_lean && waiting > LEAN_QUEUE_BYTES_MAX {
            return Some("memory is about to be short, and a subscriber has much that waits");
        }
        (refuses_when_full && self.bounds.would_be_over(session, 1, bytes))
            .then_some("a subscriber's queue is full")
    }
}
