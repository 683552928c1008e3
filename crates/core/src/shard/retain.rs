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
use crate::anew::retained_record;
use crate::answers::{AckReply, Answer, Reply};
use crate::keys::{ConnKey, Micros, Origin, SessionKey, ShardId, Ticket};
use crate::mail::{Mail, NotRetained};
use crate::message::{Delivery, Message};
use crate::own::is_brokers_own;
use crate::sink::Sink;
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
        publisher: Option<(ConnKey, SessionKey, PacketId)>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Kept {
        let owner = self.place.owner(delivery.topic);
        delivery.stamp = Some(self.retained.stamps.next(owner, origin));
        let message = Arc::clone(delivery.shared());
        if let Some(stamp) = delivery.stamp {
            // It comes to them by way of this node's owner.
            let Self { place, retained, .. } = self;
            let elsewhere = place.owners_elsewhere(delivery.topic);
            elsewhere.for_each(|owner| retained.stamps.saw(stamp, owner));
        }
        if owner == self.place.id {
            let kept = self.keep(message, publisher.is_some(), sink);
            return kept.map_or_else(Kept::No, |()| Kept::Yes);
        }
        let ticket = publisher.map(|(conn, session, packet_id)| {
            let retained = Some(Arc::clone(&message));
            let (qos, reason, detail) = (delivery.qos, ReasonCode::Success, "");
            let is_to_note = false;
            let ack = AckReply { session, packet_id, qos, reason, detail, retained, is_to_note };
            let reply = Reply::Ack(ack);
            self.answers.insert(Some(conn), reply, 1, now)
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

    /// Changes this shard's own store, and logs the change; other nodes are to do the same. Whoever
    /// published the message waits for all that, if it `is_awaited`.
    fn keep(
        &mut self,
        message: Arc<Message>,
        is_awaited: bool,
        sink: &mut impl Sink,
    ) -> Result<(), NotRetained> {
        let is_told = self.log.is_on() || self.retained.is_clustered();
        let kept = is_told.then(|| Arc::clone(&message));
        let room = self.check_apart(&message.topic);
        let result = room.and_then(|()| self.retained.keep(message, &self.bounds));
        self.stats.retained_refused += u64::from(result.is_err());
        if let Some(message) = kept {
            match result {
                Ok(is_changed) => {
                    self.log_kept(&message, is_changed, sink);
                    self.copy_elsewhere(&message, is_awaited, sink);
                }
                Err(_) => self.tell_refused(&message, sink),
            }
        }
        result.map(|_| ())
    }

    /// This shard's own store is as the message says.
    pub(super) fn log_kept(
        &mut self,
        message: &Arc<Message>,
        is_changed: bool,
        sink: &mut impl Sink,
    ) {
        if !self.log.is_on() || is_brokers_own(&message.topic) {
            return;
        }
        if is_changed {
            self.log.append(&retained_record(message), sink);
        } else {
            // It may be another message's record that has cleared the topic.
            self.log.rely_on_all();
        }
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
        self.begin_answer();
        let refused = self.keep(message, ticket.is_some(), sink).err();
        match ticket {
            // What it recorded is to outlive a crash before the publisher hears of it.
            Some(ticket) if self.must_wait() => {
                let reply = Reply::Retained { from, ticket, refused };
                self.insert_answer(None, reply, 0, now);
            }
            Some(ticket) => sink.mail(from, Mail::Retained { ticket, refused }),
            None => {}
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
        let Some(Answer { reply: Reply::Ack(ack), .. }) = self.answers.get_mut(ticket) else {
            // A publisher that comes back sends again what was not acknowledged.
            self.stats.answers_late += 1;
            return;
        };
        let message = ack.retained.take();
        if let Some(why) = refused {
            let topic = message.as_ref().map_or("", |message| &*message.topic);
            self.refuse_waiting(ticket, topic, why.detail(), sink);
        }
        self.met(ticket, now, sink);
    }
}
