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
use crate::keys::{ConnKey, Micros, Origin, ShardId};
use crate::mail::{Mail, NotRetained};
use crate::message::{Delivery, Message};

use crate::sink::{Notice, Sink};
use std::sync::Arc;
use weir_wire::{PacketId, ReasonCode};

/// What became of a message that may ask to be retained.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It does not ask for it, is in the store, or nobody waits to know.
    Yes,
    No(NotRetained),
    /// The owner's answer to this ticket will say.
    Asked(Ticket),
}

impl Shard {
    /// Keeps or clears the topic's retained message, or has its owner do so. Comes before
    /// [`Shard::route`], whose letters say that the owner has been told. It counts for `origin`.
    /// The owner's answer is wanted where there is a `publisher` to tell.
    pub(super) fn retain(
        &mut self,
        delivery: &mut Delivery<'_>,
        origin: Origin,
        publisher: Option<(ConnKey, PacketId)>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Kept {
        let owner = self.place.owner(delivery.topic);
        delivery.stamp = Some(self.retained.stamps.next(owner, origin));
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
    fn keep(&mut self, message: Arc<Message>) -> Result<(), NotRetained> {
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
        let refused = self.keep(message).err();
        if let Some(ticket) = ticket {
            sink.mail(from, Mail::Retained { ticket, refused });
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
        refused: Option<NotRetained>,
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
        if let Some(why) = refused {
            (ack.reason, ack.detail) = (ReasonCode::QuotaExceeded, why.detail());
            let topic = message.as_ref().map_or("", |message| &*message.topic);
            if !self.tell_refused(conn, topic, why.detail(), now, sink) {
                return;
            }
        }
        self.met(ticket, now, sink);
    }

    /// Another shard had no room for a message of this one's client.
    pub(super) fn on_refused(
        &mut self,
        from: ShardId,
        topic: &str,
        number: u64,
        detail: &'static str,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let ticket = self.answers.receipts.waiting_for(from, number);
        let answer = ticket.and_then(|ticket| self.answers.get_mut(ticket));
        // A publisher that has gone sends again what was not acknowledged.
        let Some((Some(conn), Reply::Ack(ack))) =
            answer.map(|answer| (answer.conn, &mut answer.reply))
        else {
            return;
        };
        let is_first = !ack.reason.is_error();
        (ack.reason, ack.detail) = (ReasonCode::QuotaExceeded, detail);
        if is_first {
            self.tell_refused(conn, topic, detail, now, sink);
        }
    }

    /// Says that a message is not taken whose acknowledgement waits. Before 5.0 no packet says it:
    /// the connection ends, and this is false.
    fn tell_refused(
        &mut self,
        conn: ConnKey,
        topic: &str,
        detail: &'static str,
        now: Micros,
        sink: &mut impl Sink,
    ) -> bool {
        self.stats.publishes_refused += 1;
        let Some(key) = self.connections.session(conn) else { return false };
        let publisher = &self.clients[key];
        let client_id = &publisher.client_id;
        let reason = ReasonCode::QuotaExceeded;
        sink.notice(Notice::Refused { conn: Some(conn), client_id, topic, reason, detail });
        if !publisher.version().is_v5() {
            self.end(conn, Refusal::new(reason, detail), now, sink);
            return false;
        }
        self.stats.refusals.add(reason);
        true
    }
}
