//! Shared subscriptions: each message to one member of each group, on whichever shard.
//!
//! Every shard knows the members of every group. The shard that routes a message chooses one for
//! each group, here or there; the others choose only if the chosen one left, or cannot take it,
//! while the mail was on its way. So no message goes to two members, and none is lost while the
//! group has one.

use super::Shard;
use super::room::Room;
use crate::keys::{Lsn, Micros, SessionKey, ShardId, Ticket};
use crate::mail::{GroupPick, Mail};
use crate::message::{Delivery, Message};
use crate::outbox::MailTarget;
use crate::own::is_brokers_own;
use crate::routing::{FilterId, HOPS_MAX, Picked, Subscriber};
use crate::shard_set::ShardSet;
use crate::sink::{Notice, Sink};
use crate::unreceived::Sent;
use smallvec::SmallVec;
use std::sync::Arc;

impl Shard {
    /// Delivers to the members chosen here, and notes those chosen on other shards for
    /// [`Shard::mail_to_shards`].
    pub(super) fn deliver_to_groups(
        &mut self,
        id: FilterId,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.choose_members(id, delivery, sink);
        self.deliver_to_chosen(delivery, now, sink);
    }

    /// Chooses a member of each of the filter's groups that want the message.
    pub(super) fn choose_members(
        &mut self,
        id: FilterId,
        delivery: &Delivery<'_>,
        sink: &impl Sink,
    ) {
        let unsettled = self.unsettled(delivery.qos);
        let Self { filters, clients, bounds, picks, claims, .. } = self;
        let room = Room { clients, bounds };
        let standing = |member: &Subscriber| room.standing(member, delivery, sink);
        let is_held = |member: &Subscriber| unsettled.has(member, claims, clients);
        let publisher = delivery.publisher.map(|key| clients[key].client_id.as_bytes());
        filters.pick(id, (delivery.topic, delivery.bytes()), publisher, standing, is_held, picks);
    }

    pub(super) fn deliver_to_chosen(
        &mut self,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        while let Some(member) = self.picks.here.pop() {
            self.outlet().deliver_to_one(&member, delivery, now, sink);
        }
        if !self.picks.held.is_empty() {
            self.hold_picks(delivery, sink);
        }
    }

    /// What another shard chose: [`GroupPick::member`], or who is chosen in its place.
    pub(super) fn choose_again(
        &mut self,
        pick: GroupPick,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        let unsettled = self.unsettled(delivery.qos);
        let Self { filters, clients, bounds, picks, claims, stats, .. } = self;
        let room = Room { clients, bounds };
        let standing = |member: &Subscriber| room.standing(member, delivery, sink);
        match filters.pick_again(&pick, (&delivery.content(), delivery.bytes()), standing) {
            Some(Picked::Here(subscriber)) if unsettled.has(&subscriber, claims, clients) => {
                let session = subscriber.session;
                let group = filters.group_of_pick(&pick);
                let member = group.map_or(pick.member, |group| group.id_of(session));
                picks.held.push(GroupPick { member, ..pick });
            }
            Some(Picked::Here(subscriber)) => picks.here.push(subscriber),
            Some(Picked::There { shard, member }) if pick.hops < HOPS_MAX => {
                stats.shared_rechosen += 1;
                picks.there.push((shard, GroupPick { member, hops: pick.hops + 1, ..pick }));
            }
            Some(Picked::Unwanted) => {}
            // Nodes that have not told of all their members may have one.
            None if unsettled.are_absent => picks.held.push(pick),
            _ => self.note_no_member(delivery.topic, sink),
        }
    }

    /// Counts a message of a group that nobody is left to get, and says so.
    pub(super) fn note_no_member(&mut self, topic: &str, sink: &mut impl Sink) {
        self.stats.dropped_no_member += 1;
        let (client_id, cause) = ("", "the group has no member left");
        sink.notice(Notice::Withheld { client_id, topic, cause });
    }

    /// Asks for the conditions of groups that another shard chose members of.
    pub(super) fn ask_picks(
        &mut self,
        picks: &[GroupPick],
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        // A single one is asked when it is needed.
        if picks.len() > 1 {
            self.filters.ask_picks(picks, &delivery.content());
            self.settle_conditions(delivery, sink);
        }
    }

    /// One letter to each other shard with chosen members or, if `to_subscribers`, subscribers to
    /// what is published.
    pub(super) fn mail_to_shards(
        &mut self,
        to_subscribers: bool,
        delivery: &mut Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        let subscribed = if to_subscribers { self.matched.shards } else { ShardSet::default() };
        if subscribed.is_empty() && self.picks.there.is_empty() {
            return;
        }
        let subscribed = self.told_of(delivery.topic).and(&subscribed);
        let mut all = subscribed;
        // A member may be on another node whatever the topic.
        all.extend(self.picks.there.iter().map(|&(shard, _)| shard));
        for shard in all {
            let to_subscribers = subscribed.contains(shard);
            let is_for_it = |(to, _): &mut (_, _)| *to == shard;
            let picks: SmallVec<[GroupPick; 1]> =
                self.picks.there.extract_if(.., is_for_it).map(|(_, pick)| pick).collect();
            let target = MailTarget { shard, to_subscribers, picks };
            if delivery.is_gathered {
                self.outbox.gathered.push(target);
            } else {
                let message = Arc::clone(delivery.lent(&mut self.pool));
                let number = delivery.is_awaited.then(|| self.answers.mailed(shard));
                self.mail_message(target, (number, None), message, sink);
            }
        }
    }

    /// A letter with a message leaves. One that somebody waits for, or that is mailed, is kept if
    /// it goes to another node: to members that were chosen, or to what is kept if that is lost.
    #[inline]
    pub(super) fn mail_message(
        &mut self,
        MailTarget { shard, to_subscribers, picks }: MailTarget,
        (number, mailed): (Option<u64>, Option<Lsn>),
        message: Arc<Message>,
        sink: &mut impl Sink,
    ) {
        let mut name = mailed;
        if let Some(number) = number
            && !self.place.node.contains(&shard.0)
        {
            // Names that are those of records mean nothing after a start.
            name = mailed.filter(|_| self.unreceived.is_copied);
            if !picks.is_empty() || self.unreceived.is_copied {
                let (message, picks) = (Arc::clone(&message), picks.clone());
                self.unreceived
                    .note(shard, Sent { number, message, to_subscribers, picks, mailed });
            }
        }
        let letter = Mail::Publish { message, to_subscribers, picks, number, mailed: name };
        sink.mail(shard, letter);
    }

    /// Chooses other members for what went to those of a shard that is lost, if that did not say
    /// that they have it. Their publishers wait for these.
    pub(super) fn choose_for_lost(&mut self, lost: ShardId, now: Micros, sink: &mut impl Sink) {
        for Sent { number, message, picks, mailed, .. } in self.unreceived.take(lost) {
            if mailed.is_some() && self.keeps_mail() {
                continue;
            }
            let ticket = self.answers.receipts.waiting_for(lost, number);
            let goes_on = !picks.is_empty();
            self.choose_for(&message, picks, (ticket, mailed.is_some()), now, sink);
            mailed.into_iter().for_each(|name| self.note_had(lost, name, goes_on, sink));
        }
    }

    /// Chooses members again for a message that was chosen some for before. Who waits for it waits
    /// for these. One that is mailed is mailed on.
    pub(super) fn choose_for(
        &mut self,
        message: &Arc<Message>,
        picks: impl IntoIterator<Item = GroupPick>,
        (ticket, is_mailed): (Option<Ticket>, bool),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.begin_answer();
        let mut delivery = Delivery::from_message(message, None);
        delivery.is_awaited = ticket.is_some();
        delivery.is_gathered = is_mailed;
        self.filters.conditions.next_message();
        self.encoder.begin();
        for pick in picks {
            if self.is_late(message, now) {
                continue;
            }
            self.choose_again(GroupPick { hops: 0, ..pick }, &delivery, sink);
            self.deliver_to_chosen(&mut delivery, now, sink);
        }
        if !self.picks.there.is_empty() {
            self.mail_to_shards(false, &mut delivery, sink);
        }
        if is_mailed {
            self.mail_on(&mut delivery, sink);
            self.post_last(ticket, now);
        }
        ticket.into_iter().for_each(|ticket| self.add_waits(ticket));
    }

    /// The shards that a message may be for: what the broker says of itself is for its own node's.
    fn told_of(&self, topic: &str) -> ShardSet {
        if self.place.has_nodes() && is_brokers_own(topic) {
            return self.place.neighbors();
        }
        self.place.others()
    }

    /// Tells the other shards what the client takes, if it is connected, for each group it is a
    /// member of.
    pub(super) fn tell_presence(&self, key: SessionKey, sink: &mut impl Sink) {
        if self.place.is_alone() {
            return;
        }
        let packet_bytes_max = self.clients[key].packet_bytes_max();
        for &record in self.clients[key].subscriptions().iter() {
            let Some((share, member)) = self.filters.membership(record) else { continue };
            for shard in self.place.others() {
                let share = Arc::clone(&share);
                sink.mail(shard, Mail::Presence { share, member, packet_bytes_max });
            }
        }
    }
}
