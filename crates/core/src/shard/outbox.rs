//! Messages of QoS 2 of durable publishers on their way to other shards, see [`crate::outbox`].

use super::Shard;
use crate::anew::tell_message;
use crate::answers::Reply;
use crate::base::{Cycle, Renamed};
use crate::keys::{Lsn, Micros, SessionKey, ShardId, Ticket};
use crate::log::Log;
use crate::mail::{GroupPick, Mail};
use crate::message::{Delivery, Message};
use crate::outbox::{Handling, Letters, MailTarget, Mark, Open};
use crate::record::Record;
use crate::session::Will;
use crate::shard_set::ShardSet;
use crate::sink::Sink;
use crate::undelivered::{Late, Undelivered};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeSet;
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

    /// Whether a will is mailed: where logs are copied, it outlives the loss of its node, and of
    /// those that it goes to. While memory is short, it is not kept.
    pub(super) fn mails_will(&self, will: &Will) -> bool {
        self.unreceived.is_copied
            && will.qos > QoS::AtMostOnce
            && !will.retain
            && !self.bounds.is_short
            && self.log.is_on()
            && !self.place.is_alone()
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
        let is_exact = delivery.qos == QoS::ExactlyOnce;
        let is_to_last = is_exact && delivery.publisher.is_some_and(is_durable);
        let is_mailed = (is_to_last || delivery.is_mailed_will)
            && !may_be_refused
            // Copies of a retained message have their say too, before its identifier is noted.
            && !self.answers.has_mailed()
            // Else nobody would mail it to another node again after a crash.
            && (self.unreceived.is_copied || letters_stay(&targets, &self.place.node))
            && !self.bounds.is_short
            && self.outbox.has_room()
            && !targets.iter().any(|target| self.answers.receipts.short().contains(target.shard));
        let message = Arc::clone(delivery.lent(&mut self.pool));
        let (number, publisher, ack) = (None, delivery.publisher, None);
        let mut letters = Letters { message, targets, number, publisher, ack };
        if is_mailed {
            letters.number = Some(self.log_mailed(delivery, &letters, sink));
        }
        self.hold_gathered(&mut letters, delivery.is_awaited);
        let waits = is_mailed
            || self.stands_behind(publisher, delivery.retain)
            // Sessions were left out that have it where they go once others have been told.
            || !self.claims.switching.is_empty();
        if !waits {
            for target in letters.targets {
                let number = delivery.is_awaited.then(|| self.answers.mailed(target.shard));
                self.mail_message(target, (number, None), Arc::clone(&letters.message), sink);
            }
        } else if !letters.targets.is_empty() {
            self.outbox.present.push(letters);
        }
    }

    fn log_mailed(
        &mut self,
        delivery: &mut Delivery<'_>,
        letters: &Letters,
        sink: &mut impl Sink,
    ) -> Lsn {
        let name = self.unreceived.is_copied.then(|| self.outbox.next_name());
        let (message, targets) = (Arc::clone(&letters.message), letters.targets.clone());
        self.log_open(name, delivery, (message, targets, ShardSet::default()), sink)
    }

    /// Says in the log that a message is mailed, by this name or that of the record.
    fn log_open(
        &mut self,
        name: Option<Lsn>,
        delivery: &mut Delivery<'_>,
        (message, targets, restored): (Arc<Message>, Vec<MailTarget>, ShardSet),
        sink: &mut impl Sink,
    ) -> Lsn {
        let Self { log, outbox, .. } = self;
        let record = Record::Mailed {
            number: name.unwrap_or(Lsn::NONE),
            message: log.message(delivery, sink),
            targets: Cow::Borrowed(&*targets),
        };
        let lsn = log.append(&record, sink);
        let number = name.unwrap_or(lsn);
        outbox.add(number, Open { lsn, message, targets, restored });
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
            let is_over = mailed.is_some_and(|name| !self.outbox.is_to_go(name, target.shard));
            if is_over || !self.place.has(target.shard) {
                // Of a node that is lost.
                if !is_over {
                    let waiting = (ack, mailed.is_some());
                    let goes_on = !target.picks.is_empty();
                    self.choose_for(&message, target.picks, waiting, now, sink);
                    if let Some(name) = mailed {
                        self.note_had(target.shard, name, goes_on, sink);
                    }
                }
                ack.into_iter().for_each(|ack| self.met(ack, now, sink));
                continue;
            }
            let is_far = !self.place.node.contains(&target.shard.0);
            let has_number = ack.is_some() || is_far && mailed.is_some();
            let number = has_number.then(|| self.answers.receipts.number(target.shard));
            if let (Some(ack), Some(number)) = (ack, number) {
                self.answers.receipts.wait(target.shard, number, ack);
            }
            self.slices.add(LETTER_STEPS);
            self.mail_message(target, (number, mailed), Arc::clone(&message), sink);
        }
    }

    /// A letter with a message that its sender's log has.
    pub(super) fn on_mailed(
        &mut self,
        from: ShardId,
        message: &Arc<Message>,
        (to_subscribers, picks): (bool, SmallVec<[GroupPick; 1]>),
        (mailed, number): (Lsn, Option<u64>),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.note_stamp(from, message);
        self.begin_answer();
        let is_far = !self.place.node.contains(&from.0);
        if is_far && self.outbox.has_marked_far(from, mailed) {
            return self.answer_again(from, message, (Handling::Mailed, number), now, sink);
        }
        let mut delivery = Delivery::from_message(message, None);
        delivery.is_gathered = self.log.is_on();
        if !self.is_late(message, now) {
            self.claims.source = Some(from);
            self.route_letter(&mut delivery, to_subscribers, picks, now, sink);
            self.claims.source = None;
        }
        // Members of groups that were chosen anew elsewhere: their letters wait for the mark too.
        self.mail_on(&mut delivery, sink);
        if is_far {
            self.put_mark(Mark { from, number: mailed, handling: Handling::Mailed }, sink);
            self.post_far_on((from, number), now);
        } else {
            self.mark(from, mailed, sink);
            self.post_mailed_on((from, number), now);
        }
    }

    /// A letter of another node's shard was handled, as with [`Shard::post_mailed_on`]. The receipt
    /// also says that all is safe here.
    fn post_far_on(&mut self, (from, number): (ShardId, Option<u64>), now: Micros) {
        let Some(number) = number else { return self.post_last(None, now) };
        if self.outbox.present.is_empty() {
            return self.answer_letter(from, number, now);
        }
        self.answers.receipts.note_pending(from, number);
        let ticket = self.insert_answer(None, Reply::Receipt { from, number }, 0, now);
        self.post_last(Some(ticket), now);
    }

    /// The last letters of the present request go, for nobody or for what waits already.
    pub(super) fn post_last(&mut self, ack: Option<Ticket>, now: Micros) {
        if let Some(letters) = self.outbox.present.pop() {
            self.post(Box::new(Letters { ack, ..letters }), now);
        }
    }

    /// A mailed letter was handled: its sender gets a receipt, or once those have it who were
    /// chosen anew elsewhere. A client that unsubscribes after the PUBREC must have got the
    /// message.
    fn post_mailed_on(&mut self, (from, number): (ShardId, Option<u64>), now: Micros) {
        if self.outbox.present.is_empty() {
            return number.into_iter().for_each(|it| self.answers.receipts.note(from, it));
        }
        let ack = number.map(|number| {
            self.answers.receipts.note_pending(from, number);
            self.answers.begin();
            self.answers.insert(None, Reply::Receipt { from, number }, 0, now)
        });
        self.post_last(ack, now);
    }

    /// Mails what is gathered of a message that was mailed here.
    pub(super) fn mail_on(&mut self, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        if self.outbox.gathered.is_empty() {
            return;
        }
        let targets = std::mem::take(&mut self.outbox.gathered);
        let message = Arc::clone(delivery.shared());
        let (number, publisher, ack) = (None, None, None);
        let mut letters = Letters { message, targets, number, publisher, ack };
        letters.number = Some(self.log_mailed(delivery, &letters, sink));
        self.hold_gathered(&mut letters, false);
        if !letters.targets.is_empty() {
            self.outbox.present.push(letters);
        }
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

    /// A shard of another node has letters of ours in force, some of which are mailed.
    #[cold]
    pub(super) fn note_received(
        &mut self,
        (from, number): (ShardId, u64),
        news: (&[u64], &[u64]),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let mut all: SmallVec<[Lsn; 8]> = SmallVec::new();
        self.unreceived.received((from, number), news, |name| all.push(name));
        let has_waited = self.outbox.waits_for_restored();
        all.into_iter().for_each(|name| self.note_had(from, name, false, sink));
        if has_waited && !self.outbox.waits_for_restored() {
            self.answer_all_claimants(now, sink);
        }
    }

    /// A shard has a mailed message, or is lost; and whether its part of that `goes_on` from here,
    /// to this shard or to others.
    pub(super) fn note_had(
        &mut self,
        by: ShardId,
        number: Lsn,
        goes_on: bool,
        sink: &mut impl Sink,
    ) {
        if self.outbox.had(by, number) {
            self.log.append(&Record::Delivered { number }, sink);
            self.slices.add(LETTER_STEPS);
        } else if goes_on {
            self.log_what_is_left(number, sink);
        }
    }

    /// Others are still to have a message of which a part went on from here. What others have their
    /// logs say; of that part it is said here: the message is logged anew for the rest, in the
    /// commit of what was made of it.
    fn log_what_is_left(&mut self, number: Lsn, sink: &mut impl Sink) {
        let Self { log, outbox, slices, .. } = self;
        let Some(open) = outbox.open_mut(number) else { return };
        slices.add(MAILED_STEPS + open.message.bytes() / super::base::COPIED_BYTES);
        open.lsn = log_again((number, open), &mut Renamed::default(), log, sink);
    }

    /// A shard of another node has come: it is mailed what was not safe there before this one was
    /// started, as the first that it gets.
    pub(super) fn mail_restored(&mut self, to: ShardId, sink: &mut impl Sink) {
        for (name, message, target) in self.outbox.restored_for(to) {
            self.slices.add(LETTER_STEPS);
            let number = self.answers.receipts.number(to);
            self.mail_message(target, (Some(number), Some(name)), message, sink);
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
            if slices.is_spent() {
                return false;
            }
            if open.lsn > cycle.base {
                // The next may have been logged before that.
                cycle.mailed = number;
                slices.add(1);
                continue;
            }
            slices.add(MAILED_STEPS + open.message.bytes() / super::base::COPIED_BYTES);
            log_again((number, open), &mut cycle.renamed, log, sink);
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
        delivery.is_gathered = true;
        self.filters.conditions.next_message();
        self.encoder.begin();
        match &late.to {
            Late::Here { target, clients } => {
                if target.to_subscribers {
                    self.deliver_late(clients, &mut delivery, now, sink);
                }
                if chooses && self.unreceived.is_copied {
                    // Which members are here for good is not known yet.
                    target.picks.iter().cloned().for_each(|pick| self.gather_own(pick));
                    self.begin_answer();
                    self.mail_on(&mut delivery, sink);
                } else if chooses {
                    self.choose_for(&late.message, target.picks.clone(), (None, false), now, sink);
                }
            }
            Late::Elsewhere { from, number, targets } if self.unreceived.is_copied => {
                let name = match self.place.node.contains(&from.0) {
                    true => (*from == self.place.id).then_some(*number),
                    // There are fewer shards than were.
                    false => chooses.then(|| self.outbox.next_name()),
                };
                if name.is_some() {
                    let mut restored = ShardSet::default();
                    restored.extend(targets.iter().map(|target| target.shard));
                    let open = (Arc::clone(&late.message), targets.clone(), restored);
                    self.log_open(name, &mut delivery, open, sink);
                }
            }
            Late::Elsewhere { targets, .. } => {
                let picks = targets.iter().flat_map(|target| target.picks.clone());
                if chooses {
                    self.choose_for(&late.message, picks, (None, false), now, sink);
                }
            }
        }
        self.settle(now, sink);
    }

    fn deliver_late(
        &mut self,
        clients: &BTreeSet<Box<str>>,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.matched.find(&self.filters, delivery.topic);
        self.matched.collect(&mut self.filters, delivery);
        self.settle_conditions(delivery, sink);
        let mut subscribers = std::mem::take(&mut self.matched.subscribers);
        subscribers.retain(|it| clients.contains(&*self.clients[it.session].client_id));
        if !subscribers.is_empty() {
            self.outlet().deliver_merged(&mut subscribers, delivery, now, sink);
        }
        self.matched.subscribers = subscribers;
    }
}

/// Whether a message is for shards of this node alone.
fn letters_stay(targets: &[MailTarget], node: &Range<u16>) -> bool {
    targets.iter().all(|target| node.contains(&target.shard.0))
}

/// Logs a message that is mailed once more, for who is still to have it.
fn log_again(
    (number, open): (Lsn, &Open),
    renamed: &mut Renamed,
    log: &mut Log,
    sink: &mut impl Sink,
) -> Lsn {
    let mut append = |record: &Record<'_>| log.append(record, sink);
    let (message, _) = tell_message(&open.message, renamed, &mut append);
    let targets = Cow::Borrowed(&*open.targets);
    append(&Record::Mailed { number, message, targets })
}
