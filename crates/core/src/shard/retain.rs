//! RETAIN: a topic's message is kept by the shard that owns the topic.
//!
//! The owner is told before anybody else, so whoever has seen a message may rely on the owner's
//! having been sent it. Two shards' messages for one topic are kept in the order in which they
//! reach the owner.
//!
//! Only the owner knows whether its store has room, and a store that is full must still take what
//! replaces an older message. So where the publisher wants an acknowledgement it waits for the
//! owner's answer ([`crate::answers`]). Receivers do not wait: by the time a message turns out not
//! to be retained, they may have it.

use super::Shard;
use super::connection::Refusal;
use crate::answers::{AckReply, Reply};
use crate::keys::Ticket;
use crate::keys::{ConnKey, Micros, ShardId};
use crate::mail::Mail;
use crate::message::{Delivery, Message};
use crate::retained::RetainedFull;
use crate::sink::{Notice, Sink};
use std::sync::Arc;
use weir_wire::{PacketId, ReasonCode};

/// Why a message is not retained, in words.
pub(super) const STORE_FULL: &str = "the retained store is full";

/// What became of a message that may ask to be retained.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It does not ask for it, is in the store, or nobody waits to know.
    Yes,
    No(RetainedFull),
    /// The owner's answer to this ticket will say.
    Asked(Ticket),
}

impl Shard {
    /// Keeps or clears the topic's retained message, or has its owner do so. Comes before
    /// [`Shard::route`], whose letters say that the owner has been told. The owner's answer is
    /// wanted where there is a `publisher` to tell.
    pub(super) fn retain(
        &mut self,
        delivery: &mut Delivery<'_>,
        publisher: Option<(ConnKey, PacketId)>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Kept {
        if !delivery.retain {
            return Kept::Yes;
        }
        let owner = self.place.owner(delivery.topic);
        delivery.stamp = Some(self.retained.stamps.next(owner));
        let message = Arc::clone(delivery.shared());
        if owner == self.place.id {
            return self.keep(message).map_or_else(Kept::No, |()| Kept::Yes);
        }
        let ticket = publisher.map(|(conn, packet_id)| {
            let retained = Some(Arc::clone(&message));
            let (qos, reason, detail) = (delivery.qos, ReasonCode::Success, "");
            let reply = Reply::Ack(AckReply { packet_id, qos, reason, detail, retained });
            self.answers.insert(conn, reply, 1, now)
        });
        sink.mail(owner, Mail::Retain { message, ticket });
        ticket.map_or(Kept::Yes, Kept::Asked)
    }

    /// A message of another shard's clients came by: what was published there before it has been
    /// mailed to its owner.
    pub(super) fn note_stamp(&mut self, from: ShardId, message: &Message) {
        // One that a third shard chose a new group member for comes out of its order.
        if let Some(stamp) = message.stamp.filter(|stamp| stamp.shard == from) {
            self.retained.stamps.saw(stamp, self.place.owner(&message.topic));
        }
    }

    /// Changes this shard's own store.
    fn keep(&mut self, message: Arc<Message>) -> Result<(), RetainedFull> {
        let result = self.retained.keep(message, &self.bounds);
        self.stats.retained_refused += u64::from(result.is_err());
        result
    }

    /// A message of another shard for a topic of this one's.
    pub(super) fn on_retain(
        &mut self,
        from: ShardId,
        message: Arc<Message>,
        ticket: Option<Ticket>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let is_kept = self.keep(message).is_ok();
        if let Some(ticket) = ticket {
            sink.mail(from, Mail::Retained { ticket, is_kept });
        }
        self.answer_queries(now, sink);
    }

    /// Messages of a partition that this shard is to hold.
    pub(super) fn on_moved_retained(&mut self, messages: Vec<Arc<Message>>) {
        self.slices.add(messages.len() as u64);
        messages.into_iter().for_each(|message| self.retained.adopt(message));
    }

    /// The owner's answer: what it says is in the acknowledgement.
    pub(super) fn on_retained(
        &mut self,
        ticket: Ticket,
        is_kept: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let answer = self.answers.get_mut(ticket);
        let Some((Some(conn), Reply::Ack(ack))) =
            answer.map(|answer| (answer.conn, &mut answer.reply))
        else {
            // A publisher that comes back sends again what was not acknowledged.
            self.stats.answers_late += 1;
            return;
        };
        let message = ack.retained.take();
        if !is_kept {
            (ack.reason, ack.detail) = (ReasonCode::QuotaExceeded, STORE_FULL);
            self.stats.publishes_refused += 1;
            let Some(key) = self.connections.session(conn) else { return };
            let publisher = &self.clients[key];
            let (client_id, topic) =
                (&publisher.client_id, message.as_ref().map_or("", |message| &*message.topic));
            let (reason, detail) = (ReasonCode::QuotaExceeded, STORE_FULL);
            sink.notice(Notice::Refused { conn: Some(conn), client_id, topic, reason, detail });
            if !publisher.version().is_v5() {
                // There is no packet to say it with.
                return self.end(conn, Refusal::new(reason, detail), now, sink);
            }
            self.stats.refusals.add(reason);
        }
        self.met(ticket, now, sink);
    }
}
