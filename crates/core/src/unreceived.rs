//! Messages that were mailed to other nodes, until these have them. If such a node is lost, other
//! members of shared subscriptions are chosen; if another takes its place, that gets them.

use crate::keys::{Lsn, ShardId};
use crate::mail::GroupPick;
use crate::message::Message;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// By the shard that they went to. There are no more than letters whose receipts somebody waits
/// for, and mailed messages.
#[derive(Debug, Default)]
pub(crate) struct Unreceived {
    /// All are kept, as each node's log is copied to another one, and what that has is here again
    /// when the node is lost. Else those for members of shared subscriptions.
    pub(crate) is_copied: bool,
    peers: BTreeMap<ShardId, Peer>,
}

/// What went to a shard, in the order of the numbers.
#[derive(Debug, Default)]
struct Peer {
    sent: VecDeque<Sent>,
    /// Those of them that are there, and not in force.
    pending: VecDeque<Sent>,
}

/// A message, and for whom it is there.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Of its letter.
    pub(crate) number: u64,
    pub(crate) message: Arc<Message>,
    pub(crate) to_subscribers: bool,
    pub(crate) picks: SmallVec<[GroupPick; 1]>,
    /// What it is called, if it is mailed.
    pub(crate) mailed: Option<Lsn>,
}

impl Unreceived {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Numbers come in their order.
    pub(crate) fn note(&mut self, to: ShardId, sent: Sent) {
        self.peers.entry(to).or_default().sent.push_back(sent);
    }

    /// The letters up to this one are in force there, but for those that are pending. Tells `had`
    /// of those that are mailed.
    #[cold]
    pub(crate) fn received(
        &mut self,
        (from, number): (ShardId, u64),
        (pending, done): (&[u64], &[u64]),
        mut had: impl FnMut(Lsn),
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        while let Some(sent) = peer.sent.pop_front_if(|sent| sent.number <= number) {
            // They are named again when they are done.
            if pending.binary_search(&sent.number).is_ok() {
                peer.pending.push_back(sent);
            } else {
                sent.mailed.into_iter().for_each(&mut had);
            }
        }
        for number in done {
            if let Some(at) = position(&peer.pending, *number) {
                let sent = peer.pending.remove(at);
                sent.and_then(|sent| sent.mailed).into_iter().for_each(&mut had);
            }
        }
        if peer.sent.is_empty() && peer.pending.is_empty() {
            self.peers.remove(&from);
        }
    }

    /// A shard is gone.
    pub(crate) fn take(&mut self, shard: ShardId) -> VecDeque<Sent> {
        let Peer { sent, mut pending } = self.peers.remove(&shard).unwrap_or_default();
        pending.extend(sent);
        pending.make_contiguous().sort_unstable_by_key(|sent| sent.number);
        pending
    }

    /// They go to it once more, or to whoever is in its place.
    pub(crate) fn put_back(&mut self, shard: ShardId, sent: VecDeque<Sent>) {
        if !sent.is_empty() {
            self.peers.insert(shard, Peer { sent, pending: VecDeque::new() });
        }
    }

    /// Whether this letter is to be received still.
    pub(crate) fn has(&self, shard: ShardId, number: u64) -> bool {
        self.peers.get(&shard).is_some_and(|peer| position(&peer.sent, number).is_some())
    }
}

fn position(all: &VecDeque<Sent>, number: u64) -> Option<usize> {
    all.binary_search_by_key(&number, |sent| sent.number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(number: u64) -> Sent {
        let message = Arc::new(Message {
            topic: "t".into(),
            payload: Vec::new(),
            properties: weir_wire::PropertiesBuf::new(),
            qos: weir_wire::QoS::AtLeastOnce,
            retain: false,
            expires_at: None,
            stamp: None,
        });
        let mailed = (number % 2 == 1).then_some(Lsn(number));
        Sent { number, message, to_subscribers: true, picks: SmallVec::new(), mailed }
    }

    #[test]
    fn what_has_no_receipt_is_there_again_in_its_order() {
        let (one, other) = (ShardId(1), ShardId(2));
        let mut all = Unreceived::default();
        (1..=5).for_each(|number| all.note(one, sent(number)));
        all.note(other, sent(1));
        let mut had = Vec::new();
        all.received((one, 3), (&[2, 3], &[]), |name| had.push(name.0));
        assert_eq!(had, [1]);
        all.received((one, 4), (&[], &[3]), |name| had.push(name.0));
        assert_eq!(had, [1, 3]);
        let left = all.take(one);
        assert_eq!(left.iter().map(|sent| sent.number).collect::<Vec<_>>(), [2, 5]);
        all.put_back(one, left);
        assert_eq!([2, 3, 5].map(|number| all.has(one, number)), [true, false, true]);
        all.received((one, 5), (&[], &[]), |_| {});
        all.received((other, 1), (&[], &[]), |_| {});
        assert!(all.is_empty());
    }
}
