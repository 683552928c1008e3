//! Messages of QoS 2 of durable publishers on their way to other shards, see [`crate::outbox`].

use super::Shard;
use crate::anew::tell_message;
use crate::answers::Reply;
use crate::base::Cycle;
use crate::keys::{Lsn, Micros, SessionKey, ShardId, Ticket};
use crate::mail::{GroupPick, Mail};
use crate::message::{Delivery, Message};
use crate::outbox::{Letters, MailTarget};
use crate::record::Record;
use crate::sink::Sink;
use crate::undelivered::Undelivered;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use weir_wire::QoS;

/// Steps of a letter, or of a message that is done.
const LETTER_STEPS: u64 = 2;

/// Steps of a message that is logged anew, beside its bytes.
const MAILED_STEPS: u64 = 4;

impl Shard {
    /// Whether letters with a message of this publisher wait until they may leave.
    #[inline]
    pub(super) fn is_gathered(&self, publisher: SessionKey, qos: QoS, retain: bool) -> bool {
        self.log.is_on()
            && !self.place.is_alone()
            && (qos == QoS::ExactlyOnce && self.log.session(publisher).is_some()
                || self.stands_behind(Some(publisher), retain))
    }

    /// Whether letters with a message go behind those that wait: nothing of a publisher overtakes
    /// another message of its own, and no retained message one with a lower number
    /// ([`crate::retained`]).
    #[inline]
    pub(super) fn stands_behind(&self, publisher: Option<SessionKey>, retain: bool) -> bool {
        (self.outbox.has_waiting() || !self.outbox.present.is_empty())
            && (retain || publisher.is_some_and(|publisher| self.outbox.waits(publisher)))
    }

    /// The message has been routed, and whom it is for elsewhere is known: the log has it, and its
    /// letters leave once that is committed.
    ///
    /// Where a shard may refuse it, because the topic's owner has a say or memory is short, its
    /// publisher waits until all have it, and letters leave at once. But none overtakes another.
    #[inline]
    pub(super) fn mail_gathered(
        &mut self,
        delivery: &mut Delivery<'_>,
        may_be_refused: bool,
        sink: &mut impl Sink,
    ) {
        if !self.outbox.gathered.is_empty() {
            self.mail_targets(delivery, may_be_refused, sink);
        }
    }

    #[cold]
    fn mail_targets(
        &mut self,
        delivery: &mut Delivery<'_>,
        may_be_refused: bool,
        sink: &mut impl Sink,
    ) {
        let targets = std::mem::take(&mut self.outbox.gathered);
        let is_durable = |publisher| self.log.session(publisher).is_some();
        let is_mailed = delivery.qos == QoS::ExactlyOnce
            && delivery.publisher.is_some_and(is_durable)
            && !may_be_refused
            // Nobody would mail it to another node again after a crash.
            && letters_stay(&targets, &self.place.node)
            && !self.bounds.is_short
            && self.outbox.has_room()
            && !targets.iter().any(|target| self.answers.receipts.is_short(target.shard));
        let message = Arc::clone(delivery.lent(&mut self.pool));
        let (number, publisher, ack) = (None, delivery.publisher, None);
        let mut letters = Letters { message, targets, number, publisher, ack };
        if is_mailed {
            letters.number = Some(self.log_mailed(delivery, &letters, sink));
        } else if !self.stands_behind(publisher, delivery.retain) {
            for target in letters.targets {
                let number = delivery.is_awaited.then(|| self.answers.mailed(target.shard));
                let receivers = (target.to_subscribers, &target.picks);
                self.note_sent(target.shard, number, &letters.message, receivers);
                let message = Arc::clone(&letters.message);
                let (to_subscribers, picks, mailed) = (target.to_subscribers, target.picks, None);
                let mail = Mail::Publish { message, to_subscribers, picks, number, mailed };
                sink.mail(target.shard, mail);
            }
            return;
        }
        self.outbox.present.push(letters);
    }

    fn log_mailed(
        &mut self,
        delivery: &mut Delivery<'_>,
        letters: &Letters,
        sink: &mut impl Sink,
    ) -> Lsn {
        let Self { log, outbox, .. } = self;
        let message = log.message(delivery, sink);
        let targets = Cow::Borrowed(&*letters.targets);
        let number = log.append(&Record::Mailed { number: Lsn::NONE, message, targets }, sink);
        outbox.add(number, Arc::clone(&letters.message), letters.targets.clone());
        number
    }

    /// Whether shards are still to say if they take the present message, though no letter has left.
    #[inline]
    pub(super) fn has_letters_to_ask(&self) -> bool {
        self.outbox.own().is_some_and(|letters| letters.number.is_none())
    }

    /// The acknowledgement of the present message is there: it waits for the receipts of the
    /// letters that are still to leave. What rules have made of it goes behind them.
    #[inline]
    pub(super) fn post_present(&mut self, ack: Option<Ticket>, now: Micros) {
        if !self.outbox.present.is_empty() {
            self.post_all(ack, now);
        }
    }

    #[cold]
    fn post_all(&mut self, ack: Option<Ticket>, now: Micros) {
        let mut present = std::mem::take(&mut self.outbox.present);
        for letters in present.drain(..) {
            let ack = ack.filter(|_| letters.publisher.is_some());
            self.post(Box::new(Letters { ack, ..letters }), now);
        }
        self.outbox.present = present;
    }

    fn post(&mut self, letters: Box<Letters>, now: Micros) {
        let ack = letters.ack;
        if let Some(answer) = ack.and_then(|ack| self.answers.get_mut(ack)) {
            answer.open += letters.targets.len() as u32;
        }
        self.outbox.begin_wait(letters.publisher);
        let ticket = self.answers.insert_for_nobody(Reply::Letters(letters), now);
        self.log.wait_for_last(ticket);
    }

    /// Another shard's filter, or member of a group, is noted. Whoever subscribed may rely on
    /// having been sent what was published before: letters that wait leave before the receipt.
    ///
    /// A SUBSCRIBE waits for the receipt of its last letter only, so none may be done before those
    /// that came before it.
    pub(super) fn note_subscribed(&mut self, from: ShardId, number: u64, now: Micros) {
        let Self { answers, outbox, retained, .. } = self;
        let retains = retained.stamps.sent();
        if outbox.may_note() {
            answers.receipts.note(from, number);
            return answers.receipts.note_retains(from, retains);
        }
        answers.receipts.note_pending(from, number);
        let reply = Reply::Noted { from, number, retains: retains.into() };
        self.note_behind_letters(reply, now);
    }

    /// Notes something once the letters that wait by now have left.
    pub(super) fn note_behind_letters(&mut self, reply: Reply, now: Micros) {
        self.outbox.noting += 1;
        let ticket = self.answers.insert_for_nobody(reply, now);
        self.log.wait_for_last(ticket);
    }

    /// The commit is done that letters waited for.
    pub(super) fn send_letters(&mut self, letters: Letters, now: Micros, sink: &mut impl Sink) {
        let Letters { message, targets, number: mailed, publisher, ack } = letters;
        self.outbox.end_wait(publisher);
        for target in targets {
            // If nobody waits any more, nobody can be told of a refusal.
            let ack = ack.filter(|&ack| self.answers.get(ack).is_some());
            if !self.place.has(target.shard) {
                // Of a node that is lost.
                ack.into_iter().for_each(|ack| self.met(ack, now, sink));
                continue;
            }
            let number = ack.map(|ack| {
                let number = self.answers.receipts.number(target.shard);
                self.answers.receipts.wait(target.shard, number, ack);
                number
            });
            self.slices.add(LETTER_STEPS);
            let receivers = (target.to_subscribers, &target.picks);
            self.note_sent(target.shard, number, &message, receivers);
            let (message, to_subscribers, picks) =
                (Arc::clone(&message), target.to_subscribers, target.picks);
            let mail = Mail::Publish { message, to_subscribers, picks, number, mailed };
            sink.mail(target.shard, mail);
        }
    }

    /// A letter with a message that its sender's log has.
    pub(super) fn on_mailed(
        &mut self,
        from: ShardId,
        message: &Arc<Message>,
        (to_subscribers, picks): (bool, SmallVec<[GroupPick; 1]>),
        mailed: Lsn,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.begin_answer();
        let mut delivery = Delivery::from_message(message, None);
        delivery.is_gathered = true;
        self.route_letter(&mut delivery, to_subscribers, picks, now, sink);
        // Members of groups that were chosen anew elsewhere: their letters wait for the mark too.
        self.mail_on(&mut delivery, sink);
        self.mark(from, mailed, sink);
    }

    /// A mailed letter was handled: its sender gets a receipt, or once those have it who were
    /// chosen anew elsewhere. A client that unsubscribes after the PUBREC must have got the
    /// message.
    pub(super) fn post_mailed_on(&mut self, (from, number): (ShardId, Option<u64>), now: Micros) {
        let Some(letters) = self.outbox.present.pop() else {
            return number.into_iter().for_each(|it| self.answers.receipts.note(from, it));
        };
        let ack = number.map(|number| {
            self.answers.receipts.note_pending(from, number);
            self.answers.begin();
            self.answers.insert(None, Reply::Receipt { from, number }, 0, now)
        });
        self.post(Box::new(Letters { ack, ..letters }), now);
    }

    fn mail_on(&mut self, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        if self.outbox.gathered.is_empty() {
            return;
        }
        let targets = std::mem::take(&mut self.outbox.gathered);
        let message = Arc::clone(delivery.shared());
        let (number, publisher, ack) = (None, None, None);
        let mut letters = Letters { message, targets, number, publisher, ack };
        letters.number = Some(self.log_mailed(delivery, &letters, sink));
        self.outbox.present.push(letters);
    }

    /// A mailed message was handled: what was made of it is in the commit of the mark.
    pub(super) fn mark(&mut self, from: ShardId, number: Lsn, sink: &mut impl Sink) {
        let record = self.log.append(&Record::Marked { from, number }, sink);
        self.outbox.mark(from, number, record);
    }

    /// Tells the others what of theirs is safe here.
    pub(super) fn tell_safe(&mut self, sink: &mut impl Sink) {
        while let Some((from, number)) = self.outbox.take_safe(self.log.committed()) {
            sink.mail(from, Mail::Kept { number });
        }
    }

    /// What another shard was mailed is safe there.
    pub(super) fn on_kept(&mut self, by: ShardId, number: Lsn, sink: &mut impl Sink) {
        while let Some(number) = self.outbox.take_done(by, number) {
            self.log.append(&Record::Delivered { number }, sink);
            self.slices.add(LETTER_STEPS);
        }
    }

    /// Logs anew what is still needed of what was mailed. Says whether that was all.
    pub(super) fn log_outbox(&mut self, cycle: &mut Cycle, sink: &mut impl Sink) -> bool {
        let Self { log, outbox, slices, .. } = self;
        if !std::mem::replace(&mut cycle.has_marks, true) {
            for mark in outbox.marks() {
                log.append(&Record::of_mark(mark), sink);
            }
        }
        while let Some((number, open)) = outbox.next_open(cycle.mailed) {
            if number > cycle.base {
                break;
            }
            if slices.is_spent() {
                return false;
            }
            slices.add(MAILED_STEPS + open.message.bytes() / super::base::COPIED_BYTES);
            let mut append = |record: &Record<'_>| log.append(record, sink);
            let (message, _) = tell_message(&open.message, &mut cycle.renamed, &mut append);
            let targets = Cow::Borrowed(&*open.targets);
            log.append(&Record::Mailed { number, message, targets }, sink);
            cycle.mailed = number;
        }
        true
    }

    /// Takes up a message that a shard had not handled when the broker ended. Every shard is told
    /// of it, between [`Shard::restored`] and [`Shard::end_base`]; one of them `chooses` members of
    /// groups, of whom each gets it where it is now.
    pub fn redelivered(
        &mut self,
        late: &Undelivered,
        chooses: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        let mut delivery = Delivery::from_message(&late.message, None);
        self.filters.conditions.next_message();
        self.encoder.begin();
        if late.target.to_subscribers {
            self.matched.find(&self.filters, delivery.topic);
            self.matched.collect(&mut self.filters, &delivery);
            self.settle_conditions(&delivery, sink);
            let mut subscribers = std::mem::take(&mut self.matched.subscribers);
            subscribers.retain(|it| late.clients.contains(&*self.clients[it.session].client_id));
            if !subscribers.is_empty() {
                self.outlet().deliver_merged(&mut subscribers, &mut delivery, now, sink);
            }
            self.matched.subscribers = subscribers;
        }
        if chooses {
            for pick in late.target.picks.clone() {
                self.choose_again(pick, &delivery, sink);
                self.deliver_to_chosen(&mut delivery, now, sink);
            }
            if !self.picks.there.is_empty() {
                self.mail_to_shards(false, &mut delivery, sink);
            }
        }
        self.settle(now, sink);
    }
}

/// Whether a message is for shards of this node alone.
fn letters_stay(targets: &[MailTarget], node: &Range<u16>) -> bool {
    targets.iter().all(|target| node.contains(&target.shard.0))
}
