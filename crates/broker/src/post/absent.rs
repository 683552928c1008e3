//! Nodes that are away with sessions that nobody serves, where clients are to wait for them.

use super::{Post, tell_all};
use crate::letter::NodeNews;

impl Post {
    /// Tells the shards whether there is one, before they hear that it is lost.
    pub(super) fn look_for_absent(&mut self) {
        let is_any = self.setup.waits_for_absent && self.membership.members().is_any_absent();
        if std::mem::replace(&mut self.is_any_absent, is_any) != is_any {
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Absent(is_any));
        }
    }
}
