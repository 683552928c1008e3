//! Which thread has which shard, and which has letters for other nodes.

use crate::cluster::Seated;
use std::ops::Range;
use weir_core::ShardId;

/// Where the threads of this node are among the shards of all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The first of its shards.
    pub(crate) first: u16,
    /// How many it has. The thread behind the last is the post, if there are other nodes.
    pub(crate) shards: u16,
}

impl Node {
    pub(crate) fn of(seated: &Seated) -> Self {
        let place = &seated.node.place;
        Self { first: place.first_shard, shards: place.shards }
    }

    /// Its shards.
    pub(crate) fn range(self) -> Range<u16> {
        self.first..self.first + self.shards
    }

    /// The thread of a shard, if it is one of this node's.
    pub(super) fn thread(self, ShardId(shard): ShardId) -> Option<usize> {
        let at = shard.wrapping_sub(self.first);
        (at < self.shards).then_some(at.into())
    }

    /// The shard of a thread.
    pub(super) fn shard(self, thread: usize) -> ShardId {
        ShardId(self.first + thread as u16)
    }

    pub(super) fn post(self) -> usize {
        self.shards.into()
    }
}
