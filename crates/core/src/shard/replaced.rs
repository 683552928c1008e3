//! A node that is lost, and in whose place another begins from what its log says: nothing is lost
//! that somebody waits for.
//!
//! The other one is the node itself after a restart, or stands in for it where a copy of its log
//! is. What had no receipt goes there once more, and is taken once, since the log says how far each
//! sender's letters were handled. Until the new one has told what it wants, it gets all.

use super::Shard;
use super::nodes::LETTER_STEPS;
use crate::keys::{Lsn, Micros, ShardId};
use crate::letter::NO_ROOM_THERE;
use crate::mail::Mail;
use crate::message::Message;
use crate::outbox::{Handling, Mark};
use crate::record::Record;
use crate::sink::Sink;
use crate::unreceived::Sent;
use std::ops::Range;
use std::sync::Arc;

impl Shard {
    /// The log of each shard is copied to another node, and with it what is recorded of others'
    /// letters: they are kept here until their receivers have them, and taken once there.
    pub fn set_copied(&mut self, is_copied: bool) {
        self.unreceived.is_copied = is_copied;
    }

    /// A node is lost, and others of the same identifiers are here, which have what its log says.
    /// As [`Shard::node_lost`] and [`Shard::node_joined`], but who waits for its receipts of
    /// messages waits for theirs, and who waits to be let in waits for what they say.
    pub fn node_replaced(&mut self, node: Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        if !self.place.remove_node(&node) {
            self.filters.unlisted.extend(node.clone().map(ShardId));
            return self.node_joined(node, now, sink);
        }
        self.filters.doubt(&node);
        self.forget_of(&node, now, sink);
        let Some(visit) = self.place.add_node(node.clone()) else { return };
        self.go_on_moving(now, sink);
        self.begin_list(&node, sink);
        let shards = || node.clone().map(ShardId);
        let last: Vec<u64> = shards().map(|shard| self.answers.receipts.last(shard)).collect();
        // In the order of their numbers: a receipt is for all letters before its own.
        shards().for_each(|shard| self.mail_again(shard, sink));
        self.claim_of(&node, now, sink);
        for (shard, last) in shards().zip(last) {
            let Self { answers, unreceived, .. } = self;
            let stays = |number| number > last || unreceived.has(shard, number);
            for ticket in answers.receipts.forget_but(shard, stays) {
                self.met(ticket, now, sink);
            }
            self.outbox.forget(shard);
        }
        self.list_all(node, (visit, true), now, sink);
        self.answer_queries(now, sink);
        self.settle(now, sink);
    }

    /// What became of a letter of a shard of another node, if it came here, or to who was in this
    /// place, before.
    #[cold]
    pub(super) fn handling(&self, from: ShardId, number: Option<u64>) -> Option<Handling> {
        let number = number.filter(|_| !self.place.node.contains(&from.0))?;
        self.outbox.handling(from, Lsn(number))
    }

    /// Its sender waits for a letter that was handled before: until all of that outlives a crash.
    /// If it was refused it is again: taken now, it would come behind what was published after it.
    #[cold]
    pub(super) fn answer_again(
        &mut self,
        from: ShardId,
        message: &Message,
        (handling, number): (Handling, Option<u64>),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(number) = number else { return };
        if handling == Handling::Refused {
            let (topic, detail) = (message.topic.as_str().into(), NO_ROOM_THERE);
            sink.mail(from, Mail::Refused { topic, number, detail });
        }
        self.log.rely_on_all();
        self.answer_letter(from, number, now);
    }

    /// A letter with a message was handled, or refused.
    #[inline]
    pub(super) fn note_handled(
        &mut self,
        from: ShardId,
        number: u64,
        is_refused: bool,
        sink: &mut impl Sink,
    ) {
        if self.unreceived.is_copied {
            self.mark_letter(from, number, is_refused, sink);
        }
    }

    /// If it is of another node's shard: what it recorded, and that it did, are in one commit. What
    /// went on to others may be lost with this node, and is sent on again then.
    #[cold]
    fn mark_letter(&mut self, from: ShardId, number: u64, is_refused: bool, sink: &mut impl Sink) {
        let handling = match is_refused {
            true => Handling::Refused,
            false if self.answers.has_mailed() => Handling::PutOff,
            false => Handling::Whole,
        };
        // What is for a session that comes is recorded once that is whole.
        let is_recorded = handling != Handling::Whole
            || self.log.logged().is_some()
            || !self.claims.coming.is_empty();
        if is_recorded && self.log.is_on() && !self.place.node.contains(&from.0) {
            self.put_mark(Mark { from, number: Lsn(number), handling }, sink);
        }
    }

    /// A letter that was put off has gone where it had to, or was refused there.
    pub(super) fn note_gone_on(
        &mut self,
        from: ShardId,
        number: u64,
        is_refused: bool,
        sink: &mut impl Sink,
    ) {
        let number = Lsn(number);
        if self.unreceived.is_copied && self.outbox.handling(from, number) == Some(Handling::PutOff)
        {
            let handling = if is_refused { Handling::Refused } else { Handling::Whole };
            self.put_mark(Mark { from, number, handling }, sink);
        }
    }

    /// Takes up what was handled of the letters of a shard of another node, as
    /// [`crate::Rebuild::marks`] has it. Comes between [`Shard::begin_base`] and
    /// [`Shard::end_base`].
    pub fn restored_mark(&mut self, mark: Mark, sink: &mut impl Sink) {
        self.put_mark(mark, sink);
    }

    pub(super) fn put_mark(&mut self, mark: Mark, sink: &mut impl Sink) {
        self.outbox.mark_letter(mark);
        if self.log.is_on() {
            self.log.append(&Record::of_mark(mark), sink);
        }
    }

    /// Messages that it has not said to have.
    fn mail_again(&mut self, to: ShardId, sink: &mut impl Sink) {
        let all = self.unreceived.take(to);
        for Sent { number, message, to_subscribers, picks, mailed } in &all {
            self.slices.add(LETTER_STEPS);
            let (message, to_subscribers) = (Arc::clone(message), *to_subscribers);
            let (picks, number, mailed) = (picks.clone(), Some(*number), *mailed);
            sink.mail(to, Mail::Publish { message, to_subscribers, picks, number, mailed });
        }
        self.unreceived.put_back(to, all);
    }
}
