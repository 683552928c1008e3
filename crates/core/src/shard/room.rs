//! Whether a session has room for a message that may be refused for want of it.

use super::outlet::standing;
use crate::aliases::AliasOut;
use crate::bounds::{Bounds, CEILING, LEAN_QUEUE_BYTES_MAX};
use crate::clients::Clients;
use crate::encoder::{Shape, encoded_bytes};
use crate::limits::{WhenAbsent, WhenConnected};
use crate::message::Delivery;
use crate::routing::{Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use weir_wire::QoS;

/// Bytes of a PUBLISH beside topic, payload and the properties that are passed on, at most.
const HEAD_BYTES_MAX: u64 = 32;

/// What says so.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) clients: &'a Clients,
    pub(super) bounds: &'a Bounds,
}

impl Room<'_> {
    /// How a group's member stands. Where nothing is refused, none is told to be full.
    #[inline]
    pub(super) fn standing(
        &self,
        member: &Subscriber,
        delivery: &Delivery<'_>,
        sink: &impl Sink,
    ) -> Standing {
        if !self.clients.may_read(member.session, delivery.topic) {
            return Standing::TooLarge;
        }
        let session = &self.clients[member.session];
        let packet_bytes_max = session.packet_bytes_max().unwrap_or(u32::MAX);
        if delivery.bytes() + HEAD_BYTES_MAX > u64::from(packet_bytes_max)
            && self.is_too_large(member, delivery)
        {
            return Standing::TooLarge;
        }
        let standing = standing(session, self.bounds, sink);
        if standing == Standing::Ready || !self.bounds.may_refuse {
            return standing;
        }
        self.lowered(standing, member, delivery, sink)
    }

    /// Whether a member's client takes no packet of this size. A topic alias may make it smaller,
    /// but that is known only when it is sent.
    #[cold]
    fn is_too_large(&self, member: &Subscriber, delivery: &Delivery<'_>) -> bool {
        let Some(attachment) = self.clients[member.session].attachment else { return false };
        let qos = member.qos.min(delivery.qos);
        let ids = [member.subscription_id];
        let subscription_ids = if member.subscription_id == 0 { &[][..] } else { &ids };
        let (version, alias) = (attachment.version, AliasOut::None);
        let shape = Shape { version, qos, retain: false, dup: false, subscription_ids, alias };
        encoded_bytes(delivery, shape) > attachment.packet_bytes_max as usize
    }

    #[cold]
    fn lowered(
        &self,
        standing: Standing,
        member: &Subscriber,
        delivery: &Delivery<'_>,
        sink: &impl Sink,
    ) -> Standing {
        let waits = delivery.qos != QoS::AtMostOnce;
        match standing {
            _ if !waits || self.refuses(member, 1, delivery.bytes(), sink).is_none() => standing,
            Standing::Absent => Standing::AbsentFull,
            _ => Standing::Full,
        }
    }

    /// Why so many copies of a message are refused, of so many bytes each.
    pub(super) fn refuses(
        &self,
        target: &Subscriber,
        copies: usize,
        bytes: u64,
        sink: &impl Sink,
    ) -> Option<&'static str> {
        if target.qos == QoS::AtMostOnce {
            return None;
        }
        let Bounds { limits, is_pressed, is_lean, .. } = self.bounds;
        let session = &self.clients[target.session];
        let standing = standing(session, self.bounds, sink);
        let waiting = match standing {
            Standing::Ready => copies.saturating_sub(window_room(session)),
            _ => copies,
        };
        if waiting == 0 {
            return None;
        }
        if *is_pressed {
            return Some(CEILING);
        }
        let bytes = bytes * waiting as u64;
        let has_much =
            session.queue().map_or(0, |queue| queue.bytes) + bytes > LEAN_QUEUE_BYTES_MAX;
        if *is_lean && has_much {
            return Some("memory is about to be short, and a subscriber has much that waits");
        }
        let refuses_when_full = if standing.is_connected() && !session.catches_up() {
            limits.queue_full_connected == WhenConnected::RefusePublisher
        } else {
            limits.queue_full_absent == WhenAbsent::RefusePublisher
        };
        (refuses_when_full && self.bounds.would_be_over(session, waiting, bytes))
            .then_some("a subscriber's queue is full")
    }
}

/// How many messages a connected session can be sent at once, as far as its window goes.
fn window_room(session: &Session) -> usize {
    session.attachment.map_or(0, |attachment| session.window.room(attachment.open_max))
}
