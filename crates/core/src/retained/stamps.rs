//! Which retained messages a shard knows of, by number.
//!
//! A shard numbers what its clients publish as retained. Letters between two shards keep their
//! order, so one number says of all before it that they have come by. That is enough to know of a
//! retained message whether a subscriber has had it, or will have it, as it was published: see
//! [`crate::replays::Replay`].

use crate::keys::{Origin, ShardId, Stamp};
use crate::shard_set::ShardSet;

/// Numbers known to one shard; 0 is none.
#[derive(Debug)]
pub(crate) struct Stamps {
    own: usize,
    /// The last of each publishing shard for each owner that this shard knows to have been
    /// published: a row of owners for each publisher.
    known: Vec<Vec<u64>>,
    /// The highest of each row.
    seen: Vec<u64>,
    /// The last of each publishing shard that came to this shard as their owner.
    received: Vec<u64>,
    /// Shards of other nodes that are not here: all that they have published is old.
    gone: ShardSet,
}

impl Stamps {
    pub(crate) fn new(own: ShardId, shards: u16) -> Self {
        let shards = usize::from(shards);
        Self {
            own: usize::from(own.0),
            known: vec![vec![0; shards]; shards],
            seen: vec![0; shards],
            received: vec![0; shards],
            gone: ShardSet::default(),
        }
    }

    /// There are more shards.
    pub(crate) fn grow(&mut self, shards: usize) {
        if self.seen.len() < shards {
            self.gone.extend((self.seen.len()..shards).map(|shard| ShardId(shard as u16)));
            self.known.resize(shards, Vec::new());
            self.known.iter_mut().for_each(|owners| owners.resize(shards, 0));
            self.seen.resize(shards, 0);
            self.received.resize(shards, 0);
        }
    }

    /// A shard is gone: nobody waits for what it may have published. Its numbers go on behind those
    /// that were seen.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        let at = usize::from(shard.0);
        self.known[at].fill(0);
        self.known.iter_mut().for_each(|owners| owners[at] = 0);
        self.gone.insert(shard);
    }

    /// A shard is here, and numbers from behind this on: what has a lower number was published
    /// before it was started.
    pub(crate) fn begin(&mut self, shard: ShardId, number: u64) {
        let seen = &mut self.seen[usize::from(shard.0)];
        *seen = number.max(*seen);
        self.gone.remove(shard);
    }

    /// The last number of this shard.
    pub(crate) fn own(&self) -> u64 {
        self.seen[self.own]
    }

    /// A shard of another node may be named that has not been here.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        usize::from(shard.0) < self.seen.len()
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
        for (owner, &number) in sent.iter().enumerate().take(self.seen.len()) {
            self.know(usize::from(publisher.0), owner, number);
        }
    }

    fn know(&mut self, publisher: usize, owner: usize, number: u64) {
        let known = &mut self.known[publisher][owner];
        *known = number.max(*known);
        self.seen[publisher] = number.max(self.seen[publisher]);
    }

    /// The last message of this shard for each owner.
    pub(crate) fn sent(&self) -> &[u64] {
        &self.known[self.own]
    }

    /// The last known message of each shard for `owner`: what it has to have received before its
    /// answer is as new as what has been seen here.
    pub(crate) fn needed(&self, owner: ShardId) -> Box<[u64]> {
        self.known.iter().map(|owners| owners[usize::from(owner.0)]).collect()
    }

    /// The last known message of each shard.
    pub(crate) fn seen(&self) -> Box<[u64]> {
        let mut seen: Box<[u64]> = self.seen.as_slice().into();
        self.gone.for_each(|shard| seen[usize::from(shard.0)] = u64::MAX);
        seen
    }

    /// This shard's own message, or one mailed to it, is in its store. Those of a partition that
    /// moved here are older than what came before them.
    pub(crate) fn receive(&mut self, stamp: Stamp) {
        let received = &mut self.received[usize::from(stamp.shard.0)];
        *received = stamp.number.max(*received);
    }

    /// All that another owner of the same topics had received has come from it.
    pub(crate) fn receive_all(&mut self, received: &[u64]) {
        for (mine, &number) in self.received.iter_mut().zip(received) {
            *mine = number.max(*mine);
        }
    }

    pub(crate) fn received(&self) -> Box<[u64]> {
        self.received.as_slice().into()
    }

    /// Whether everything needed has come.
    pub(crate) fn has_received(&self, needed: &[u64]) -> bool {
        needed.iter().zip(&self.received).all(|(needed, received)| needed <= received)
    }
}
