//! A connection of TCP, or of TLS over it, with each node, on the reactor of the thread that has
//! the links: a frame passes no other thread.
//!
//! Of two nodes the one of the higher slot connects to the other. Who has connected is known by
//! the Hello of its link, which comes first.

mod tls;

pub use tls::Tls;

use crate::backoff::Backoff;
use crate::port::{Carrier, Lost, NODES_MAX, NodeAddress, Outlet, Post, are_same};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use weir_cluster::{Slot, slot_of};
use weir_reactor::{Closed, Handler, Io, ListenerId, Reactor, Token, Transport, Waker, now_us};

/// How long a connection may take to be made, with its transport; and who has connected, to say who
/// it is.
const GREET_MAX_US: u64 = 5_000_000;

/// Connections of whom nobody knows yet; the oldest is cut for another.
const STRANGERS_MAX: usize = 64;

/// Output that waits for a node; what comes beyond waits with its link, where it is counted.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// What this node is to others.
#[derive(Debug)]
pub struct Settings {
    /// Its slot.
    pub own: Slot,
    /// Where others connect.
    pub listener: TcpListener,
    /// How connections are encrypted, if they are. Without it everybody who reaches the listener
    /// can say that they are a node.
    pub tls: Option<Tls>,
}

/// The carrier.
pub struct Tcp {
    reactor: Reactor,
    net: Net,
}

impl Tcp {
    /// Listens, and knows no other node. `waker` wakes the thread.
    ///
    /// # Errors
    /// What the system says of epoll and of the listener.
    pub fn new(settings: Settings, waker: Waker) -> io::Result<Self> {
        let Settings { own, listener, tls } = settings;
        let mut reactor = Reactor::with_waker(waker)?;
        let transport = tls.as_ref().map_or(Transport::Plain, Tls::to_listener);
        reactor.listen(ListenerId(0), listener, transport)?;
        let nodes = [const { None }; NODES_MAX];
        Ok(Self { reactor, net: Net { own, tls, nodes, strangers: Vec::new() } })
    }
}

impl Carrier for Tcp {
    fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    fn join(&mut self, node: Slot, at: NodeAddress) {
        self.leave(node);
        let Self { net, .. } = self;
        let connects = node < net.own;
        let transport = match &net.tls {
            Some(tls) if connects => tls.to_node(&at.host),
            _ => Some(Transport::Plain),
        };
        let Some(transport) = transport else {
            let (node, host) = (node.0, at.host);
            tracing::error!(node, host, "no certificate can be for the host of this node");
            return;
        };
        if let Some(free) = net.nodes.get_mut(usize::from(node.0)).filter(|_| node != net.own) {
            *free = Some(Node {
                addresses: Vec::new(),
                tries: 0,
                transport,
                connects,
                token: None,
                is_up: false,
                due_us: None,
                backoff: Backoff::new(),
            });
        }
        self.found(node, &at.addresses);
    }

    fn seeks(&self, node: Slot) -> bool {
        self.net.node(node).is_some_and(|node| node.connects && !node.is_up)
    }

    fn found(&mut self, node: Slot, addresses: &[SocketAddr]) {
        let Some(node) = self.net.node_mut(node) else { return };
        if let Some(token) = node.move_to(addresses, now_us()) {
            self.reactor.io().abort(token);
        }
    }

    fn leave(&mut self, node: Slot) {
        let node = self.net.nodes.get_mut(usize::from(node.0)).and_then(Option::take);
        if let Some(token) = node.and_then(|node| node.token) {
            self.reactor.io().abort(token);
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, post: &mut dyn Post) -> io::Result<()> {
        let Self { reactor, net } = self;
        let until = |due_us: u64| Duration::from_micros(due_us.saturating_sub(now_us()));
        let timeout = timeout.into_iter().chain(net.poll_timeout().map(until)).min();
        reactor.turn(timeout, &mut Turn { net, post })?;
        net.handle_timeout(reactor.io(), now_us());
        Ok(())
    }
}

/// A node that belongs to the cluster.
struct Node {
    /// The best first; none while they are not known.
    addresses: Vec<SocketAddr>,
    /// Counts those that led nowhere: the next one is tried.
    tries: usize,
    transport: Transport,
    /// Whether it is this node that connects.
    connects: bool,
    token: Option<Token>,
    /// Whether frames pass.
    is_up: bool,
    /// When to connect, or to give up to do so.
    due_us: Option<u64>,
    backoff: Backoff,
}

impl Node {
    /// Where it is to be found next.
    fn address(&self) -> Option<SocketAddr> {
        self.addresses.get(self.tries % self.addresses.len().max(1)).copied()
    }

    /// It has these addresses now. Gives the try that is to end, since it goes to another one.
    fn move_to(&mut self, addresses: &[SocketAddr], now_us: u64) -> Option<Token> {
        if are_same(&self.addresses, addresses) {
            return None;
        }
        let tried = self.address();
        let at = addresses.iter().position(|it| Some(*it) == tried);
        (self.addresses, self.tries) = (addresses.to_vec(), at.unwrap_or(0));
        if !self.connects || self.is_up || at.is_some() {
            return None;
        }
        (self.due_us, self.backoff) = (Some(now_us), Backoff::new());
        self.token.take()
    }

    fn made(&mut self, now_us: u64) {
        (self.is_up, self.due_us) = (true, None);
        self.backoff.made(now_us);
    }

    fn lost(&mut self, now_us: u64) {
        if !self.is_up {
            self.tries += 1;
        }
        (self.token, self.is_up) = (None, false);
        let again_us = self.backoff.lost(now_us);
        self.due_us = self.connects.then_some(again_us);
    }
}

/// All connections.
struct Net {
    own: Slot,
    tls: Option<Tls>,
    nodes: [Option<Node>; NODES_MAX],
    /// Who has connected and not said who it is, the oldest first, and how long each may take.
    strangers: Vec<(Token, u64)>,
}

impl Net {
    fn node(&self, node: Slot) -> Option<&Node> {
        self.nodes.get(usize::from(node.0))?.as_ref()
    }

    fn node_mut(&mut self, node: Slot) -> Option<&mut Node> {
        self.nodes.get_mut(usize::from(node.0))?.as_mut()
    }

    /// Whose connection it is.
    fn owner(&self, token: Token) -> Option<Slot> {
        let is_its = |node: &Option<Node>| node.as_ref().is_some_and(|it| it.token == Some(token));
        self.nodes.iter().position(is_its).map(|at| Slot(at as u8))
    }

    /// The connection of a node with which frames pass.
    fn token(&self, node: Slot) -> Option<Token> {
        self.node(node).filter(|node| node.is_up)?.token
    }

    fn poll_timeout(&self) -> Option<u64> {
        let nodes = self.nodes.iter().flatten().filter_map(|node| node.due_us);
        nodes.chain(self.strangers.first().map(|(_, due_us)| *due_us)).min()
    }

    fn handle_timeout(&mut self, io: &mut Io, now_us: u64) {
        while let Some(&(token, due_us)) = self.strangers.first()
            && due_us <= now_us
        {
            self.strangers.remove(0);
            io.abort(token);
        }
        for node in self.nodes.iter_mut().flatten() {
            if node.due_us.is_none_or(|due_us| due_us > now_us) {
                continue;
            }
            if let Some(token) = node.token {
                io.abort(token);
                node.lost(now_us);
                continue;
            }
            let Some(address) = node.address() else {
                node.due_us = None;
                continue;
            };
            match io.connect(&node.transport, address, None) {
                Ok(token) => {
                    (node.token, node.due_us) = (Some(token), Some(now_us + GREET_MAX_US));
                }
                Err(error) => {
                    tracing::debug!(%address, %error, "cannot connect to a node");
                    node.lost(now_us);
                }
            }
        }
    }
}

/// The post's hold on connections.
struct Way<'a> {
    net: &'a mut Net,
    io: &'a mut Io,
}

impl Outlet for Way<'_> {
    fn send(&mut self, node: Slot, frames: &[u8]) {
        if let Some(token) = self.net.token(node) {
            self.io.write(token, frames);
        }
    }

    fn has_room(&self, node: Slot) -> bool {
        let token = self.net.token(node);
        token.is_some_and(|token| self.io.pending(token) < OUTPUT_BYTES_MAX)
    }

    fn renew(&mut self, node: Slot) {
        let Some(node) = self.net.node_mut(node) else { return };
        if let Some(token) = node.token {
            self.io.abort(token);
            node.lost(now_us());
        }
    }

    fn pause(&mut self, node: Slot) {
        if let Some(token) = self.net.token(node) {
            self.io.pause(token);
        }
    }

    fn resume(&mut self, node: Slot) {
        if let Some(token) = self.net.token(node) {
            self.io.resume(token);
        }
    }
}

/// What the reactor tells, and to whom.
struct Turn<'a> {
    net: &'a mut Net,
    post: &'a mut dyn Post,
}

impl Turn<'_> {
    /// Who has connected may say who it is.
    fn greet(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let (own, net) = (self.net.own, &mut *self.net);
        let found = match slot_of(bytes) {
            Ok(None) => return 0,
            Ok(Some(slot)) => {
                // One that is not known yet comes again.
                let is_expected = slot > own && net.node(slot).is_some();
                is_expected.then_some(slot).ok_or_else(|| {
                    format!("no member is known here that has slot {} and connects", slot.0)
                })
            }
            Err(error) => Err(error.to_string()),
        };
        net.strangers.retain(|(other, _)| *other != token);
        let node = match found {
            Ok(node) => node,
            Err(error) => {
                let peer = io.peer(token);
                // A node that is a member for longer than this knows, too: it comes again.
                tracing::info!(?peer, error, "whoever has connected as a node is refused");
                io.abort(token);
                return bytes.len();
            }
        };
        if let Some(old) = net.token(node) {
            io.abort(old);
            self.post.peer_down(&mut Way { net, io }, node, Lost::Replaced);
        }
        if let Some(known) = self.net.node_mut(node) {
            known.token = Some(token);
            known.made(now_us());
        }
        self.post.peer_up(&mut Way { net: self.net, io }, node);
        self.received(io, token, bytes)
    }
}

impl Handler for Turn<'_> {
    fn accepted(&mut self, io: &mut Io, token: Token, _by: ListenerId, _peer: SocketAddr) {
        let strangers = &mut self.net.strangers;
        if strangers.len() >= STRANGERS_MAX {
            io.abort(strangers.remove(0).0);
        }
        strangers.push((token, now_us() + GREET_MAX_US));
    }

    fn connected(&mut self, io: &mut Io, token: Token) {
        let Some(node) = self.net.owner(token) else { return };
        if let Some(known) = self.net.node_mut(node) {
            known.made(now_us());
        }
        self.post.peer_up(&mut Way { net: self.net, io }, node);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if let Some(node) = self.net.owner(token) {
            return self.post.received(&mut Way { net: self.net, io }, node, bytes);
        }
        let is_stranger = self.net.strangers.iter().any(|(other, _)| *other == token);
        if is_stranger { self.greet(io, token, bytes) } else { bytes.len() }
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        self.net.strangers.retain(|(other, _)| *other != token);
        let Some(node) = self.net.owner(token) else { return };
        let Some(known) = self.net.node_mut(node) else { return };
        let (was_up, lost) = (known.is_up, Lost::Closed(cause));
        known.lost(now_us());
        if was_up {
            self.post.peer_down(&mut Way { net: self.net, io }, node, lost);
        } else {
            tracing::debug!(node = node.0, cause = %lost, "a node cannot be reached");
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.post.turn_end(&mut Way { net: self.net, io });
    }
}
