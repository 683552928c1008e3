//! What changes while memory is short, and whether there is room for a message.
//!
//! The shell knows how much memory the process has; it says when the ceiling is near. Then nothing
//! is taken that has to be kept: new sessions, retained messages, messages that would wait in a
//! queue. What can be passed on at once is served as ever.

use super::Shard;
use super::nodes::ask_for_receipt;
use super::publish::NotTaken;
use super::room::Room;
use crate::bounds::CEILING;
use crate::letter::NO_ROOM_THERE;
use crate::mail::GroupPick;
use crate::message::Delivery;
use crate::routing::{Group, Subscriber};
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

    /// Refuses a message that would have to wait for one of its receivers while memory is short,
    /// or where the settings let a full queue refuse it. Costs nothing otherwise.
    ///
    /// Members of groups are chosen for that: [`Shard::route`] serves them, and no others.
    pub(super) fn check_room(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        if delivery.qos == QoS::AtMostOnce || !self.bounds.may_refuse {
            return Ok(());
        }
        self.check_subscribers_room(delivery, sink)?;
        if !self.matched.has_lists_beside {
            return Ok(());
        }
        self.check_groups_room(delivery, sink)?;
        for at in 0..self.matched.filters.len() {
            self.choose_members(self.matched.filters[at], delivery, sink);
        }
        self.check_chosen(delivery, sink)
    }

    /// Refuses a message of QoS 2 that is for several, one of them where memory or the disk is
    /// short. There it may be refused, and would come to the others twice when it is sent again.
    #[inline]
    pub(super) fn check_room_elsewhere(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        if delivery.qos != QoS::ExactlyOnce
            || !self.unreceived.is_copied
            || self.answers.receipts.short().is_empty()
        {
            return Ok(());
        }
        let is_durable = |key| self.log.session(key).is_some();
        match delivery.publisher.is_some_and(is_durable) {
            true => self.check_short(delivery, sink),
            false => Ok(()),
        }
    }

    #[cold]
    fn check_short(
        &mut self,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        let Self { matched, filters, answers, .. } = self;
        let short = answers.receipts.short();
        matched.find_everywhere(filters, delivery.topic);
        let (mut targets, mut receivers) = (matched.shards.and(&short), matched.shards.len());
        for filter in matched.filters.iter().map(|&id| filters.get(id)) {
            let lists = filter.groups().count().max(usize::from(filter.has_lists_beside()));
            receivers += filter.subscribers.len() + lists;
            let members = filter.groups().flat_map(Group::shards);
            targets.extend(members.filter(|&shard| short.contains(shard)));
        }
        if targets.is_empty() || receivers < 2 {
            return Ok(());
        }
        for shard in targets {
            // Else nobody here would hear that there is room again.
            ask_for_receipt(shard, answers.receipts.number(shard), sink);
        }
        not_taken(Some(NO_ROOM_THERE))
    }

    /// The same for a message of another shard that waits to be told: the members that it is for
    /// are chosen anew, as far as need be.
    pub(super) fn check_mailed_room(
        &mut self,
        delivery: &Delivery<'_>,
        to_subscribers: bool,
        picks: &[GroupPick],
        sink: &mut impl Sink,
    ) -> Result<(), NotTaken> {
        self.matched.subscribers.clear();
        if to_subscribers {
            self.check_subscribers_room(delivery, sink)?;
        }
        self.ask_picks(picks, delivery, sink);
        for pick in picks {
            self.choose_again(pick.clone(), delivery, sink);
        }
        if self.bounds.is_pressed && !self.picks.there.is_empty() {
            // Nobody would be told whether there is room for it where it would go next.
            self.picks.clear();
            return not_taken(Some(CEILING));
        }
        self.check_chosen(delivery, sink)
    }

    /// Refuses a message that no member of a group has room for, as far as this shard knows.
    fn check_groups_room(&self, delivery: &Delivery<'_>, sink: &impl Sink) -> Result<(), NotTaken> {
        let Self { matched, filters, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        let refuses = |member: &Subscriber| {
            let may_read = clients.may_read(member.session, delivery.topic);
            may_read.then(|| room.refuses(member, 1, delivery.bytes(), sink)).flatten()
        };
        let mut groups = matched.filters.iter().flat_map(|&id| filters.groups_wanting(id));
        not_taken(groups.find_map(|group| group.no_room(refuses)))
    }

    /// Refuses a message that a member chosen here has no room for, beside what it gets of the
    /// message by other subscriptions.
    fn check_chosen(&mut self, delivery: &Delivery<'_>, sink: &impl Sink) -> Result<(), NotTaken> {
        let Self { matched, picks, clients, bounds, .. } = self;
        let room = Room { clients, bounds };
        matched.subscribers.sort_unstable_by_key(|target| target.session);
        picks.here.sort_unstable_by_key(|member| (member.session, member.qos));
        let refused = picks.here.chunk_by(|a, b| a.session == b.session).find_map(|same| {
            let waiting = same.iter().filter(|member| member.qos != QoS::AtMostOnce).count();
            let member = same.last()?;
            let its_own =
                matched.subscribers.binary_search_by_key(&member.session, |it| it.session);
            let copies = waiting + usize::from(its_own.is_ok());
            room.refuses(member, copies, delivery.bytes(), sink)
        });
        if refused.is_some() {
            picks.clear();
        }
        not_taken(refused)
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
            |target: &Subscriber| target.no_local && delivery.publisher == Some(target.session);
        let may_wait = |target: &Subscriber| {
            let may_read = || clients.may_read(target.session, delivery.topic);
            target.qos != QoS::AtMostOnce && !is_own(target) && may_read()
        };
        matched.subscribers.retain(|target| may_wait(target));
        let mut waiting = matched.subscribers.iter();
        not_taken(waiting.find_map(|target| room.refuses(target, 1, delivery.bytes(), sink)))
    }
}

fn not_taken(detail: Option<&'static str>) -> Result<(), NotTaken> {
    let reason = ReasonCode::QuotaExceeded;
    detail.map_or(Ok(()), |detail| Err(NotTaken { reason, detail }))
}
