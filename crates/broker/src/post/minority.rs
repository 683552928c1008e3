//! The post's part in a node that is cut off from its cluster, and serves its own clients.
//!
//! The shards see by the lease that they are cut off, before anything that follows of it comes to
//! them. They hear of the end from here, before they hear of the first other node.

use super::{Post, tell_all};
use crate::letter::NodeNews;
use weir_core::Micros;
use weir_reactor::now_us;

impl Post {
    /// Why the connections end, in the log.
    pub(super) fn tell_lost(&self) {
        if self.setup.serves_minority {
            tracing::error!(
                "this node has lost the cluster: it serves clients without a kept session by \
                 itself, and ends all other connections"
            );
        } else {
            tracing::error!("this node has lost the cluster: it ends its connections");
        }
    }

    /// All other nodes are lost to this one: its shards serve its own clients, if they are to.
    /// Comes behind what tells them that the others are lost: what they acknowledge from then on
    /// is said to nobody else.
    pub(super) fn go_apart(&mut self) {
        if !self.setup.serves_minority || std::mem::replace(&mut self.is_apart, true) {
            return;
        }
        let Self { mailbox, setup, copies, membership, .. } = self;
        tell_all(mailbox, &setup.shards, || NodeNews::CutOff);
        // Nothing can be copied anywhere, and who is served here does not wait for it.
        if copies.release(membership.members().log_copy_at(setup.own), Micros(now_us())) {
            tell_all(mailbox, &setup.shards, || NodeNews::CopyEnds(None));
        }
    }

    /// This node is a member again.
    pub(super) fn come_back(&mut self) {
        if std::mem::take(&mut self.is_apart) {
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Returning);
        }
    }
}
