//! Which retained messages a shard knows of, by number.
//!
//! A shard numbers what its clients publish as retained. Letters between two shards keep their
//! order, so one number says of all before it that they have come by. That is enough to know of a
//! retained message whether a subscriber has had it, or will have it, as it was published: see
//! [`crate::replays::Replay`].

use crate::keys::{Origin, ShardId, Stamp};

/// Numbers known to one shard; 0 is none.
#[derive(Debug)]
pub(crate) struct Stamps {
    own: usize,
    shards: usize,
    /// The last of each publishing shard for each owner that this shard knows to have been
    /// published: a row of owners for each publisher.
    known: Vec<u64>,
    /// The highest of each row.
    seen: Vec<u64>,
    /// The last of each publishing shard that came to this shard as their owner.
    received: Vec<u64>,
}

impl Stamps {
    pub(crate) fn new(own: ShardId, shards: u16) -> Self {
        let shards = usize::from(shards);
        Self {
            own: usize::from(own.0),
            shards,
            known: vec![0; shards * shards],
            seen: vec![0; shards],
            received: vec![0; shards],
        }
    }

    /// Numbers a message of this shard for `owner`, which is told before anybody else.
    pub(crate) fn next(&mut self, owner: ShardId, origin: Origin) -> Stamp {
        let number = self.seen[self.own] + 1;
        let stamp = Stamp { shard: ShardId(self.own as u16), origin, number };
        self.saw(stamp, owner);
        stamp
    }

    /// A message for `owner` came by, from the shard it was published on.
    pub(crate) fn saw(&mut self, stamp: Stamp, owner: ShardId) {
        let publisher = usize::from(stamp.shard.0);
        self.know(publisher, usize::from(owner.0), stamp.number);
    }

    /// A shard said what it [has sent](Stamps::sent).
    pub(crate) fn saw_sent(&mut self, publisher: ShardId, sent: &[u64]) {
        for (owner, &number) in sent.iter().enumerate() {
            self.know(usize::from(publisher.0), owner, number);
        }
    }

    fn know(&mut self, publisher: usize, owner: usize, number: u64) {
        let known = &mut self.known[publisher * self.shards + owner];
        *known = number.max(*known);
        self.seen[publisher] = number.max(self.seen[publisher]);
    }

    /// The last message of this shard for each owner.
    pub(crate) fn sent(&self) -> &[u64] {
        let row = self.own * self.shards;
        &self.known[row..row + self.shards]
    }

    /// The last known message of each shard for `owner`: what it has to have received before its
    /// answer is as new as what has been seen here.
    pub(crate) fn needed(&self, owner: ShardId) -> Box<[u64]> {
        (0..self.shards)
            .map(|shard| self.known[shard * self.shards + usize::from(owner.0)])
            .collect()
    }

    /// The last known message of each shard.
    pub(crate) fn seen(&self) -> Box<[u64]> {
        self.seen.as_slice().into()
    }

    /// This shard's own message, or one mailed to it, is in its store. Those of a partition that
    /// moved here are older than what came before them.
    pub(crate) fn receive(&mut self, stamp: Stamp) {
        let received = &mut self.received[usize::from(stamp.shard.0)];
        *received = stamp.number.max(*received);
    }

    pub(crate) fn received(&self) -> Box<[u64]> {
        self.received.as_slice().into()
    }

    /// Whether everything needed has come.
    pub(crate) fn has_received(&self, needed: &[u64]) -> bool {
        needed.iter().zip(&self.received).all(|(needed, received)| needed <= received)
    }
}
