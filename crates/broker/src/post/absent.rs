//! Nodes that are away with sessions that nobody serves, where clients are to wait for them.

use super::{Post, tell_all};
use crate::letter::NodeNews;
use weir_cluster::Node;

impl Post {
    /// Tells the shards whether there is one, before they hear that it is lost, and that there is
    /// none only once they know of it again: a node is a member before it has read its store.
    pub(super) fn look_for_absent(&mut self) {
        let is_any = self.setup.waits_for_absent && self.is_any_absent_or_new();
        if std::mem::replace(&mut self.is_any_absent, is_any) != is_any {
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Absent(is_any));
        }
    }

    fn is_any_absent_or_new(&self) -> bool {
        let members = self.membership.members();
        let is_known = |node: &Node| {
            let peer = self.peers.get(&node.place.slot);
            node.place.slot == self.setup.own || peer.is_some_and(|peer| peer.is_here)
        };
        members.is_any_absent() || !members.nodes().all(is_known)
    }
}
