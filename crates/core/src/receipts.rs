//! Receipts between shards: letters that somebody waits for carry a number, and one receipt says of
//! all up to a number that they are in force where they went.
//!
//! Letters between two shards keep their order, so a receipt is one number, sent once a turn
//! however many letters it is for.

use crate::keys::ShardId;
use crate::keys::Ticket;
use std::collections::VecDeque;

/// The numbers between this shard and each other one.
#[derive(Debug)]
pub(crate) struct Receipts {
    peers: Vec<Peer>,
    /// Peers that wait for a receipt from here.
    owed: Vec<ShardId>,
}

#[derive(Debug, Default)]
struct Peer {
    /// The last number that a letter to it was given.
    sent: u64,
    /// Answers that wait for its receipt, by the number of the letter.
    waits: VecDeque<(u64, Ticket)>,
    /// The last number that came from it.
    received: u64,
    /// The last that it was given a receipt for.
    receipted: u64,
    /// Its letters said something that hangs on what is retained.
    wants_retains: bool,
}

/// What a peer is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) to: ShardId,
    /// All its letters up to this one are in force here.
    pub(crate) number: u64,
    pub(crate) wants_retains: bool,
}

impl Receipts {
    pub(crate) fn new(shards: u16) -> Self {
        Self { peers: (0..shards).map(|_| Peer::default()).collect(), owed: Vec::new() }
    }

    /// The number of the next letter to `shard` that somebody waits for.
    pub(crate) fn number(&mut self, shard: ShardId) -> u64 {
        let peer = &mut self.peers[usize::from(shard.0)];
        peer.sent += 1;
        peer.sent
    }

    /// `ticket` waits for the receipt of this letter. Numbers come in their order.
    pub(crate) fn wait(&mut self, shard: ShardId, number: u64, ticket: Ticket) {
        self.peers[usize::from(shard.0)].waits.push_back((number, ticket));
    }

    /// A receipt came: the next answer that waited for it and has not been taken yet.
    pub(crate) fn take_met(&mut self, from: ShardId, number: u64) -> Option<Ticket> {
        let waits = &mut self.peers[usize::from(from.0)].waits;
        let (_, ticket) = waits.pop_front_if(|&mut (waited, _)| waited <= number)?;
        if waits.is_empty() {
            // The memory of a burst goes with it.
            waits.shrink_to(WAITS_KEPT);
        }
        Some(ticket)
    }

    /// The answer that waits for the receipt of this letter.
    pub(crate) fn waiting_for(&self, from: ShardId, number: u64) -> Option<Ticket> {
        let waits = &self.peers[usize::from(from.0)].waits;
        let at = waits.binary_search_by_key(&number, |&(waited, _)| waited).ok()?;
        Some(waits[at].1)
    }

    /// A letter with a number is in force here.
    pub(crate) fn note(&mut self, from: ShardId, number: u64, wants_retains: bool) {
        let peer = &mut self.peers[usize::from(from.0)];
        if peer.received == peer.receipted {
            self.owed.push(from);
        }
        peer.received = number.max(peer.received);
        peer.wants_retains |= wants_retains;
    }

    /// The next receipt that is owed.
    pub(crate) fn take_owed(&mut self) -> Option<Owed> {
        let to = self.owed.pop()?;
        let peer = &mut self.peers[usize::from(to.0)];
        peer.receipted = peer.received;
        let wants_retains = std::mem::take(&mut peer.wants_retains);
        Some(Owed { to, number: peer.received, wants_retains })
    }
}

/// Places for waiting answers whose memory is kept.
const WAITS_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    const OTHER: ShardId = ShardId(1);

    #[test]
    fn one_receipt_is_for_all_letters_before_it() {
        let mut tickets = SlotMap::<Ticket, ()>::with_key();
        let mut receipts = Receipts::new(2);
        let waiting: Vec<Ticket> = (0..3).map(|_| tickets.insert(())).collect();
        for &ticket in &waiting {
            let number = receipts.number(OTHER);
            receipts.wait(OTHER, number, ticket);
        }
        assert_eq!(receipts.waiting_for(OTHER, 2), Some(waiting[1]));
        assert_eq!(receipts.waiting_for(OTHER, 4), None);
        assert_eq!(receipts.take_met(OTHER, 2), Some(waiting[0]));
        assert_eq!(receipts.take_met(OTHER, 2), Some(waiting[1]));
        assert_eq!(receipts.take_met(OTHER, 2), None);
        assert_eq!(receipts.take_met(OTHER, 3), Some(waiting[2]));
    }

    #[test]
    fn a_turn_owes_each_peer_one_receipt() {
        let mut receipts = Receipts::new(3);
        receipts.note(OTHER, 1, false);
        receipts.note(OTHER, 2, true);
        receipts.note(ShardId(2), 7, false);
        let mut owed = [receipts.take_owed().unwrap(), receipts.take_owed().unwrap()];
        owed.sort_unstable_by_key(|owed| owed.to);
        assert_eq!(owed[0], Owed { to: OTHER, number: 2, wants_retains: true });
        assert_eq!(owed[1], Owed { to: ShardId(2), number: 7, wants_retains: false });
        assert_eq!(receipts.take_owed(), None);
        receipts.note(OTHER, 3, false);
        let owed = receipts.take_owed();
        assert_eq!(owed, Some(Owed { to: OTHER, number: 3, wants_retains: false }));
    }
}
