//! Members of groups that are chosen while it is not certain where their sessions are.
//!
//! Where logs are copied to other nodes, what was acknowledged outlives the loss of any. A session
//! that comes from another node is in no log here before it is whole; one that stays, or is here
//! from a copy, may have gone on elsewhere, which the others say when they tell of all that they
//! have. What such a member is chosen for is held until that is known, and a member is chosen
//! again then. Whoever waits for it waits on, unless it is mailed ([`crate::outbox`]): then the log
//! has it until a member is chosen.
//!
//! With or without copies, what a session is chosen for that is sealed here goes on to where it
//! goes.

use super::Shard;
use super::slices::Work;
use crate::claims::{Claims, HeldPicks};
use crate::clients::Clients;
use crate::keys::{Micros, ShardId};
use crate::mail::GroupPick;
use crate::message::Delivery;
use crate::outbox::{Letters, MailTarget};
use crate::routing::Subscriber;
use crate::sink::Sink;
use smallvec::smallvec;
use std::sync::Arc;
use weir_wire::QoS;

/// Steps of a message for which a member is chosen again.
const PICK_STEPS: u64 = 4;

/// Of which sessions it is not certain that they stay here.
#[derive(Clone, Copy)]
pub(super) struct Unsettled {
    is_any: bool,
    /// What is recorded of one that comes is lost with it.
    is_copied: bool,
    /// All that are absent.
    pub(super) are_absent: bool,
}

impl Unsettled {
    /// Whether this member's session is one.
    #[inline]
    pub(super) fn has(self, member: &Subscriber, claims: &Claims, clients: &Clients) -> bool {
        self.is_any && self.has_session(member, claims, clients)
    }

    #[cold]
    fn has_session(self, member: &Subscriber, claims: &Claims, clients: &Clients) -> bool {
        let key = member.session;
        let is_absent = || self.are_absent && clients[key].attachment.is_none();
        claims.goes(key)
            || self.is_copied && member.qos > QoS::AtMostOnce && (claims.comes(key) || is_absent())
    }
}

impl Shard {
    /// Whose messages of this QoS are held.
    #[inline]
    pub(super) fn unsettled(&self, qos: QoS) -> Unsettled {
        let is_copied = self.unreceived.is_copied && qos > QoS::AtMostOnce;
        let is_any = is_copied || self.claims.is_any_moving();
        Unsettled { is_any, is_copied, are_absent: is_copied && self.has_unlisted() }
    }

    /// Holds a message for the members that were chosen so.
    #[cold]
    pub(super) fn hold_picks(&mut self, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        let own = self.place.id;
        for pick in std::mem::take(&mut self.picks.held) {
            if let Some(shard) = self.is_elsewhere(&pick) {
                let hops = pick.hops.saturating_add(1);
                self.picks.there.push((shard, GroupPick { hops, ..pick }));
                continue;
            }
            if delivery.qos == QoS::AtMostOnce {
                // Nobody would be held up by what is kept of these.
                self.note_no_member(delivery.topic, sink);
                continue;
            }
            if delivery.is_gathered {
                self.gather_own(pick);
                continue;
            }
            let number = delivery.is_awaited.then(|| self.answers.mailed_once(own));
            let message = Arc::clone(delivery.lent(&mut self.pool));
            self.hold_one(HeldPicks { picks: smallvec![pick], message, number, mailed: None });
        }
    }

    /// What is held of one message is held as one.
    fn hold_one(&mut self, held: HeldPicks) {
        let last = self.claims.held_picks.back_mut();
        let is_of_it = |last: &&mut HeldPicks| {
            Arc::ptr_eq(&last.message, &held.message)
                && (last.number, last.mailed) == (held.number, held.mailed)
        };
        match last.filter(is_of_it) {
            Some(last) => last.picks.extend(held.picks),
            None => self.claims.held_picks.push_back(held),
        }
    }

    /// The present message is for a member here that is chosen again later.
    pub(super) fn gather_own(&mut self, pick: GroupPick) {
        let own = self.place.id;
        let gathered = &mut self.outbox.gathered;
        match gathered.iter_mut().find(|target| target.shard == own) {
            Some(target) => target.picks.push(pick),
            None => {
                let (to_subscribers, picks) = (false, smallvec![pick]);
                gathered.push(MailTarget { shard: own, to_subscribers, picks });
            }
        }
    }

    /// Holds what is for this shard itself of a message that is gathered, in the log if it is
    /// mailed.
    pub(super) fn hold_gathered(&mut self, letters: &mut Letters, is_awaited: bool) {
        let own = self.place.id;
        let mailed = letters.number;
        let at = letters.targets.iter().position(|target| target.shard == own);
        let Some(MailTarget { picks, .. }) = at.map(|at| letters.targets.remove(at)) else {
            return;
        };
        let is_waited_for = is_awaited && mailed.is_none();
        let number = is_waited_for.then(|| self.answers.mailed_once(own));
        self.hold_one(HeldPicks { picks, message: Arc::clone(&letters.message), number, mailed });
    }

    /// Where a member's session is, if it leaves or comes and is not here. One that comes takes
    /// what it is chosen for along with the rest: it may not leave before what its own client has
    /// published is everywhere, and that may be for itself.
    fn is_elsewhere(&mut self, pick: &GroupPick) -> Option<ShardId> {
        let group = self.filters.group_of_pick(pick)?;
        let member = group.members.iter().find(|member| member.id == pick.member)?;
        let shard = self.claims.place_elsewhere(member.subscriber.session)?;
        group.has_at(shard, pick.member).then_some(shard)
    }

    /// Where a session is may be certain by now.
    pub(super) fn look_at_held_picks(&mut self) {
        self.due.has_held_picks = !self.claims.held_picks.is_empty();
    }

    /// Chooses members again for what is held. Some of it may be held again, behind the others.
    #[cold]
    pub(super) fn choose_for_held(&mut self, now: Micros, sink: &mut impl Sink) {
        self.due.has_held_picks = false;
        self.choose_for_some_held(self.claims.held_picks.len(), now, sink);
    }

    /// The same for so many, as far as the steps of this input allow.
    pub(super) fn choose_for_some_held(&mut self, count: usize, now: Micros, sink: &mut impl Sink) {
        let is_unlisted = self.has_unlisted();
        for done in 0..count {
            if self.slices.is_spent() {
                return self.slices.put_off(Work::HeldPicks(count - done), now);
            }
            self.slices.add(PICK_STEPS);
            let Some(held) = self.claims.held_picks.pop_front() else { return };
            if held.mailed.is_some() && is_unlisted {
                // Most would be held again, each time with records of it.
                self.claims.held_picks.push_back(held);
                continue;
            }
            let HeldPicks { picks, message, number, mailed } = held;
            let own = self.place.id;
            let ticket = number.and_then(|it| self.answers.receipts.waiting_for(own, it));
            self.choose_for(&message, picks, (ticket, mailed.is_some()), now, sink);
            mailed.into_iter().for_each(|name| self.note_had(own, name, true, sink));
            if let Some(number) = number
                && let Some(ticket) = self.answers.receipts.take_waiting(own, number)
            {
                self.met(ticket, now, sink);
            }
        }
    }
}
