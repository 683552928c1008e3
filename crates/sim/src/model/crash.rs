//! The whole broker crashes: what outlives that, and what may or may not.
//!
//! The books are kept as of each call of a shard. What a shard's log still says afterwards tells
//! which of them hold for its sessions, but never earlier ones than what the shard has promised.

use super::{Model, Orphan, Retain, Session, Subscription, Will};
use crate::message::Message;
use crate::names::{ClientNo, ConnNo, SessionNo, SubscriptionNo};
use crate::topics::TOPICS;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weir_core::Micros;
use weir_wire::QoS;
use weir_wire::packet::SubscriptionOptions;

/// The sessions of a shard at the end of a call.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// When that was.
    pub at: u64,
    pub(super) sessions: Vec<KeptSession>,
}

#[derive(Clone, Debug)]
pub(super) struct KeptSession {
    pub(super) number: SessionNo,
    pub(super) session: Session,
    /// Of its connection.
    will: Option<Will>,
    /// The options of its subscriptions.
    options: BTreeMap<SubscriptionNo, (u64, SubscriptionOptions)>,
}

impl Model {
    /// The sessions of a shard as they are.
    pub fn keep(&self, shard: usize) -> Kept {
        // One that leaves is here until it is known to be where it goes.
        let is_here = |session: &Session| {
            session.shard == shard || session.moving.is_some_and(|(from, _)| from == shard)
        };
        let here = self.alive.values().filter(|&&number| is_here(self.session(number)));
        let keep = |&number: &SessionNo| {
            let session = self.session(number).clone();
            let will = session.conn.and_then(|conn| self.conns[conn.0].will);
            let options = session.subscriptions.values().filter_map(|&subscription| {
                Some((subscription, *self.subscription(subscription).options.last()?))
            });
            KeptSession { number, options: options.collect(), session, will }
        };
        Kept { at: self.at, sessions: here.map(keep).collect() }
    }

    /// When the last change was consumed that a shard has promised to keep.
    pub fn promised(&self, shard: usize) -> u64 {
        self.promised.get(&shard).copied().unwrap_or(0)
    }

    /// An answer is written that promises a change.
    pub(crate) fn promise(&mut self, conn: ConnNo, change: Option<u64>) {
        let session = self.conns[conn.0].session;
        if let Some((session, at)) = session.zip(change) {
            let promised = self.promised.entry(self.session(session).shard).or_default();
            *promised = at.max(*promised);
        }
    }

    /// CONNACK is written.
    pub(crate) fn promise_session(&mut self, conn: ConnNo) {
        let Some(session) = self.conns[conn.0].session else { return };
        // Until now nothing was read from it.
        self.conns[conn.0].heard_at = self.now;
        let asked_at = self.conns[conn.0].asked_at;
        self.promise(conn, Some(asked_at).filter(|_| self.session(session).expiry_s > 0));
    }

    /// Every shard is gone, and what comes after has of each what was kept, given with the call
    /// before. `shard_of` says who has which client from now on. A message of QoS 2 is noted in the
    /// call that takes it in, unless another shard may have refused it: there `is_alone` says that
    /// there was none, and `is_pressed` that memory was short at times.
    pub fn crash(
        &mut self,
        kept: &[Kept],
        shard_of: impl Fn(ClientNo) -> usize,
        is_alone: bool,
        is_pressed: bool,
    ) {
        let at = self.tick();
        for conn in &mut self.conns {
            (conn.is_open, conn.is_live, conn.owed_connack, conn.will) = (false, false, None, None);
            conn.owed.clear();
            conn.subscribes.clear();
        }
        self.promised.clear();
        self.undo_copies(|shard| kept.get(shard));
        let before = std::mem::take(&mut self.alive);
        let is_durable = |kept: &&KeptSession| kept.session.expiry_s > 0;
        let all: Vec<(u64, KeptSession)> = kept
            .iter()
            .flat_map(|kept| {
                kept.sessions.iter().filter(is_durable).map(|it| (kept.at, it.clone()))
            })
            .collect();
        let back: BTreeSet<SessionNo> = all.iter().map(|(_, kept)| kept.number).collect();
        for number in before.into_values().filter(|number| !back.contains(number)) {
            self.lose_session(number, at);
        }
        for (kept_at, kept) in all {
            let is_sure = |message: &Message| is_alone || !message.retain && !is_pressed;
            let shard = shard_of(kept.session.client);
            self.bring_back(kept, (kept_at, at), shard, is_sure);
        }
        self.doubt_retains(|_| true);
        self.lose_what_was_on_its_way();
    }

    /// A node is gone while nothing is on its way, and with it the sessions and connections of its
    /// shards. Another node sends their wills: `watcher` says which shard that of a client.
    pub fn lose_node(&mut self, shards: Range<usize>, watcher: impl Fn(ClientNo) -> usize) {
        let at = self.tick();
        let now = self.now;
        self.orphans.retain(|orphan| !shards.contains(&orphan.shard));
        let is_there = |number: &SessionNo| shards.contains(&self.sessions[number.0].shard);
        let lost: Vec<SessionNo> = self.alive.values().copied().filter(is_there).collect();
        for number in lost {
            let session = &self.sessions[number.0];
            let will = match session.conn.and_then(|conn| self.conns[conn.0].will) {
                Some(will) => {
                    let wait_s = will.delay_s.min(session.expiry_s);
                    Some((will.message, now + Micros::from_secs(wait_s)))
                }
                None => session.will,
            };
            if let Some((message, due)) = will {
                let (client, shard) = (session.client, watcher(session.client));
                self.orphans.push(Orphan { client, message, due, shard });
            }
            if let Some(conn) = self.sessions[number.0].conn {
                let conn = &mut self.conns[conn.0];
                (conn.is_open, conn.is_live, conn.owed_connack, conn.will) =
                    (false, false, None, None);
                conn.owed.clear();
                conn.subscribes.clear();
            }
            self.lose_session(number, at);
        }
    }

    pub(super) fn lose_session(&mut self, number: SessionNo, at: u64) {
        let session = &mut self.sessions[number.0];
        self.alive.remove(&session.client);
        (session.ended, session.conn, session.will) = (Some(at), None, None);
        session.unreleased.clear();
        session.out.clear();
        for subscription in std::mem::take(&mut session.subscriptions).into_values() {
            self.subscriptions[subscription.0].ended = Some(at);
        }
    }

    pub(super) fn bring_back(
        &mut self,
        kept: KeptSession,
        (kept_at, at): (u64, u64),
        shard: usize,
        is_sure: impl Fn(&Message) -> bool,
    ) {
        let now = self.now;
        let KeptSession { number, mut session, will, options } = kept;
        let present = std::mem::take(&mut self.sessions[number.0].subscriptions);
        for (name, subscription) in present {
            if session.subscriptions.get(name) != Some(&subscription) {
                // It was made after what was kept.
                let lost = &mut self.subscriptions[subscription.0];
                lost.ended = Some(at);
                lost.unsure.push((0, at));
            }
        }
        for subscription in session.subscriptions.values_mut() {
            self.resume(subscription, options[subscription], (kept_at, at));
        }
        if session.conn.take().is_some() {
            let expiry_s = session.expiry_s;
            session.expires_at = (expiry_s != u32::MAX).then(|| now + Micros::from_secs(expiry_s));
            session.will = will
                .map(|will| (will.message, now + Micros::from_secs(will.delay_s.min(expiry_s))));
        }
        for unreleased in session.unreleased.values_mut() {
            let intake = unreleased.intake.map(|at| &self.recent.intakes[at]);
            // Where others may refuse it, it is noted after they have said that they do not.
            let is_unsure = |intake: &super::Intake| {
                !intake.is_acked && !is_sure(&self.messages[intake.message.0])
            };
            unreleased.is_doubtful |= intake.is_some_and(is_unsure);
        }
        session.shard = shard;
        (session.ended, session.moving) = (None, None);
        self.alive.insert(session.client, number);
        self.sessions[number.0] = session;
    }

    /// What was sent since will be sent for the first time again, to the same session or to another
    /// member of its group: only at QoS 2, to a session that outlives its connection, is it kept
    /// before. The session may have ended since.
    pub(super) fn undo_copies<'a>(&mut self, kept: impl Fn(usize) -> Option<&'a Kept>) {
        let Self { recent, sessions, .. } = self;
        recent.copies.retain(|copy| {
            let session = &sessions[copy.session.0];
            let is_safe = copy.qos == QoS::ExactlyOnce && session.expiry_s > 0;
            // One on its way has got it where it was.
            let shard = session.moving.map_or(session.shard, |(from, _)| from);
            is_safe || kept(shard).is_none_or(|kept| copy.at <= kept.at)
        });
    }

    /// A subscription is as it was kept, whatever has become of it since.
    fn resume(
        &mut self,
        number: &mut SubscriptionNo,
        options: (u64, SubscriptionOptions),
        (kept_at, at): (u64, u64),
    ) {
        let subscription = &mut self.subscriptions[number.0];
        if subscription.ended.is_some() {
            // The end of it is undone. What was published meanwhile is owed to nobody.
            let (ended, effective) = (None, Some(at));
            let again = Subscription { ended, effective, ..subscription.clone() };
            *number = SubscriptionNo(self.subscriptions.len());
            self.subscriptions.push(again);
        }
        let subscription = &mut self.subscriptions[number.0];
        if subscription.options.last().is_some_and(|&(last, _)| last != options.0) {
            subscription.options.push((at, options.1));
            subscription.unsure.push((kept_at, at));
        }
    }

    /// What nobody was told to be retained may be so, or not.
    pub(super) fn doubt_retains(&mut self, is_lost: impl Fn(usize) -> bool) {
        for retain in self.retains.iter_mut().filter(|retain| is_lost(retain.shard)) {
            let intake = retain.intake.map(|intake| &self.recent.intakes[intake]);
            retain.is_doubtful |= intake.is_some_and(|intake| intake.acked_at.is_none());
        }
        for &topic in TOPICS {
            let mut its = self.retains.iter().filter(|retain| retain.topic == topic);
            if its.all(|retain| retain.is_doubtful) {
                // Before the run there was nothing.
                let nothing = Retain {
                    topic,
                    message: None,
                    intake: None,
                    shard: usize::MAX,
                    will_of: None,
                    at: 0,
                    settled: Some(0),
                    expires_at: None,
                    is_doubtful: false,
                };
                self.retains.push(nothing);
            }
        }
    }

    /// Letters, and wills that were in them.
    fn lose_what_was_on_its_way(&mut self) {
        let (at, now) = (self.tick(), self.now);
        self.recent.unsettled.clear();
        for intake in &mut self.recent.intakes {
            // A will has no acknowledgement: whether it was kept is not known.
            intake.is_acked &= intake.session.is_some();
            intake.is_doubtful |= intake.acked_at.is_none();
            if intake.settled.is_none() {
                (intake.settled, intake.settled_at) = (Some(at), Some(now));
            }
        }
        for retain in &mut self.retains {
            retain.settled.get_or_insert(at);
        }
        for subscribe in &mut self.recent.subscribes {
            subscribe.is_broken = true;
        }
    }
}
