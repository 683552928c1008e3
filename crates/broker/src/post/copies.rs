//! The post's part in copies of logs: this node's at others, and others' here.

use super::copy_said::{CopySaid, LOOK_EVERY};
use super::copying::{Copying, Keeper, Order, Seen};
use super::member::{Member, Peer};
use super::offering::Offering;
use super::opening::{Adopted, BACK_AFTER, Opening};
use super::stand_in::StandIns;
use super::{Post, tell_all};
use crate::copies::Kept;
use crate::letter::{CopyBegun, CopyNews, NodeNews};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_carrier::Carrier;
use weir_cluster::{CopyState, Incarnation, Node, Place, Revision, Seat, Slot};
use weir_control::{KeptCopies, OwnCopy};
use weir_core::Micros;
use weir_reactor::now_us;

/// How long the shards wait for a lost node whose sessions another is to serve.
const MISS_MAX: Micros = Micros(30_000_000);

/// The version of letters that knows of copies.
const LETTERS_MIN: u16 = 3;

/// What there is of copies.
#[derive(Default)]
pub(crate) struct PostCopies {
    /// Of this node's logs.
    copying: Option<Copying>,
    /// Of each.
    said: Vec<CopySaid>,
    /// When it is looked next whether they go on, while there are several; 0 if not.
    look_at: Micros,
    /// Of others.
    opening: Option<Opening>,
    kept: Option<Arc<Kept>>,
    /// This node is a stand-in.
    offering: Option<Offering>,
    news: Vec<(u64, CopyNews)>,
    /// Since when this node waits for lost ones, or who is to be in their place, before it lets
    /// clients in; 0 if there are none.
    await_since: Micros,
    /// The membership whose sessions were looked at; 0 before the first.
    looked_at: u64,
}

impl PostCopies {
    /// Of a node of so many shards, of whose logs there are to be so many copies, and that may have
    /// copies of others.
    pub(crate) fn new(
        copies: usize,
        others: Option<(Box<dyn StandIns>, Arc<Kept>)>,
        shards: usize,
    ) -> Self {
        let copying = Some(Copying::new(shards, copies));
        let said = std::iter::repeat_with(CopySaid::default).take(copies).collect();
        let (stand_ins, kept) = others.unzip();
        Self { copying, said, opening: stand_ins.map(Opening::new), kept, ..Self::default() }
    }

    /// Of a stand-in, which the node at this slot runs.
    pub(crate) fn of_stand_in(keeper: u8, shards: usize) -> Self {
        Self { offering: Some(Offering::new(Slot(keeper), shards)), ..Self::default() }
    }

    pub(super) fn note(&mut self, copy: u64, news: CopyNews) {
        self.news.push((copy, news));
    }

    pub(super) fn note_sessions(&mut self, shard: usize, sessions: usize) {
        if let Some(offering) = &mut self.offering {
            offering.note(shard, sessions);
        }
    }

    /// When [`Post::look_after_copies`] is due without news. Nothing of this node's own copies is
    /// while it may not act.
    pub(super) fn due(
        &self,
        peers: &BTreeMap<Slot, Peer>,
        may_act: bool,
        now: Micros,
    ) -> Option<Micros> {
        let copying = self.copying.as_ref().and_then(Copying::due);
        let look = (self.look_at > Micros(0)).then_some(self.look_at);
        let own = copying.into_iter().chain(look).filter(|_| may_act);
        let opening = self.opening.as_ref().and_then(Opening::due);
        let missed = peers.values().filter_map(|peer| peer.missed_until);
        let since = Some(self.await_since).filter(|&since| since > Micros(0));
        let awaited = since.into_iter().flat_map(|since| [since + BACK_AFTER, since + MISS_MAX]);
        let awaited = awaited.filter(|&until| until > now);
        own.chain(opening).chain(missed).chain(awaited).min()
    }

    /// How the copies of this node's log stand, and how many could not go on.
    pub(super) fn own(&self, now: Micros) -> (Vec<OwnCopy>, u64) {
        let failures = self.copying.as_ref().map_or(0, |copying| copying.failures);
        (self.said.iter().map(|said| said.shown(now)).collect(), failures)
    }

    /// What there is of others, if this node can have that.
    pub(super) fn kept(&self) -> Option<KeptCopies> {
        let (kept, opening) = (self.kept.as_ref()?, self.opening.as_ref()?);
        Some(KeptCopies {
            logs: kept.logs.load(Ordering::Relaxed),
            disk_bytes: kept.disk_bytes.load(Ordering::Relaxed),
            opened: opening.opened,
            failed: opening.failures,
        })
    }

    /// Whether the agreement may name a copy that nobody waits for.
    pub(super) fn is_released(&self) -> bool {
        self.copying.as_ref().is_some_and(Copying::is_released)
    }

    /// Nobody waits for copies of this node's log any more. Says whether there are to be some.
    pub(super) fn release(&mut self, revision: Revision, now: Micros) -> bool {
        let Some(copying) = self.copying.as_mut().filter(|copying| copying.is_on()) else {
            return false;
        };
        copying.release(revision, now);
        true
    }

    /// The names of copies whose keepers are silent.
    fn late(&mut self, now: Micros) -> Vec<u64> {
        if self.said.len() < 2 || now < self.look_at {
            return Vec::new();
        }
        self.look_at = now + LOOK_EVERY;
        self.said.iter_mut().filter_map(|said| said.look(now)).collect()
    }

    /// The broker ends.
    pub(super) fn stop(&mut self) {
        if let Some(opening) = &mut self.opening {
            opening.stop();
        }
    }
}

impl Post {
    /// Whether what is acknowledged here is this node's to answer for.
    pub(super) fn may_acknowledge(&self) -> bool {
        let (Some(own), Some(copying)) = (self.own(), &self.copies.copying) else { return true };
        copying.is_ready(own, self.membership.members().log_copy(own.0))
    }

    fn own(&self) -> Option<Seat> {
        self.membership.seat().map(Node::seat)
    }

    /// What this node had of sessions before it was a member again may be another's by now.
    pub(super) fn look_at_own_sessions(&mut self) {
        let seat = self.membership.seat().filter(|_| self.copies.offering.is_none());
        let Some(Node { place: Place { slot, number, .. }, incarnation, .. }) = seat else {
            return;
        };
        let (slot, number) = (*slot, *number);
        let before = std::mem::replace(&mut self.copies.looked_at, incarnation.0);
        if before == incarnation.0 {
            return;
        }
        if let Some(opening) = &mut self.copies.opening {
            opening.seated(&self.membership, Micros(now_us()));
        }
        if before != 0 {
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Again(number));
        }
        let copy = self.membership.members().log_copy(slot);
        if copy.is_some_and(|copy| copy.state == CopyState::Void) {
            tracing::warn!("another node has this node's sessions: they are void here");
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Void);
        }
        if let Some(copying) = &mut self.copies.copying {
            copying.begin_anew();
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::CopyEnds(None));
        }
    }

    /// A node is not a member any more. If another is to serve its sessions, the shards wait.
    pub(super) fn miss(&mut self, slot: Slot, carrier: &mut impl Carrier) {
        if !self.is_to_come(slot) {
            return self.lose(slot, carrier);
        }
        let Some(peer) = self.peers.get_mut(&slot).filter(|peer| peer.missed_until.is_none())
        else {
            return;
        };
        if !peer.member.is_stand_in {
            let node = &peer.member.name;
            tracing::warn!(node, "a node is lost");
            tracing::info!(node, "another node is to serve the sessions of a lost one");
            self.board.count_loss();
        }
        peer.missed_until = Some(Micros(now_us()) + MISS_MAX);
        peer.link.disconnected();
        carrier.leave(slot);
    }

    /// Whether somebody is to come in the place of a node. One that had a stand-in may have another
    /// with three copies, until the agreement says that its sessions are other nodes' now.
    fn is_to_come(&self, slot: Slot) -> bool {
        let Some(peer) = self.peers.get(&slot) else { return false };
        let members = self.membership.members();
        let has_third = members.log_copy(slot).is_some_and(|copy| copy.keepers.len() > 1);
        let is_kept = members.opener(slot).is_some();
        peer.is_here && is_kept && (!peer.member.is_stand_in || has_third)
    }

    /// Whether a node is lost whose sessions another is to serve, and does not yet: this one, which
    /// does not know it, would let its clients in without them, and miss what they subscribe to.
    /// Who is to serve them may not be there yet itself, if all were lost.
    pub(super) fn awaits_stand_ins(&mut self) -> bool {
        // A stand-in lets nobody in, and who was there before has known what they have.
        let is_new = !self.gate.is_open() && self.copies.offering.is_none();
        let members = self.membership.members();
        let most = match members.lost().next() {
            Some(_) => MISS_MAX,
            None if is_new && members.is_any_apart() => BACK_AFTER,
            None => return false,
        };
        let (now, since) = (Micros(now_us()), &mut self.copies.await_since);
        if *since == Micros(0) {
            tracing::info!("waiting for a lost node, or who has its sessions");
            *since = now;
        }
        now < *since + most
    }

    /// Clients are let in, or nobody can be waited for.
    pub(super) fn await_no_more(&mut self) {
        self.copies.await_since = Micros(0);
    }

    /// Whether a member is one that the shards wait for: it was away, or another has its place.
    pub(super) fn is_waited_for(&self, member: &Member) -> bool {
        let peer = self.peers.get(&member.slot).filter(|peer| peer.is_here);
        let is_copied = self.membership.members().log_copy(member.slot).is_some();
        // Who comes behind a stand-in that has ended has nothing, but for another stand-in.
        let is_after = |peer: &Peer| !peer.member.is_stand_in || member.is_stand_in;
        peer.is_some_and(|peer| is_after(peer) && (peer.missed_until.is_some() || is_copied))
    }

    /// Does what is due about copies.
    pub(super) fn look_after_copies(&mut self, carrier: &mut impl Carrier) {
        let now = Micros(now_us());
        let is_missed = |(_, peer): &(&Slot, &Peer)| peer.missed_until.is_some();
        let missed: Vec<Slot> =
            self.peers.iter().filter(is_missed).map(|(slot, _)| *slot).collect();
        for slot in missed {
            let is_late = self.peers[&slot].missed_until.is_some_and(|until| until <= now);
            if is_late || !self.is_to_come(slot) {
                self.lose(slot, carrier);
            }
        }
        self.copy_own(now);
        self.open_others(now);
        self.offer();
        self.let_in_at_last();
    }

    /// What is waited for may have come to be between two news of the members.
    fn let_in_at_last(&mut self) {
        if self.has_followed && self.membership.may_act() {
            self.let_in();
        }
    }

    fn copy_own(&mut self, now: Micros) {
        let Some(own) = self.own().filter(|_| self.membership.may_act()) else { return };
        let Some(mut copying) = self.copies.copying.take() else { return };
        // Nodes of an older version do not know what copies take.
        let mut members = self.peers.values().map(|peer| &peer.member);
        let is_old = members.any(|member| member.letters < LETTERS_MIN);
        let keepers = self.peers.values().filter(|_| !is_old).filter_map(keeper);
        let keepers: Vec<Keeper> = keepers.collect();
        for (copy, news) in std::mem::take(&mut self.copies.news) {
            let order = match news {
                CopyNews::Whole => {
                    copying.note_whole(copy);
                    None
                }
                CopyNews::Failed => copying.note_failed(copy, &self.seen(own, &keepers, now)),
            };
            order.into_iter().for_each(|order| self.obey(order));
        }
        let late = copying.note_late(&self.copies.late(now), &self.seen(own, &keepers, now));
        late.into_iter().for_each(|order| self.obey(order));
        while let Some(order) = copying.next(&self.seen(own, &keepers, now)) {
            self.obey(order);
        }
        let members = self.membership.members();
        let named = members.log_copy(own.0).map_or(&[][..], |record| &record.keepers);
        let states = copying.states(named);
        self.copies.said.iter_mut().zip(states).for_each(|(said, state)| said.note(state, now));
        self.copies.copying = Some(copying);
    }

    fn seen<'a>(&'a self, own: Seat, keepers: &'a [Keeper], now: Micros) -> Seen<'a> {
        let members = self.membership.members();
        let (record, revision) = (members.log_copy(own.0), members.log_copy_at(own.0));
        Seen { own, record, revision, keepers, now }
    }

    fn obey(&mut self, order: Order) {
        let Self { mailbox, setup, membership, copies, .. } = self;
        match order {
            Order::Begin { at, keeper: Keeper { name, shards: to, .. }, copy } => {
                tracing::info!(node = name, "a copy of this node's log begins at another node");
                let waiting = copies.said[at].begin(copy, setup.shards.len());
                let begun = CopyBegun { to, copy, waiting };
                tell_all(mailbox, &setup.shards, || NodeNews::CopyTo(begun.clone()));
            }
            Order::End(copy) => {
                tell_all(mailbox, &setup.shards, || NodeNews::CopyEnds(Some(copy)));
            }
            // It is asked again if it does not come to be so.
            Order::Name(keepers) => drop(membership.keep_log_at(keepers)),
        }
    }

    fn open_others(&mut self, now: Micros) {
        let Self { copies, membership, mailbox, setup, .. } = self;
        let Some(opening) = &mut copies.opening else { return };
        while let Some(adopted) = opening.step(membership, now) {
            tell_all(mailbox, &setup.shards, || match adopted.clone() {
                Adopted::Begun(shards) => NodeNews::Adopt(shards),
                Adopted::Ended(shards) => NodeNews::AdoptNoMore(shards),
            });
        }
    }

    /// Of a stand-in: once it knows all that the others have, its sessions go to its keeper.
    fn offer(&mut self) {
        let Self { copies, peers, mailbox, setup, gate, .. } = self;
        let Some(offering) = &mut copies.offering else { return };
        if gate.is_open()
            && let Some(keeper) = peers.get(&offering.keeper).filter(|peer| peer.is_here)
            && offering.begins()
        {
            let shards = &keeper.member.shards;
            tell_all(mailbox, &setup.shards, || NodeNews::Offer(shards.clone()));
        }
        if offering.is_over() {
            gate.stop();
        }
    }
}

/// A node that can have a copy.
fn keeper(peer: &Peer) -> Option<Keeper> {
    let Member { slot, name, incarnation, shards, is_stand_in, .. } = &peer.member;
    let is_known = peer.is_here && !peer.is_back && peer.missed_until.is_none();
    let can_keep = is_known && !is_stand_in;
    let seat = (*slot, Incarnation(*incarnation));
    let link = (peer.made, peer.link.counts().resets);
    can_keep.then(|| Keeper { name: name.clone(), seat, shards: shards.clone(), link })
}
