//! What others may know of the cluster, and what they may have done to it. The post says how things
//! stand once a second, and when the members have changed; whoever wants to know reads that.

use super::copies::PostCopies;
use super::lease::Lease;
use super::member::Peer;
use crate::cluster::{ClusterConfig, Membership};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use weir_cluster::{CopyState, Event, Link, Members, Node, NotForgotten, Place, Slot};
use weir_control::{
    Cluster, ClusterLink, ClusterNode, Forgotten, NodeCopy, NodeCopyState, NodeState,
};
use weir_core::{Mail, Micros};
use weir_reactor::{Waker, now_us};

/// How often it is said without news.
const EVERY: Micros = Micros(1_000_000);

/// Orders that wait for the post. Beyond, it is busy.
const ORDERS_MAX: usize = 16;

/// How long it tries to do what it was ordered.
const ORDER_MAX: Micros = Micros(5_000_000);

/// That the place of a node be free.
struct Order {
    name: String,
    said: Forgotten,
    until: Micros,
    /// The agreement was asked.
    is_asked: bool,
}

/// What the control thread has of it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterWatch {
    seen: Arc<Mutex<Cluster>>,
    lease: Arc<Lease>,
    serves_minority: bool,
    orders: SyncSender<Order>,
    waker: Waker,
}

/// What the post has.
pub(crate) struct Board {
    seen: Arc<Mutex<Cluster>>,
    orders: Receiver<Order>,
    /// Those that are not done.
    open: Vec<Order>,
    /// Those that are, and of which nobody was told: what is shown has it first.
    done: Vec<(Forgotten, Result<(), weir_control::NotForgotten>)>,
    /// How the others were last, and since when.
    states: HashMap<Slot, (NodeState, Micros)>,
    begun: Micros,
    fences: u64,
    nodes_lost: u64,
    unaddressed: u64,
    due: Micros,
}

/// Both ends of it. The post has the waker.
pub(crate) fn board(
    config: &ClusterConfig,
    lease: Arc<Lease>,
    waker: Waker,
) -> (ClusterWatch, Board) {
    let seen = Arc::new(Mutex::new(Cluster {
        name: config.name.clone(),
        node: config.node(),
        letters: Mail::VERSION.into(),
        ..Cluster::default()
    }));
    let (orders, ordered) = sync_channel(ORDERS_MAX);
    let board = Board {
        seen: Arc::clone(&seen),
        orders: ordered,
        open: Vec::new(),
        done: Vec::new(),
        states: HashMap::new(),
        begun: Micros(now_us()),
        fences: 0,
        nodes_lost: 0,
        unaddressed: 0,
        due: Micros(0),
    };
    let serves_minority = config.serves_minority();
    (ClusterWatch { seen, lease, serves_minority, orders, waker }, board)
}

impl ClusterWatch {
    /// The cluster as it was last said to be, and the lease as it is.
    pub(crate) fn cluster(&self) -> Cluster {
        let cluster = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lease_ms = self.lease.left_us(now_us()) / 1_000;
        let fenced = self.is_fenced();
        Cluster { lease_ms, fenced, minority: fenced && self.serves_minority, ..cluster }
    }

    /// Whether this node may not act.
    pub(crate) fn is_fenced(&self) -> bool {
        self.lease.is_over(now_us())
    }

    /// Has the place of a node be free.
    pub(crate) fn forget(&self, name: &str, said: Forgotten) {
        let until = Micros(now_us()) + ORDER_MAX;
        let order = Order { name: name.to_owned(), said, until, is_asked: false };
        match self.orders.try_send(order) {
            Ok(()) => self.waker.wake(),
            Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => {
                (order.said)(Err(weir_control::NotForgotten::Busy));
            }
        }
    }
}

impl Board {
    /// The members are others: this is said at once.
    pub(super) fn renew(&mut self) {
        self.due = Micros(0);
    }

    pub(super) fn count_fence(&mut self) {
        self.fences += 1;
        self.renew();
    }

    pub(super) fn count_loss(&mut self) {
        self.nodes_lost += 1;
    }

    /// A letter is dropped, since no member has the shard that it is for.
    pub(super) fn count_unaddressed(&mut self) {
        self.unaddressed += 1;
    }

    /// Does what was ordered, as far as it can be now. What happens of it is added to the events.
    pub(super) fn obey(&mut self, membership: &mut Membership, events: &mut Vec<Event>) {
        self.open.extend(self.orders.try_iter());
        if self.open.is_empty() {
            return;
        }
        let now = Micros(now_us());
        for mut order in std::mem::take(&mut self.open) {
            let done = match membership.forget(&order.name, events) {
                Ok(()) => {
                    order.is_asked = true;
                    None
                }
                Err(NotForgotten::Busy) => {
                    (order.until <= now).then_some(Err(weir_control::NotForgotten::Busy))
                }
                Err(NotForgotten::Unknown) if order.is_asked => Some(Ok(())),
                Err(NotForgotten::Unknown) => Some(Err(weir_control::NotForgotten::Unknown)),
                Err(NotForgotten::IsMember) => Some(Err(weir_control::NotForgotten::IsMember)),
            };
            match done {
                None => self.open.push(order),
                Some(done) => {
                    if done.is_ok() {
                        tracing::info!(node = order.name, "the place of a node is free");
                    }
                    self.done.push((order.said, done));
                    self.renew();
                }
            }
        }
    }

    /// Says how things stand, if that is due.
    pub(super) fn show(
        &mut self,
        membership: &Membership,
        peers: &BTreeMap<Slot, Peer>,
        copies: &PostCopies,
    ) {
        let now = Micros(now_us());
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let members = membership.members();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let member = |slot| members.nodes().find(|node| node.place.slot == slot);
        let away = members.places().filter(|place| member(place.slot).is_none());
        let all = members.nodes().map(|node| &node.place).chain(away);
        let mut nodes: Vec<ClusterNode> = all
            .map(|place| {
                let node = member(place.slot);
                let peer = node.and_then(|node| peers.get(&node.place.slot));
                let state = match (node, peer) {
                    _ if place.name == seen.node => NodeState::Own,
                    (Some(node), _) if node.is_stand_in => NodeState::StandIn,
                    (Some(_), Some(peer)) if peer.link.is_up() => NodeState::Up,
                    (Some(_), _) => NodeState::Down,
                    (None, _) => NodeState::Away,
                };
                // This node is what it is since it was started.
                let begun = if state == NodeState::Own { self.begun } else { now };
                let known = self.states.entry(place.slot).or_insert((state, begun));
                if known.0 != state {
                    *known = (state, begun);
                }
                let since = Micros(now.0.saturating_sub(known.1.0));
                let shown = shown(place, node, (state, since), peer);
                ClusterNode { copy: copy_of(members, place, node), ..shown }
            })
            .collect();
        nodes.sort_by_key(|node| node.slot);
        self.states.retain(|slot, _| nodes.iter().any(|node| node.slot == slot.0));
        seen.nodes = nodes;
        (seen.fences, seen.nodes_lost) = (self.fences, self.nodes_lost);
        seen.unaddressed = self.unaddressed;
        (seen.copies, seen.copies_failed) = copies.own(now);
        seen.kept = copies.kept();
        drop(seen);
        self.done.drain(..).for_each(|(said, done)| said(done));
    }
}

fn shown(
    place: &Place,
    node: Option<&Node>,
    (state, since): (NodeState, Micros),
    peer: Option<&Peer>,
) -> ClusterNode {
    let failure = peer.and_then(|peer| peer.search.failure());
    ClusterNode {
        name: place.name.clone(),
        slot: place.slot.0,
        first_shard: place.first_shard,
        shards: place.shards,
        state,
        state_s: since.0 / 1_000_000,
        address: node.map(|node| node.address.clone()),
        incarnation: node.map(|node| node.incarnation.0),
        letters: node.map(|node| node.letters),
        copy: None,
        unresolved: failure.filter(|_| state == NodeState::Down).map(str::to_owned),
        link: peer.map(|peer| shown_link(&peer.link)),
    }
}

/// Who has a copy of the log of a node that has a place.
fn copy_of(members: &Members, place: &Place, node: Option<&Node>) -> Option<NodeCopy> {
    let copy = members.log_copy(place.slot)?;
    // What an earlier membership has said of itself does not count for a node that is back.
    let is_of_it = |node: &Node| node.is_stand_in || node.incarnation == copy.owner;
    if !node.is_none_or(is_of_it) {
        return None;
    }
    let keepers = copy.keepers.iter().filter_map(|&seat| members.holder_of(seat));
    let keepers = keepers.map(|node| node.place.name.clone()).collect();
    let state = match copy.state {
        CopyState::Kept => NodeCopyState::Kept,
        CopyState::Opened => NodeCopyState::Opened,
        CopyState::Void => NodeCopyState::Void,
    };
    Some(NodeCopy { keepers, state })
}

fn shown_link(link: &Link) -> ClusterLink {
    let counts = link.counts();
    ClusterLink {
        waiting_letters: link.letters(),
        waiting_bytes: link.bytes() as u64,
        letters_out: counts.letters_out,
        letters_in: counts.letters_in,
        bytes_out: counts.bytes_out,
        bytes_in: counts.bytes_in,
        resent: counts.resent,
        doubles: counts.doubles,
        dropped: counts.dropped,
        too_long: counts.too_long,
        resets: counts.resets,
    }
}
