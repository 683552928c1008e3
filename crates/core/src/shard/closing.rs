//! A node that is stopped: its clients go, and their sessions go after them.
//!
//! The node stays a member for some time. It lets nobody in, takes what is published for the
//! sessions that it has, and hands those over that other nodes claim (`shard/claims.rs`). It says
//! to the others that it stops: where all nodes do, none waits for clients to come to another one.

use super::Shard;
use super::connect::OWN_CLIENT_IDS;
use crate::keys::{Micros, ShardId};
use crate::mail::{Mail, SessionMail};
use crate::sink::Sink;
use std::ops::Range;

/// What of a shard keeps its node from being over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A session is on its way to another node, or comes from one.
    Move,
    /// There are sessions that clients may claim who come to another node. The last was claimed
    /// then.
    Claim(Micros),
    /// Nothing: no session is left, or no node that clients could come to.
    Nothing,
}

impl Shard {
    /// The node is to stop: nobody is let in any more. Comes behind [`Shard::stop`].
    pub fn close(&mut self, now: Micros, sink: &mut impl Sink) {
        (self.claims.is_closing, self.claims.claimed_at) = (true, now);
        let nodes: Vec<Range<u16>> = self.place.nodes().cloned().collect();
        nodes.iter().for_each(|node| self.tell_closing(node, sink));
    }

    /// What its node has to wait for before it is over, if it is closed.
    pub fn awaited(&self) -> Awaited {
        if self.claims.is_any_under_way() {
            return Awaited::Move;
        }
        let is_open = |node: &Range<u16>| !self.claims.closing.contains(ShardId(node.start));
        if self.place.nodes().any(is_open) && self.has_sessions_of_others() {
            return Awaited::Claim(self.claims.claimed_at);
        }
        Awaited::Nothing
    }

    /// Whether there is a session that would go after its client.
    fn has_sessions_of_others(&self) -> bool {
        let mut place = 0;
        while place < self.clients.end() {
            let session = self.clients.step(&mut place).map(|key| &self.clients[key]);
            let is_one = session.is_some_and(|session| {
                let is_own = session.client_id.starts_with(OWN_CLIENT_IDS);
                session.outlives_connection() && !is_own
            });
            if is_one {
                return true;
            }
        }
        false
    }

    /// Another node hears it of the first shard.
    pub(super) fn tell_closing(&self, node: &Range<u16>, sink: &mut impl Sink) {
        if self.claims.is_closing && self.place.leader() == self.place.id {
            for shard in node.clone().map(ShardId) {
                sink.mail(shard, Mail::Session(SessionMail::Closing));
            }
        }
    }
}
