//! From a message to its receivers: sessions, groups, other shards.

use super::Shard;
use super::outlet::Outlet;
use super::publish::NotTaken;
use crate::conditions::Holder;
use crate::keys::{Micros, SessionKey, ShardId};
use crate::mail::{GroupPick, Mail};
use crate::message::{Delivery, Message};
use crate::outbox::Handling;
use crate::sink::{Notice, Sink};
use smallvec::SmallVec;
use std::sync::Arc;

impl Shard {
    /// Gives a message of this shard's client, or its will, to every matching session, group and
    /// shard. Says whether there was one.
    pub(super) fn route(
        &mut self,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> bool {
        if self.filters.has_others {
            self.matched.find_everywhere(&self.filters, delivery.topic);
        } else {
            self.matched.find(&self.filters, delivery.topic);
        }
        self.note_recent(delivery.topic, delivery.stamp);
        self.encoder.begin();
        self.deliver_to_subscribers(delivery, now, sink);
        if self.matched.has_lists_beside {
            if self.picks.is_empty() {
                for at in 0..self.matched.filters.len() {
                    self.deliver_to_groups(self.matched.filters[at], delivery, now, sink);
                }
            } else {
                // Room was asked for, see [`Shard::check_room`].
                self.deliver_to_chosen(delivery, now, sink);
            }
        }
        let is_matched = !self.matched.filters.is_empty();
        if self.place.is_alone() {
            return is_matched;
        }
        self.mail_to_shards(true, delivery, sink);
        is_matched || !self.matched.shards.is_empty()
    }

    /// A letter with a message that another shard has routed: `picks` are the members of groups
    /// that it has chosen here.
    pub(super) fn on_publish_mail(
        &mut self,
        from: ShardId,
        message: &Arc<Message>,
        (mut to_subscribers, mut picks): (bool, SmallVec<[GroupPick; 1]>),
        number: Option<u64>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.note_stamp(from, message);
        self.begin_answer();
        if self.unreceived.is_copied {
            match self.handling(from, number) {
                None => {}
                // Subscribers have it; members of groups get it now.
                Some(Handling::PutOff) => to_subscribers = false,
                Some(how) => return self.answer_again(from, message, (how, number), now, sink),
            }
            if self.is_late(message, now) {
                to_subscribers = false;
                picks.clear();
            }
        }
        self.claims.source = Some(from);
        let routed = self.route_mail(message, to_subscribers, picks, number.is_some(), now, sink);
        self.claims.source = None;
        let Some(number) = number else { return };
        let is_refused = routed.is_err();
        if let Err(NotTaken { detail, .. }) = routed {
            let topic = message.topic.as_str().into();
            sink.mail(from, Mail::Refused { topic, number, detail });
        }
        self.note_handled(from, number, is_refused, sink);
        self.answer_letter(from, number, now);
    }

    /// Whether a message has expired on its way: it may have waited for who is in the place of a
    /// lost node. Counts it.
    pub(super) fn is_late(&mut self, message: &Message, now: Micros) -> bool {
        let is_late = message.is_expired(now);
        self.stats.dropped_expired += u64::from(is_late);
        is_late
    }

    /// Gives a message of another shard, which has told the others itself, to whom it is for here.
    /// One that is awaited is refused if there is no room for it while memory is short: then nobody
    /// here gets it.
    pub(super) fn route_mail(
        &mut self,
        message: &Arc<Message>,
        to_subscribers: bool,
        picks: SmallVec<[GroupPick; 1]>,
        is_awaited: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        let mut delivery = Delivery::from_message(message, None);
        // Who is chosen again elsewhere is awaited in the publisher's name.
        delivery.is_awaited = is_awaited;
        self.filters.conditions.next_message();
        let is_checked = is_awaited && self.bounds.is_short;
        if is_checked {
            self.check_mailed_room(&delivery, to_subscribers, &picks, sink)?;
            // They are chosen by now.
            self.route_chosen(&mut delivery, to_subscribers, SmallVec::new(), now, sink);
        } else {
            self.route_chosen(&mut delivery, to_subscribers, picks, now, sink);
        }
        Ok(())
    }

    /// Gives a message that another shard has mailed, and that is taken in any case, to whom it is
    /// for here.
    pub(super) fn route_letter(
        &mut self,
        delivery: &mut Delivery<'_>,
        to_subscribers: bool,
        picks: SmallVec<[GroupPick; 1]>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.filters.conditions.next_message();
        self.route_chosen(delivery, to_subscribers, picks, now, sink);
    }

    /// To subscribers, to members that are chosen, and to those that `picks` has to be chosen anew.
    fn route_chosen(
        &mut self,
        delivery: &mut Delivery<'_>,
        to_subscribers: bool,
        picks: SmallVec<[GroupPick; 1]>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.encoder.begin();
        if to_subscribers {
            self.matched.find(&self.filters, delivery.topic);
            self.note_recent(delivery.topic, delivery.stamp);
            self.deliver_to_subscribers(delivery, now, sink);
        }
        self.deliver_to_chosen(delivery, now, sink);
        self.ask_picks(&picks, delivery, sink);
        for pick in picks {
            self.choose_again(pick, delivery, sink);
            self.deliver_to_chosen(delivery, now, sink);
        }
        if !self.picks.there.is_empty() {
            self.mail_to_shards(false, delivery, sink);
        }
    }

    /// To those that the filters found bring, but for groups.
    fn deliver_to_subscribers(
        &mut self,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.matched.collect(&mut self.filters, delivery);
        if self.matched.has_lists_beside {
            self.settle_conditions(delivery, sink);
        }
        self.slices.add(self.matched.steps(&self.filters));
        let mut subscribers = std::mem::take(&mut self.matched.subscribers);
        if self.claims.is_any_moving() {
            self.leave_out_moving(&mut subscribers, delivery);
        }
        let is_one_list = self.matched.is_one_list;
        let mut outlet = self.outlet();
        if is_one_list {
            for subscriber in &subscribers {
                outlet.deliver_to_one(subscriber, delivery, now, sink);
            }
        } else if !subscribers.is_empty() {
            outlet.deliver_merged(&mut subscribers, delivery, now, sink);
        }
        self.matched.subscribers = subscribers;
    }

    /// Counts what the conditions of a message took, and says whose were left out.
    pub(super) fn settle_conditions(&mut self, delivery: &Delivery<'_>, sink: &mut impl Sink) {
        let Self { filters, clients, slices, .. } = self;
        slices.add(filters.conditions.take_steps());
        while let Some((id, holder)) = filters.conditions.next_left_out() {
            let client_id = match holder {
                Some(Holder::Here(session)) => &*clients[session].client_id,
                Some(Holder::There(_)) | None => "",
            };
            let (topic, condition) = (delivery.topic, filters.conditions.text(id));
            sink.notice(Notice::ConditionLeftOut { client_id, topic, condition });
        }
    }

    /// Sends a session what waits for it, as far as its window and output allow.
    pub(super) fn pump(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        self.outlet().pump(key, now, sink);
        if self.clients[key].has_replays() {
            self.replay(key, now, sink);
        }
    }

    /// The way to this shard's clients.
    #[inline]
    pub(super) fn outlet(&mut self) -> Outlet<'_> {
        let Self {
            claims,
            clients,
            connections,
            answers,
            encoder,
            bounds,
            due,
            log,
            paging,
            stats,
            ..
        } = self;
        Outlet { claims, clients, connections, answers, encoder, bounds, due, log, paging, stats }
    }
}
