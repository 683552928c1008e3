//! Messages that went to members of shared subscriptions on other nodes, until these have them: if
//! such a node is lost, others are chosen.

use crate::keys::ShardId;
use crate::mail::GroupPick;
use crate::message::Message;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// By the shard that they went to. There are no more than letters whose receipts somebody waits
/// for.
#[derive(Debug, Default)]
pub(crate) struct Chosen(BTreeMap<ShardId, VecDeque<Sent>>);

/// A message, and for whom it is there.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Of its letter.
    pub(crate) number: u64,
    pub(crate) message: Arc<Message>,
    pub(crate) picks: SmallVec<[GroupPick; 1]>,
    /// It is there, and not in force.
    pub(crate) is_pending: bool,
}

impl Chosen {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Numbers come in their order.
    pub(crate) fn note(&mut self, to: ShardId, sent: Sent) {
        self.0.entry(to).or_default().push_back(sent);
    }

    /// The letters up to this one are in force there, but for those that are pending.
    #[cold]
    pub(crate) fn received(&mut self, from: ShardId, number: u64, pending: &[u64], done: &[u64]) {
        let Some(all) = self.0.get_mut(&from) else { return };
        all.retain_mut(|sent| {
            // Those that were pending before are named again when they are done.
            sent.is_pending |= pending.contains(&sent.number);
            let is_there = sent.number <= number && !sent.is_pending;
            !is_there && !done.contains(&sent.number)
        });
        if all.is_empty() {
            self.0.remove(&from);
        }
    }

    /// A shard is gone.
    pub(crate) fn take(&mut self, shard: ShardId) -> VecDeque<Sent> {
        self.0.remove(&shard).unwrap_or_default()
    }
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
        Sent { number, message, picks: SmallVec::new(), is_pending: false }
    }

    #[test]
    fn what_has_no_receipt_is_chosen_for_again() {
        let (one, other) = (ShardId(1), ShardId(2));
        let mut chosen = Chosen::default();
        (1..=5).for_each(|number| chosen.note(one, sent(number)));
        chosen.note(other, sent(1));
        chosen.received(one, 3, &[2, 3], &[]);
        chosen.received(one, 4, &[], &[3]);
        let left: Vec<u64> = chosen.take(one).iter().map(|sent| sent.number).collect();
        assert_eq!(left, [2, 5]);
        chosen.received(other, 1, &[], &[]);
        assert!(chosen.is_empty());
    }
}
