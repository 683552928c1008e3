//! The post: the thread that letters between this node's shards and those of other nodes go by.
//!
//! To the shards it is one more thread of their mesh, and to each other node it is a
//! [`weir_cluster::Link`] over a [`Carrier`]. A turn takes what the shards have for others, puts
//! all that is for a node into one frame, and sends it with one call. Nobody waits for anybody:
//! where a link has no room, letters stay in their rings, and shards read less of their clients, as
//! they do for each other.

mod absent;
mod board;
mod copies;
mod copy_said;
mod copying;
mod delivery;
mod gate;
mod lease;
mod member;
mod minority;
mod names;
mod offering;
mod opening;
mod search;
mod stand_in;

use crate::cluster::Membership;
use crate::letter::{Letter, NodeNews};
use board::Board;
pub(crate) use board::{ClusterWatch, board};
pub(crate) use copies::PostCopies;
use delivery::Delivery;
pub(crate) use gate::Gate;
pub(crate) use lease::Lease;
use member::{Member, Peer};
pub(crate) use names::Names;
use search::Search;
pub(crate) use stand_in::{LostNode, StandIn, StandIns};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_carrier::{Carrier, Lost, NodeAddress, Outlet};
use weir_cluster::{Event, LinkSettings, Pushed, Slot};
use weir_core::{Mail, Micros, ShardId, Wall};
use weir_reactor::{Mailbox, now_us};

/// Letters of each shard that are taken in a turn.
const LETTERS_MAX: usize = 4_096;

/// Letters that wait for a place in a shard's ring. Over it, other nodes are read no more.
const UNPOSTED_MAX: usize = 16_384;

/// How long a turn waits while something could not leave.
const SOON: Micros = Micros(1_000);

/// How long etcd gets to take the place back.
const LEAVE_MAX: Micros = Micros(1_000_000);

/// What a post is made with.
pub(crate) struct PostSetup {
    pub(crate) cluster: Box<str>,
    pub(crate) own: Slot,
    /// Names the present membership.
    pub(crate) incarnation: u64,
    /// The shards of this node.
    pub(crate) shards: Range<u16>,
    /// While it is cut off from its cluster, it serves its own clients.
    pub(crate) serves_minority: bool,
    /// While a node is away whose sessions nobody serves, its clients wait for it.
    pub(crate) waits_for_absent: bool,
    /// Bytes of the longest letter, and more.
    pub(crate) frame_bytes_max: u32,
    /// Between this process' clock and that of the world.
    pub(crate) wall: Wall,
}

/// What the thread has beside its carrier.
pub(crate) struct Post {
    setup: PostSetup,
    mailbox: Mailbox<Letter>,
    membership: Membership,
    peers: BTreeMap<Slot, Peer>,
    names: Names,
    /// How many shards of other nodes have told each shard of this one all that they have.
    lists: Vec<usize>,
    gate: Gate,
    /// Until when this node may act, for its shards.
    lease: Arc<Lease>,
    board: Board,
    copies: PostCopies,
    /// It goes by the members as they were known once.
    has_followed: bool,
    /// This node may not act.
    is_fenced: bool,
    /// The shards do not know yet what all other nodes have.
    is_joining: bool,
    /// How many links there were.
    links: u64,
    /// Its shards serve its own clients meanwhile.
    is_apart: bool,
    /// As the shards were told.
    is_any_absent: bool,
    /// Letters of shards may be there still.
    has_letters: bool,
    is_posted: bool,
}

impl Post {
    pub(crate) fn new(
        setup: PostSetup,
        mailbox: Mailbox<Letter>,
        membership: Membership,
        (gate, lease, board): (Gate, Arc<Lease>, Board),
        names: Names,
        copies: PostCopies,
    ) -> Self {
        lease.set(membership.acts_until());
        Self {
            lists: vec![0; setup.shards.len()],
            // The shards begin so.
            is_any_absent: setup.waits_for_absent,
            setup,
            mailbox,
            membership,
            peers: BTreeMap::new(),
            names,
            gate,
            lease,
            board,
            copies,
            has_followed: false,
            is_fenced: false,
            is_joining: false,
            links: 0,
            is_apart: false,
            has_letters: false,
            is_posted: true,
        }
    }

    pub(crate) fn set_copies(&mut self, copies: PostCopies) {
        self.copies = copies;
    }

    /// Keeps the node's place while its shards do not run yet.
    pub(crate) fn renew(&mut self) {
        let events = self.membership.hear();
        self.membership.hear_later(events);
        self.lease.set(self.membership.acts_until());
    }

    /// Carries letters until it is to stop; then gives the node's place back, so that the others go
    /// on at once.
    pub(crate) fn run(mut self, carrier: &mut impl Carrier, stop: &AtomicBool) -> io::Result<()> {
        self.say_joining(true);
        while !stop.load(Ordering::Acquire) {
            self.follow(carrier);
            self.look_after_copies(carrier);
            self.look_for_absent();
            self.names.seek(&mut self.peers, carrier, Micros(now_us()));
            self.board.show(&self.membership, &self.peers, &self.copies);
            let timeout = self.timeout(carrier);
            carrier.turn(timeout, &mut self)?;
        }
        self.copies.stop();
        self.membership.leave();
        let until = Micros(now_us()) + LEAVE_MAX;
        while !self.membership.has_left() && now_us() < until.0 {
            self.membership.hear();
            carrier.turn(Some(Duration::from_micros(SOON.0)), &mut self)?;
        }
        Ok(())
    }

    fn timeout(&self, carrier: &impl Carrier) -> Option<Duration> {
        if self.has_room() && (self.has_letters || !self.mailbox.fall_asleep()) {
            return Some(Duration::ZERO);
        }
        let now = Micros(now_us());
        let again = (!self.is_posted).then_some(now + SOON);
        let links = self.peers.values().filter_map(|peer| peer.link.poll_timeout());
        let names = Names::due(&self.peers, carrier);
        let copies = self.copies.due(&self.peers, self.membership.may_act(), now);
        let due =
            links.chain(again).chain(names).chain(copies).chain(self.membership.due()).min()?;
        Some(Duration::from_micros(due.0.saturating_sub(now.0)))
    }

    /// Goes by what is known of the members.
    fn follow(&mut self, carrier: &mut impl Carrier) {
        let mut events = self.membership.hear();
        self.board.obey(&mut self.membership, &mut events);
        if !self.is_fenced {
            self.lease.set(self.membership.acts_until());
        }
        for event in &events {
            if let Event::Notice(notice) = event {
                tracing::warn!("cluster: {notice}");
            }
        }
        let may_act = self.membership.may_act();
        if events.is_empty() && self.has_followed && may_act != self.is_fenced {
            // Nothing is new of the members.
            if may_act {
                self.let_in();
            }
            return;
        }
        self.has_followed = true;
        self.board.renew();
        let seat = self.membership.seat().filter(|_| may_act);
        let Some(incarnation) = seat.map(|seat| seat.incarnation.0) else {
            return self.fence(carrier);
        };
        if incarnation == self.setup.incarnation && self.copies.is_released() {
            // Nobody may open the copy that is named still: it lacks what is acknowledged here.
            return;
        }
        self.come_back();
        let is_other = std::mem::replace(&mut self.setup.incarnation, incarnation) != incarnation;
        self.look_at_own_sessions();
        let members: Vec<Member> = self.membership.others().map(Member::of).collect();
        let is_gone = |slot: &&Slot| !members.iter().any(|member| member.slot == **slot);
        let gone: Vec<Slot> = self.peers.keys().filter(is_gone).copied().collect();
        gone.into_iter().for_each(|slot| self.miss(slot, carrier));
        if is_other {
            let all: Vec<Slot> = self.peers.keys().copied().collect();
            all.into_iter().for_each(|slot| self.lose(slot, carrier));
        }
        members.into_iter().for_each(|member| self.meet(member, carrier));
        self.let_in();
    }

    /// Clients are let in once the shards know what there is on all other nodes.
    fn let_in(&mut self) {
        let others: usize = self.peers.values().map(|peer| peer.member.shards.len()).sum();
        if self.lists.iter().any(|&lists| lists != others) || !self.may_acknowledge() {
            return;
        }
        if self.is_apart {
            // Its shards have not heard of the others.
            return;
        }
        if self.is_joining && self.awaits_stand_ins() {
            return;
        }
        self.await_no_more();
        self.look_for_absent();
        self.gate.open();
        self.say_joining(false);
        if std::mem::take(&mut self.is_fenced) {
            self.lease.set(self.membership.acts_until());
            tracing::info!("this node is a member of its cluster again");
        }
    }

    /// The shards are told whether all that they are to know of is here.
    fn say_joining(&mut self, is_joining: bool) {
        if std::mem::replace(&mut self.is_joining, is_joining) != is_joining {
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Joining(is_joining));
        }
    }

    /// This node may not act: its clients are to go where the others are.
    fn fence(&mut self, carrier: &mut impl Carrier) {
        self.say_joining(true);
        if !std::mem::replace(&mut self.is_fenced, true) {
            self.tell_lost();
            self.lease.set(None);
            self.board.count_fence();
            self.gate.wake();
        }
        self.await_no_more();
        let all: Vec<Slot> = self.peers.keys().copied().collect();
        all.into_iter().for_each(|slot| self.lose(slot, carrier));
        self.go_apart();
    }

    /// A node is a member.
    fn meet(&mut self, member: Member, carrier: &mut impl Carrier) {
        if self.peers.get(&member.slot).is_some_and(|peer| peer.member == member) {
            return;
        }
        let peer = self.peers.get_mut(&member.slot);
        let is_known = |peer: &&mut Peer| {
            peer.is_here
                && peer.missed_until.is_none()
                && peer.member.shards == member.shards
                && peer.link.is_with(member.incarnation)
        };
        if let Some(peer) = peer.filter(is_known) {
            // It has come before etcd has said so, and the shards know.
            tracing::info!(node = member.name, address = member.address, "a node is a member");
            let (search, addresses) = Search::new(&member.address);
            carrier.found(member.slot, &addresses);
            (peer.member, peer.search) = (member, search);
            return;
        }
        let is_back = self.is_waited_for(&member);
        match is_back {
            true => carrier.leave(member.slot),
            false => self.lose(member.slot, carrier),
        }
        let settings = LinkSettings {
            cluster: self.setup.cluster.clone(),
            own: self.setup.own,
            peer: member.slot,
            incarnation: self.setup.incarnation,
            window_bytes: LinkSettings::WINDOW_BYTES,
            frame_bytes_max: self.setup.frame_bytes_max,
        };
        tracing::info!(node = member.name, address = member.address, "a node is a member");
        let (search, addresses) = Search::new(&member.address);
        carrier.join(member.slot, NodeAddress { addresses, host: member.host.clone() });
        self.links += 1;
        let (slot, mut peer) = (member.slot, Peer::new(member, settings, search));
        peer.made = self.links;
        if is_back {
            peer.set_back();
        }
        self.peers.insert(slot, peer);
    }

    /// A node is not a member any more.
    fn lose(&mut self, slot: Slot, carrier: &mut impl Carrier) {
        let Some(peer) = self.peers.remove(&slot) else { return };
        carrier.leave(slot);
        self.look_for_absent();
        if peer.is_here {
            let shards = &peer.member.shards;
            tell_all(&mut self.mailbox, &self.setup.shards, || NodeNews::Lost(shards.clone()));
        }
        if peer.member.is_stand_in {
            tracing::info!(node = peer.member.name, "nobody stands in for a node any more");
            return;
        }
        tracing::warn!(node = peer.member.name, "a node is lost");
        if !self.is_fenced && peer.missed_until.is_none() {
            self.board.count_loss();
        }
    }

    /// Gives letters of shards to the links.
    fn take_letters(&mut self) {
        if !self.has_room() || !self.mailbox.look(LETTERS_MAX) {
            self.has_letters = false;
            return;
        }
        let Self { setup, mailbox, peers, lists, board, copies, .. } = self;
        self.has_letters = mailbox.receive(|_, from, letter| match letter {
            Letter::Far(to, mail) => {
                let from = ShardId(setup.shards.start + from as u16);
                if !push(peers, (from, to), &mail, setup.wall) {
                    board.count_unaddressed();
                }
            }
            Letter::Lists(count) => lists[from] = count,
            Letter::Sessions(count) => copies.note_sessions(from, count),
            Letter::Copy(copy, news) => copies.note(copy, news),
            _ => {}
        });
    }

    /// Whether all links have.
    fn has_room(&self) -> bool {
        self.peers.values().all(|peer| peer.link.has_room())
    }
}

/// Gives a letter to the link of the node that has its receiver. Says whether there is one: of a
/// node that is lost, whoever waits for it has been told.
fn push(
    peers: &mut BTreeMap<Slot, Peer>,
    (from, to): (ShardId, ShardId),
    mail: &Mail,
    wall: Wall,
) -> bool {
    let mut all = peers.values_mut();
    let Some(peer) = all.find(|peer| peer.member.shards.contains(&to.0)) else { return false };
    let is_known = u16::from(mail.version()) <= peer.member.letters;
    if !is_known || !peer.is_for_it(from, mail) {
        return true;
    }
    if peer.link.push(from, to, mail, wall) == Pushed::TooLong {
        tracing::error!(node = peer.member.name, "a letter is too long for any frame");
    }
    true
}

/// Tells all shards of this node.
fn tell_all(mailbox: &mut Mailbox<Letter>, shards: &Range<u16>, news: impl Fn() -> NodeNews) {
    (0..shards.len()).for_each(|shard| mailbox.send(shard, Letter::Node(news())));
}

impl weir_carrier::Post for Post {
    fn peer_up(&mut self, _out: &mut dyn Outlet, node: Slot) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.link.connected(Micros(now_us()));
        }
    }

    fn peer_down(&mut self, _out: &mut dyn Outlet, node: Slot, lost: Lost) {
        if let Some(peer) = self.peers.get_mut(&node) {
            tracing::warn!(node = peer.member.name, "the connection to a node is lost: {lost}");
            peer.link.disconnected();
        }
    }

    fn received(&mut self, out: &mut dyn Outlet, node: Slot, bytes: &[u8]) -> usize {
        let is_copied = self.membership.members().log_copy(node).is_some();
        let Self { setup, mailbox, peers, .. } = self;
        let Some(peer) = peers.get_mut(&node) else { return bytes.len() };
        if mailbox.unposted() > UNPOSTED_MAX {
            out.pause(node);
            peer.is_paused = true;
            return 0;
        }
        let Peer { link, member, is_here, is_back, knowing, .. } = peer;
        let own = &setup.shards;
        let mut delivery = Delivery { mailbox, own, member, is_here, is_back, knowing, is_copied };
        match link.received(bytes, Micros(now_us()), setup.wall, &mut delivery) {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(node = member.name, "the connection to a node is given up: {error}");
                out.renew(node);
                bytes.len()
            }
        }
    }

    fn turn_end(&mut self, out: &mut dyn Outlet) {
        self.mailbox.wake_up();
        self.take_letters();
        let now = Micros(now_us());
        self.is_posted = self.mailbox.post();
        let has_room = self.mailbox.unposted() <= UNPOSTED_MAX / 2;
        for (&node, peer) in &mut self.peers {
            if let Err(error) = peer.link.handle_timeout(now) {
                tracing::warn!(node = peer.member.name, "a node is silent: {error}");
                out.renew(node);
            }
            while out.has_room(node)
                && let Some(frame) = peer.link.flush(now)
            {
                out.send(node, frame);
            }
            self.is_posted &= peer.link.has_room();
            if has_room && std::mem::take(&mut peer.is_paused) {
                out.resume(node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use member::tests::peer;

    #[test]
    fn letters_are_kept_for_a_member_that_is_not_found_and_for_nobody_else() {
        let mut peers = BTreeMap::from([peer(3, "nowhere")]);
        let mail = Mail::Interest { filter: "a/b".into(), number: 1 };
        let mut push = |to| push(&mut peers, (ShardId(9), ShardId(to)), &mail, Wall(0));
        assert_eq!((push(3), push(4)), (true, false));
        assert_eq!(peers[&Slot(3)].link.letters(), 1);
    }

    #[test]
    fn what_a_shard_had_for_the_node_that_was_there_before_is_dropped() {
        let mut peers = BTreeMap::from([peer(3, "nowhere")]);
        peers.values_mut().for_each(Peer::set_back);
        let old = Mail::Interest { filter: "a/b".into(), number: 1 };
        let mut push = |from, mail| push(&mut peers, (ShardId(from), ShardId(3)), mail, Wall(0));
        assert!(push(8, &old) && push(9, &old));
        assert!(push(8, &Mail::Listing { number: 1 }) && push(9, &old) && push(8, &old));
        assert_eq!(peers[&Slot(3)].link.letters(), 2, "of the shard that knows of it");
    }
}
