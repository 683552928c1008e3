//! Receipts between shards: letters that somebody waits for carry a number, and one receipt says of
//! all up to a number that they are in force where they went.
//!
//! Letters between two shards keep their order, so a receipt is one number, sent once a turn
//! however many letters it is for. It names those that are pending: they wait for the receiver's
//! log, or for a third shard, and a later receipt says that they are done. So no letter holds up
//! those behind it, and shards that wait for each other's letters never wait in a circle.

use crate::keys::ShardId;
use crate::keys::Ticket;
use crate::shard_set::ShardSet;
use std::collections::VecDeque;

/// The numbers between this shard and each other one.
#[derive(Debug)]
pub(crate) struct Receipts {
    peers: Vec<Peer>,
    /// Numbers are higher.
    first: u64,
    /// Peers that wait for a receipt from here.
    owed: Vec<ShardId>,
    /// Peers where memory is short, as of their last receipts.
    short: ShardSet,
}

#[derive(Debug, Default)]
struct Peer {
    /// The last number that a letter to it was given.
    sent: u64,
    /// Answers that wait for its receipt, by the number of the letter.
    waits: VecDeque<(u64, Ticket)>,
    /// Those of them whose letters came there and are not in force yet.
    waits_longer: VecDeque<(u64, Ticket)>,
    /// The last number that came from it.
    received: u64,
    /// What this shard had published as retained, by owner, when the last of its subscriptions
    /// that are in force was noted; nothing if it was told of all of them.
    retains: Box<[u64]>,
    /// Letters that came and are not in force yet; it is to be told so.
    pending: Vec<u64>,
    /// Letters of which it was told that they are pending, and that are in force by now.
    done: Vec<u64>,
    /// It is among those that wait for a receipt from here.
    is_owed: bool,
    /// Its list of all that is there has come, if it is of another node.
    is_listed: bool,
    /// The letter behind the list that it was given, until its receipt comes.
    list_end: Option<u64>,
}

/// What a peer is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) to: ShardId,
    /// All its letters up to this one are in force here, but for those that are pending.
    pub(crate) number: u64,
    pub(crate) retains: Box<[u64]>,
    pub(crate) pending: Box<[u64]>,
    pub(crate) done: Box<[u64]>,
}

impl Receipts {
    pub(crate) fn new(shards: u16) -> Self {
        let peers = (0..shards).map(|_| Peer::default()).collect();
        Self { peers, first: 0, owed: Vec::new(), short: ShardSet::default() }
    }

    /// Numbers are higher than `number`, so that none is given again to whoever remembers this
    /// shard from before it was started.
    pub(crate) fn go_on_from(&mut self, number: u64) {
        self.first = number;
        self.peers.iter_mut().for_each(|peer| peer.sent = number.max(peer.sent));
    }

    /// There are more shards.
    pub(crate) fn grow(&mut self, shards: usize) {
        let sent = self.first;
        if self.peers.len() < shards {
            self.peers.resize_with(shards, || Peer { sent, ..Peer::default() });
        }
    }

    /// A shard is gone. Returns the answers that waited for it.
    pub(crate) fn forget(&mut self, shard: ShardId) -> Vec<Ticket> {
        let peer = &mut self.peers[usize::from(shard.0)];
        let forgotten = Peer { sent: peer.sent, ..Peer::default() };
        let Peer { waits, waits_longer, .. } = std::mem::replace(peer, forgotten);
        self.owed.retain(|&owed| owed != shard);
        self.short.remove(shard);
        waits.into_iter().chain(waits_longer).map(|(_, ticket)| ticket).collect()
    }

    /// A shard is gone, and another is in its place, which gets letters with some of these numbers
    /// again: whoever waits for one of those goes on waiting. Returns the others that waited.
    pub(crate) fn forget_but(
        &mut self,
        shard: ShardId,
        stays: impl Fn(u64) -> bool,
    ) -> Vec<Ticket> {
        let peer = &mut self.peers[usize::from(shard.0)];
        let mut all = std::mem::take(&mut peer.waits_longer);
        all.append(&mut peer.waits);
        all.make_contiguous().sort_by_key(|&(number, _)| number);
        let (waits, others): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|&(number, _)| stays(number));
        let forgotten = self.forget(shard);
        debug_assert!(forgotten.is_empty(), "they have been taken");
        self.peers[usize::from(shard.0)].waits = waits;
        others.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// The last number that a letter to `shard` was given.
    pub(crate) fn last(&self, shard: ShardId) -> u64 {
        self.peers[usize::from(shard.0)].sent
    }

    pub(crate) fn note_listed(&mut self, shard: ShardId) {
        self.peers[usize::from(shard.0)].is_listed = true;
    }

    pub(crate) fn is_listed(&self, shard: ShardId) -> bool {
        self.peers[usize::from(shard.0)].is_listed
    }

    /// `shard` is given a list, of whose end a receipt is to come.
    pub(crate) fn begin_list(&mut self, shard: ShardId) {
        self.peers[usize::from(shard.0)].list_end = Some(u64::MAX);
    }

    /// The number of the letter behind that list.
    pub(crate) fn end_list(&mut self, shard: ShardId) -> u64 {
        let number = self.number(shard);
        self.peers[usize::from(shard.0)].list_end = Some(number);
        number
    }

    /// A receipt came. Says whether it is the first for all of that list.
    #[inline]
    pub(crate) fn has_list(&mut self, from: ShardId, number: u64) -> bool {
        self.peers[usize::from(from.0)].list_end.take_if(|end| *end <= number).is_some()
    }

    /// Whether that receipt is still to come.
    pub(crate) fn waits_for_list(&self, shard: ShardId) -> bool {
        self.peers[usize::from(shard.0)].list_end.is_some()
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

    /// A receipt came: the next answer that waited for it and has not been taken yet. Those that
    /// wait for pending letters go on waiting.
    pub(crate) fn take_met(
        &mut self,
        from: ShardId,
        number: u64,
        pending: &[u64],
    ) -> Option<Ticket> {
        let Peer { waits, waits_longer, .. } = &mut self.peers[usize::from(from.0)];
        while let Some((number, ticket)) = waits.pop_front_if(|&mut (waited, _)| waited <= number) {
            if waits.is_empty() {
                // The memory of a burst goes with it.
                waits.shrink_to(WAITS_KEPT);
            }
            if pending.binary_search(&number).is_err() {
                return Some(ticket);
            }
            waits_longer.push_back((number, ticket));
        }
        None
    }

    /// A letter that was pending is in force: the answer that waited for it.
    pub(crate) fn take_done(&mut self, from: ShardId, number: u64) -> Option<Ticket> {
        let waits = &mut self.peers[usize::from(from.0)].waits_longer;
        let (_, ticket) = waits.remove(position(waits, number)?)?;
        if waits.is_empty() {
            waits.shrink_to(WAITS_KEPT);
        }
        Some(ticket)
    }

    /// The answer that waits for this letter.
    pub(crate) fn waiting_for(&self, from: ShardId, number: u64) -> Option<Ticket> {
        let Peer { waits, waits_longer, .. } = &self.peers[usize::from(from.0)];
        [waits, waits_longer].into_iter().find_map(|waits| Some(waits[position(waits, number)?].1))
    }

    /// The same, and it waits no longer for it.
    pub(crate) fn take_waiting(&mut self, from: ShardId, number: u64) -> Option<Ticket> {
        let Peer { waits, waits_longer, .. } = &mut self.peers[usize::from(from.0)];
        let mut all = [waits, waits_longer].into_iter();
        all.find_map(|waits| Some(waits.remove(position(waits, number)?)?.1))
    }

    /// The shards where memory is short, as they said last.
    pub(crate) fn short(&self) -> ShardSet {
        self.short
    }

    pub(crate) fn set_short(&mut self, shard: ShardId, is_short: bool) {
        if is_short {
            self.short.insert(shard);
        } else {
            self.short.remove(shard);
        }
    }

    /// A letter with a number came, and is in force here.
    pub(crate) fn note(&mut self, from: ShardId, number: u64) {
        let peer = self.owe(from);
        peer.received = number.max(peer.received);
    }

    /// A letter with a number came, and is not in force yet: [`Receipts::note_done`] follows.
    pub(crate) fn note_pending(&mut self, from: ShardId, number: u64) {
        self.note(from, number);
        self.peers[usize::from(from.0)].pending.push(number);
    }

    /// A letter that was pending is in force.
    pub(crate) fn note_done(&mut self, from: ShardId, number: u64) {
        self.owe(from).done.push(number);
    }

    /// The next receipt says that this was published as retained when a subscription was noted:
    /// what is published after that comes to it live.
    pub(crate) fn note_retains(&mut self, to: ShardId, retains: &[u64]) {
        let told = &mut self.peers[usize::from(to.0)].retains;
        if told.is_empty() {
            *told = retains.into();
        }
        for (told, &number) in told.iter_mut().zip(retains) {
            *told = number.max(*told);
        }
    }

    fn owe(&mut self, to: ShardId) -> &mut Peer {
        let peer = &mut self.peers[usize::from(to.0)];
        if !std::mem::replace(&mut peer.is_owed, true) {
            self.owed.push(to);
        }
        peer
    }

    /// The next receipt that is owed.
    pub(crate) fn take_owed(&mut self) -> Option<Owed> {
        let to = self.owed.pop()?;
        let peer = &mut self.peers[usize::from(to.0)];
        peer.is_owed = false;
        let retains = std::mem::take(&mut peer.retains);
        let pending = std::mem::take(&mut peer.pending).into_boxed_slice();
        let done = std::mem::take(&mut peer.done).into_boxed_slice();
        Some(Owed { to, number: peer.received, retains, pending, done })
    }
}

/// Where the answer is that waits for this letter: numbers come in their order.
fn position(waits: &VecDeque<(u64, Ticket)>, number: u64) -> Option<usize> {
    waits.binary_search_by_key(&number, |&(waited, _)| waited).ok()
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
        assert_eq!(receipts.take_met(OTHER, 2, &[]), Some(waiting[0]));
        assert_eq!(receipts.take_met(OTHER, 2, &[]), Some(waiting[1]));
        assert_eq!(receipts.take_met(OTHER, 2, &[]), None);
        assert_eq!(receipts.take_met(OTHER, 3, &[]), Some(waiting[2]));
    }

    #[test]
    fn who_waits_for_a_pending_letter_waits_until_it_is_done_and_nobody_else_does() {
        let mut tickets = SlotMap::<Ticket, ()>::with_key();
        let mut receipts = Receipts::new(2);
        let waiting: Vec<Ticket> = (0..4).map(|_| tickets.insert(())).collect();
        for &ticket in &waiting {
            let number = receipts.number(OTHER);
            receipts.wait(OTHER, number, ticket);
        }
        assert_eq!(receipts.take_met(OTHER, 3, &[1, 3]), Some(waiting[1]));
        assert_eq!(receipts.take_met(OTHER, 3, &[1, 3]), None);
        assert_eq!(receipts.take_met(OTHER, 4, &[]), Some(waiting[3]));
        let still = [1, 3].map(|number| receipts.waiting_for(OTHER, number));
        assert_eq!(still, [Some(waiting[0]), Some(waiting[2])]);
        assert_eq!(receipts.take_done(OTHER, 2), None);
        assert_eq!(receipts.take_done(OTHER, 3), Some(waiting[2]));
        assert_eq!(receipts.take_done(OTHER, 1), Some(waiting[0]));
        assert_eq!(receipts.waiting_for(OTHER, 1), None);
    }

    #[test]
    fn who_waits_for_a_letter_that_goes_once_more_waits_on() {
        let mut tickets = SlotMap::<Ticket, ()>::with_key();
        let mut receipts = Receipts::new(2);
        let waiting: Vec<Ticket> = (0..5).map(|_| tickets.insert(())).collect();
        for &ticket in &waiting {
            let number = receipts.number(OTHER);
            receipts.wait(OTHER, number, ticket);
        }
        // The first has been in force; the second and the third came there, and are not.
        assert_eq!(receipts.take_met(OTHER, 3, &[2, 3]), Some(waiting[0]));
        assert_eq!(receipts.take_met(OTHER, 3, &[2, 3]), None);
        let met = receipts.forget_but(OTHER, |number| [2, 4].contains(&number));
        assert_eq!(met, [waiting[2], waiting[4]]);
        assert_eq!(receipts.last(OTHER), 5);
        assert_eq!(receipts.take_met(OTHER, 2, &[]), Some(waiting[1]));
        assert_eq!(receipts.take_met(OTHER, 2, &[]), None);
        assert_eq!(receipts.take_met(OTHER, 6, &[]), Some(waiting[3]));
    }

    fn owed(to: ShardId, number: u64, pending: &[u64], done: &[u64]) -> Owed {
        let (pending, done) = (pending.into(), done.into());
        Owed { to, number, retains: Box::default(), pending, done }
    }

    #[test]
    fn a_pending_letter_is_said_to_be_so_and_then_to_be_done() {
        let mut receipts = Receipts::new(2);
        receipts.note(OTHER, 1);
        receipts.note_pending(OTHER, 2);
        receipts.note_pending(OTHER, 3);
        receipts.note(OTHER, 4);
        assert_eq!(receipts.take_owed(), Some(owed(OTHER, 4, &[2, 3], &[])));
        assert_eq!(receipts.take_owed(), None);
        receipts.note_done(OTHER, 3);
        assert_eq!(receipts.take_owed(), Some(owed(OTHER, 4, &[], &[3])));
        // One that was pending for less than a turn.
        receipts.note_pending(OTHER, 5);
        receipts.note_done(OTHER, 5);
        receipts.note_done(OTHER, 2);
        assert_eq!(receipts.take_owed(), Some(owed(OTHER, 5, &[5], &[5, 2])));
        assert_eq!(receipts.take_owed(), None);
    }

    #[test]
    fn a_turn_owes_each_peer_one_receipt() {
        let mut receipts = Receipts::new(3);
        receipts.note(OTHER, 1);
        receipts.note(OTHER, 2);
        receipts.note_retains(OTHER, &[5, 1, 0]);
        receipts.note_retains(OTHER, &[4, 2, 0]);
        receipts.note(ShardId(2), 7);
        let mut both = [receipts.take_owed().unwrap(), receipts.take_owed().unwrap()];
        both.sort_unstable_by_key(|owed| owed.to);
        assert_eq!(both[0], Owed { retains: [5, 2, 0].into(), ..owed(OTHER, 2, &[], &[]) });
        assert_eq!(both[1], owed(ShardId(2), 7, &[], &[]));
        assert_eq!(receipts.take_owed(), None);
        receipts.note(OTHER, 3);
        assert_eq!(receipts.take_owed(), Some(owed(OTHER, 3, &[], &[])));
    }
}
