//! What comes from another node, on its way to the shards.

use super::member::Member;
use super::tell_all;
use crate::letter::{Letter, NodeNews};
use std::collections::BTreeSet;
use std::ops::Range;
use weir_cluster::{Inbox, Peer};
use weir_core::{Mail, ShardId};
use weir_reactor::Mailbox;

pub(super) struct Delivery<'a> {
    pub(super) mailbox: &'a mut Mailbox<Letter>,
    pub(super) own: &'a Range<u16>,
    pub(super) member: &'a Member,
    pub(super) is_here: &'a mut bool,
    pub(super) is_back: &'a mut bool,
    /// As in [`super::member::Peer`].
    pub(super) knowing: &'a mut Option<BTreeSet<ShardId>>,
    /// What it has in its log is not lost with it.
    pub(super) is_copied: bool,
}

impl Inbox for Delivery<'_> {
    fn up(&mut self, peer: Peer) {
        let (shards, was_here) = (&self.member.shards, std::mem::replace(self.is_here, true));
        if std::mem::take(self.is_back) && was_here {
            tell_all(self.mailbox, self.own, || NodeNews::Replaced(shards.clone()));
        } else if !was_here {
            let news = match self.member.is_stand_in {
                true => NodeNews::StandInJoined,
                false => NodeNews::Joined,
            };
            tell_all(self.mailbox, self.own, || news(shards.clone()));
        }
        let is_resumed = peer.is_resumed;
        tracing::info!(node = self.member.name, is_resumed, "letters pass to and from a node");
    }

    fn reset(&mut self, lost: u64) {
        if self.is_copied && *self.is_here {
            // It may have been fenced for a moment only, and has its sessions.
            (*self.is_back, *self.knowing) = (true, Some(BTreeSet::new()));
        } else if std::mem::take(self.is_here) {
            let shards = &self.member.shards;
            tell_all(self.mailbox, self.own, || NodeNews::Lost(shards.clone()));
        }
        tracing::warn!(node = self.member.name, lost, "a node was started anew");
    }

    fn letter(&mut self, from: ShardId, to: ShardId, mail: Mail) {
        // Of shards that nobody has, nothing is taken.
        if self.member.shards.contains(&from.0) && self.own.contains(&to.0) {
            self.mailbox.send(usize::from(to.0 - self.own.start), Letter::Near(from, mail));
        }
    }
}
