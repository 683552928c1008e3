//! A node is lost whose log another has: what outlives that, and what may or may not.
//!
//! As in a crash of the whole broker, what the log still says tells which books hold for its
//! sessions; but others go on, and a session that was on its way has another node that has it.

use super::{Intake, Kept, Model, Orphan};
use crate::message::Message;
use crate::names::{ClientNo, ConnNo, MessageNo, Root, SessionNo};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use weir_core::Micros;

/// Who has a will whose client's node is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct WillIs {
    /// Another node, which publishes it.
    pub watched: bool,
    /// The log of the lost one.
    pub logged: bool,
}

impl Model {
    /// A node is gone with these connections. What its clients were not told may not be.
    pub fn lose_copied_node(&mut self, shards: &Range<usize>, conns: &[ConnNo]) {
        for &conn in conns {
            let conn = &mut self.conns[conn.0];
            (conn.is_open, conn.is_live, conn.owed_connack, conn.will) = (false, false, None, None);
            conn.asking = None;
            conn.owed.clear();
            conn.subscribes.clear();
        }
        self.recent.has_lost_node = true;
        self.promised.retain(|shard, _| !shards.contains(shard));
        self.orphans.retain(|orphan| !shards.contains(&orphan.shard));
        let its = self.recent.intakes.iter_mut().filter(|it| shards.contains(&it.shard));
        for intake in its {
            // A will has no acknowledgement: whether it went anywhere is not known.
            intake.is_acked &= intake.session.is_some();
            // What is mailed is in the log before anybody can say anything of it.
            let is_mailed = intake.is_exact
                && !self.is_pressed
                && intake.session.is_some()
                && !self.messages[intake.message.0].retain;
            intake.is_doubtful |= intake.acked_at.is_none() && !is_mailed;
        }
        for intake in &mut self.recent.intakes {
            // Of one that came to the lost node others may have had members there chosen.
            let is_waited_for = intake.session.is_some() && intake.acked_at.is_none();
            intake.again += usize::from(is_waited_for);
        }
        self.doubt_retains(|shard| shards.contains(&shard));
        // Some nodes have it: it comes to the others with what these list.
        let its = self.retains.iter_mut().filter(|it| it.is_doubtful && shards.contains(&it.shard));
        its.for_each(|retain| retain.settled = None);
        for subscribe in &mut self.recent.subscribes {
            let session = self.subscriptions[subscribe.subscription.0].session;
            subscribe.is_broken |= shards.contains(&self.sessions[session.0].shard);
        }
    }

    /// A letter that this call set off is lost with its sender: who subscribed does not hear of it,
    /// and what is retained comes to some with what others list.
    pub fn loses_letter(&mut self, root: Root) {
        if let Some(unsettled) = self.recent.unsettled.get_mut(&root) {
            unsettled.subscribes.clear();
            unsettled.retains.clear();
        }
    }

    /// Nodes are to keep a message. If it is a will of which it was not certain that it is sent, it
    /// is now.
    pub fn is_kept(&mut self, payload: &[u8]) {
        let Some(number) = Message::number(payload) else { return };
        let is_known = self.recent.intakes.iter().any(|it| it.message == number)
            || self.retains.iter().any(|it| it.message == Some(number));
        if self.may_be_sent(number) && !is_known {
            self.publish_will(Some(number));
        }
    }

    /// A letter goes again after a loss, from who is in the place of its sender or to who is in
    /// that of its receiver; one with a will goes once the log has it. Until it has come, it is for
    /// whoever subscribes.
    pub fn goes_again(&mut self, payload: &[u8]) {
        if !self.is_copied {
            return;
        }
        let Some(number) = Message::number(payload) else { return };
        let is_its = |&at: &usize| {
            let intake = &self.recent.intakes[at];
            let is_will = intake.session.is_none();
            intake.message == number && (is_will || self.recent.has_lost_node)
        };
        let again: Vec<usize> = (0..self.recent.intakes.len()).filter(is_its).collect();
        for &at in &again {
            self.recent.intakes[at].settled = None;
        }
        self.unsettled().intakes.extend(again);
    }

    /// Others are in the place of its shards, with the books that their logs make valid.
    /// `who_has` says who has a will: what another node watches that sends; what both have waits
    /// until `will_waits`. Returns the clients who had come in time to another node, which had not
    /// got their sessions when that time was over: if the log has no will of theirs, nothing holds
    /// them.
    pub fn stand_in(
        &mut self,
        books: &BTreeMap<usize, Kept>,
        shard_of: impl Fn(ClientNo, usize) -> usize,
        who_has: impl Fn(ClientNo, MessageNo) -> WillIs,
        will_waits: Micros,
    ) -> Vec<ClientNo> {
        let (at, now, mut expired) = (self.tick(), self.now, Vec::new());
        let kept_at = books.values().map(|kept| kept.at).min().unwrap_or(at);
        self.wills_on_their_way.push((kept_at, at));
        self.undo_copies(|shard| books.get(&shard));
        let is_lost = |shard: usize| books.contains_key(&shard);
        let mut back = BTreeMap::new();
        for (&shard, kept) in books {
            for it in kept.sessions.iter().filter(|it| it.session.expiry_s > 0) {
                // Of two logs that have it, the one that it went to.
                let order = (it.session.times_moved, it.session.shard == shard);
                match back.entry(it.number) {
                    Entry::Vacant(entry) => drop(entry.insert((order, shard, kept.at, it.clone()))),
                    Entry::Occupied(mut entry) if entry.get().0 < order => {
                        entry.insert((order, shard, kept.at, it.clone()));
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        for number in self.alive.clone().into_values() {
            let is_back = back.contains_key(&number);
            if self.stays_elsewhere(number, is_back, &is_lost) {
                back.remove(&number);
            } else if !back.contains_key(&number) {
                self.lose_session(number, at);
            }
        }
        for (number, (_, shard, kept_at, mut kept)) in back {
            let other = self.alive.get(&kept.session.client);
            if other.is_some_and(|&other| other != number && !is_lost(self.session(other).shard)) {
                // Begun anew meanwhile: whoever has that has the other dropped.
                continue;
            }
            let comes_anew = std::mem::take(&mut kept.session.comes_anew);
            if comes_anew || kept.session.moving.is_some_and(|(from, _)| is_lost(from)) {
                (kept.session.expires_at, kept.session.will) = kept.session.parked;
                // Its client has come for it, and may not have been let in.
                self.doubtful_wills.extend(kept.session.will.map(|(message, _)| message));
                let is_expired = kept.session.expires_at.is_some_and(|at| at <= now);
                expired.extend(is_expired.then_some(kept.session.client));
            }
            let is_pressed = self.is_pressed;
            let is_sure = |message: &Message| !message.retain && !is_pressed;
            let shard = shard_of(kept.session.client, shard);
            self.bring_back(kept, (kept_at, at), shard, is_sure);
            for subscription in self.sessions[number.0].subscriptions.values() {
                let subscription = &mut self.subscriptions[subscription.0];
                subscription.misses_wills.push((kept_at, at));
                // The others have heard that a group lost a member whose end is undone.
                let is_undone = subscription.effective == Some(at);
                subscription.effective.take_if(|_| is_undone && subscription.share.is_some());
            }
            let session = &mut self.sessions[number.0];
            let will = session.will.map(|(will, _)| who_has(session.client, will));
            let WillIs { watched, logged } = will.unwrap_or_default();
            session.will.take_if(|_| watched || !logged);
            (session.will_waits, session.is_will_untold) = (will_waits, watched && logged);
        }
        expired
    }

    /// The session of this client had expired when another was in the place of its node.
    pub fn expired_on_its_way(&mut self, client: ClientNo) {
        let at = self.tick();
        if let Some(&number) = self.alive.get(&client) {
            self.lose_session(number, at);
        }
    }

    /// Whether it is the will of a session that was leaving when its node was lost.
    pub fn may_be_sent(&self, message: MessageNo) -> bool {
        self.doubtful_wills.contains(&message)
    }

    /// Whether it is a will that may have been lost with a node, whoever of a group was chosen.
    pub fn is_lost_will(&self, intake: &Intake) -> bool {
        intake.is_will_during(&self.wills_on_their_way)
    }

    /// Whether a session is on a node that is there. One that was to go to the lost node is where
    /// it was, unless the log has it.
    fn stays_elsewhere(
        &mut self,
        number: SessionNo,
        is_back: bool,
        is_lost: &impl Fn(usize) -> bool,
    ) -> bool {
        let session = &mut self.sessions[number.0];
        let is_here = session.shard != usize::MAX && !is_lost(session.shard);
        match session.moving {
            None => is_here,
            Some((from, _)) if is_lost(from) => {
                if is_here {
                    session.moving = None;
                    // If it is over where it went before the other heard that it came, it may be
                    // over once more.
                    self.doubtful_wills.extend(session.parked.1.map(|(message, _)| message));
                }
                is_here
            }
            Some((_, to)) if is_lost(to) && is_lost(session.shard) && is_back => false,
            Some((from, to)) => {
                if is_lost(to) {
                    session.shard = from;
                    (session.moving, session.conn) = (None, None);
                    (session.expires_at, session.will) = (session.parked.0, None);
                }
                true
            }
        }
    }

    /// A shard publishes the will of a client whose node is lost, or has to.
    pub fn orphan(&mut self, orphan: Orphan) {
        self.orphans.push(orphan);
    }

    /// Whether a shard has a will of this client to publish.
    pub fn has_orphan(&self, client: ClientNo, shard: usize) -> bool {
        self.orphans.iter().any(|orphan| (orphan.client, orphan.shard) == (client, shard))
    }

    /// Who has a will from a log is told that another publishes it.
    pub fn will_taken(&mut self, client: ClientNo, shard: usize) {
        if let Some(&number) = self.alive.get(&client) {
            let session = &mut self.sessions[number.0];
            session.is_will_untold &= session.shard != shard;
        }
    }

    /// Whether a client's session is to come to this shard.
    pub fn is_on_its_way(&self, client: ClientNo, to: usize) -> bool {
        let session = self.alive.get(&client).map(|&number| self.session(number));
        session.is_some_and(|it| it.shard == usize::MAX && it.moving.is_some_and(|way| way.1 == to))
    }

    /// Who had a session knows that it is where it went.
    pub fn taken(&mut self, client: ClientNo, by: usize) {
        if let Some(&number) = self.alive.get(&client) {
            self.sessions[number.0].moving.take_if(|(from, _)| *from == by);
        }
    }
}
