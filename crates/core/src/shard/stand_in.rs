//! What a node does for another that is lost, whose sessions it serves from the copy of its log.
//!
//! A stand-in has the lost node's shards, restored from the copy, and no clients. It lists no
//! sessions, but to other stand-ins: they are where they are claimed. Once it knows all that the
//! other nodes have, it offers its sessions to the node that has the copy, which claims them.

use super::Shard;
use super::nodes::ask_for_receipt;
use crate::answers::Reply;
use crate::keys::{Micros, SessionKey};
use crate::record::Record;
use crate::sink::Sink;
use smallvec::SmallVec;
use std::ops::Range;

impl Shard {
    /// Makes it a shard of a stand-in. Comes before the first input.
    pub fn stand_in(&mut self) {
        self.claims.is_stand_in = true;
    }

    /// Its node is a member again, as another one: what it numbers from now on is behind `number`,
    /// which is higher than all that a stand-in of it can have given meanwhile. As in
    /// [`Shard::set_clustered`].
    pub fn go_on_from(&mut self, number: u64) {
        self.answers.receipts.go_on_from(number);
        self.outbox.go_on_from(number);
    }

    /// Sessions that there are, wills of those that were, answers that others wait for, and
    /// messages that are held, or that others have not said to have. A stand-in that leaves before
    /// it has given these leaves others in doubt: what it has sent on would be sent once more.
    pub fn kept_sessions(&self) -> usize {
        let is_any_sent = usize::from(!self.unreceived.is_empty());
        let waiting = self.answers.len() + self.claims.held_picks.len() + self.watched.waiting();
        self.clients.len() + waiting + is_any_sent
    }

    /// Tells these shards of another node of all sessions that are here, for them to claim. A
    /// stand-in does it, so that no client waits for the end of that.
    pub fn offer_sessions(&mut self, to: Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        self.send_wills_that_are_put_off(now);
        for key in self.all_sessions() {
            self.tell_of_session(key, &to, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Drops all sessions, since another node has them. Nobody is connected: the node was no member
    /// of its cluster, so that no client waits for the end of that.
    pub fn void_sessions(&mut self, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        for key in self.all_sessions() {
            if self.clients.get(key).is_some() {
                self.drop_stale(key, now, sink);
            }
        }
        // Whoever has had them has mailed what they had published.
        self.claims.held_picks.retain(|held| held.mailed.is_none());
        for number in self.outbox.void() {
            self.log.append(&Record::Delivered { number }, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Whether a session is in any group.
    pub(super) fn is_member(&self, key: SessionKey) -> bool {
        let mut all = self.clients[key].subscriptions().iter();
        all.any(|&record| self.filters.membership(record).is_some())
    }

    /// A stand-in stays until all have what it has mailed for nobody who waits, such as a will, and
    /// it has what they mailed before they heard that: a session has left its groups, and may have
    /// been chosen.
    pub(super) fn stay_until_all_have_heard(&mut self, now: Micros, sink: &mut impl Sink) {
        if self.place.is_alone() {
            return;
        }
        self.answers.begin();
        for shard in self.place.others() {
            ask_for_receipt(shard, self.answers.mailed(shard), sink);
        }
        self.answers.insert(None, Reply::Packet(SmallVec::new()), 0, now);
    }

    fn all_sessions(&self) -> Vec<SessionKey> {
        let (mut keys, mut place) = (Vec::new(), 0);
        while place < self.clients.end() {
            keys.extend(self.clients.step(&mut place));
        }
        keys
    }
}
