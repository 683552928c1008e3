//! Frames over Zenoh, peer to peer and embedded, with threads of its own: one key for each pair of
//! nodes and direction. Nothing is scouted: the node of the higher slot connects to the other, as
//! with TCP. What a session loses, links notice by their numbers.
//!
//! A session knows the addresses of nodes when it is opened, so it is opened anew when one joins or
//! leaves. Links go on where they were.

mod inbox;
mod way;

use crate::backoff::Backoff;
use crate::port::{Carrier, Lost, NODES_MAX, NodeAddress, Outlet, Post, are_same};
use inbox::{Came, Inbox};
use serde_json::json;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use way::{HEAD_BYTES, Heard, Way, Word};
use weir_cluster::{SLOTS, Slot};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Waker, now_us};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;

/// Puts that are taken in one turn, so that what leaves is not kept waiting.
const PUTS_MAX: usize = 256;

/// What this node is to others.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the cluster: letters, digits, `-`, `_` and `.`.
    pub cluster: String,
    /// Its slot.
    pub own: Slot,
    /// Where others connect.
    pub listen: SocketAddr,
    /// How connections are encrypted, if they are.
    pub tls: Option<TlsFiles>,
}

/// Files in PEM for TLS, in which each node shows a certificate.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign those of nodes.
    pub authorities: PathBuf,
    /// This node's own, with those between.
    pub own: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ZenohError {
    /// No key can have it.
    #[error(
        "{0:?} is no name of a cluster over Zenoh: use letters, digits, \"-\", \"_\" and \".\""
    )]
    Cluster(String),
    /// What the system says of the thread's own means.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The carrier.
pub struct Zenoh {
    settings: Settings,
    /// What the thread waits in; it has no connections.
    reactor: Reactor,
    inbox: Arc<Inbox>,
    came: std::sync::mpsc::Receiver<Came>,
    open: Option<Open>,
    /// When to open a session, if there is to be another one.
    open_us: Option<u64>,
    backoff: Backoff,
    nodes: [Option<Node>; NODES_MAX],
}

/// A session.
struct Open {
    session: zenoh::Session,
    publishers: [Option<Publisher<'static>>; NODES_MAX],
    _subscriber: Subscriber<()>,
}

/// A node that belongs to the cluster.
struct Node {
    at: NodeAddress,
    way: Way,
    is_paused: bool,
    /// What came meanwhile.
    held: VecDeque<ZBytes>,
}

impl Zenoh {
    /// Knows no other node. `waker` wakes the thread.
    ///
    /// # Errors
    /// A name that no key can have; what the system says of epoll.
    pub fn new(settings: Settings, waker: Waker) -> Result<Self, ZenohError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if settings.cluster.is_empty() || !settings.cluster.chars().all(is_plain) {
            return Err(ZenohError::Cluster(settings.cluster));
        }
        let (inbox, came) = Inbox::new(waker.clone());
        Ok(Self {
            settings,
            reactor: Reactor::with_waker(waker)?,
            inbox: Arc::new(inbox),
            came,
            open: None,
            open_us: Some(0),
            backoff: Backoff::new(),
            nodes: [const { None }; NODES_MAX],
        })
    }

    fn node_mut(&mut self, node: Slot) -> Option<&mut Node> {
        self.nodes.get_mut(usize::from(node.0))?.as_mut()
    }

    /// Opens a session with all nodes that there are, instead of the one that there was.
    fn reopen(&mut self, now_us: u64) {
        if self.open_us.is_none_or(|open_us| open_us > now_us) {
            return;
        }
        self.open_us = None;
        if let Some(open) = self.open.take()
            && let Err(error) = open.session.close().wait()
        {
            tracing::debug!(%error, "a session of Zenoh has not ended well");
        }
        match Open::new(&self.settings, &self.nodes, &self.inbox) {
            Ok(open) => {
                self.open = Some(open);
                self.backoff.made(now_us);
            }
            Err(error) => {
                tracing::warn!(%error, "no session of Zenoh can be opened; trying again");
                self.open_us = Some(self.backoff.lost(now_us));
            }
        }
    }

    fn poll_timeout(&self) -> Option<u64> {
        let asks = self.nodes.iter().flatten().filter_map(|node| node.way.ask_us());
        asks.chain(self.open_us).min()
    }

    fn ask(&mut self, now_us: u64) {
        for at in 0..NODES_MAX {
            let Some(node) = &mut self.nodes[at] else { continue };
            if node.way.ask_us().is_some_and(|at_us| at_us <= now_us) {
                // A hasher of the standard library has keys that nobody knows.
                let number = RandomState::new().hash_one(now_us);
                let said = node.way.ask(number, now_us);
                self.say(Slot(at as u8), said, &[]);
            }
        }
    }

    /// Puts a word for the node, with what follows it.
    fn say(&self, node: Slot, said: Option<(Word, u64)>, frames: &[u8]) {
        let Some((word, number)) = said else { return };
        let publisher = self
            .open
            .as_ref()
            .and_then(|open| open.publishers.get(usize::from(node.0)).and_then(Option::as_ref));
        let Some(publisher) = publisher else { return };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + frames.len());
        bytes.extend(word.head(number));
        bytes.extend_from_slice(frames);
        if let Err(error) = publisher.put(bytes).wait() {
            tracing::debug!(node = node.0, %error, "Zenoh takes no frame");
        }
    }

    /// Takes what came from a node, behind what is held of it.
    fn receive(&mut self, from: Slot, bytes: ZBytes, post: &mut dyn Post) {
        match self.node_mut(from) {
            Some(node) if node.is_held() => node.held.push_back(bytes),
            _ => self.take(from, &bytes, post),
        }
    }

    /// Hands over what was held of nodes that are to be heard again.
    fn release(&mut self, post: &mut dyn Post) {
        for node in (0..SLOTS).map(Slot) {
            while let Some(known) = self.node_mut(node).filter(|node| !node.is_paused)
                && let Some(bytes) = known.held.pop_front()
            {
                self.take(node, &bytes, post);
            }
        }
    }

    fn take(&mut self, from: Slot, bytes: &ZBytes, post: &mut dyn Post) {
        self.inbox.taken(bytes.len());
        let put = bytes.to_bytes();
        let Some((word, number, frames)) = Word::split(&put) else { return };
        let Some(node) = self.node_mut(from) else { return };
        let (heard, answer) = node.way.hear(word, number, now_us());
        self.say(from, answer, &[]);
        match heard {
            Heard::Nothing => {}
            Heard::Up(is_other) => {
                if is_other {
                    post.peer_down(self, from, Lost::Replaced);
                }
                post.peer_up(self, from);
            }
            Heard::Down => post.peer_down(self, from, Lost::Closed(Closed::ByPeer)),
            Heard::Frames => {
                if post.received(self, from, frames) < frames.len() {
                    // A put is of whole frames.
                    self.renew(from);
                    post.peer_down(self, from, Lost::Closed(Closed::ByPeer));
                }
            }
        }
    }
}

impl Node {
    /// Whether what comes has to wait.
    fn is_held(&self) -> bool {
        self.is_paused || !self.held.is_empty()
    }
}

impl Carrier for Zenoh {
    fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    fn join(&mut self, node: Slot, at: NodeAddress) {
        let asks = node < self.settings.own;
        if node != self.settings.own
            && let Some(free) = self.nodes.get_mut(usize::from(node.0))
        {
            let way = Way::new(asks, now_us());
            *free = Some(Node { at, way, is_paused: false, held: VecDeque::new() });
            self.open_us = Some(now_us());
        }
    }

    fn seeks(&self, node: Slot) -> bool {
        let known = self.nodes.get(usize::from(node.0)).and_then(Option::as_ref);
        node < self.settings.own && known.is_some_and(|node| node.way.number().is_none())
    }

    fn found(&mut self, node: Slot, addresses: &[SocketAddr]) {
        let seeks = self.seeks(node);
        let Some(known) = self.node_mut(node) else { return };
        if !are_same(&known.at.addresses, addresses) {
            known.at.addresses = addresses.to_vec();
            if seeks {
                self.open_us = Some(now_us());
            }
        }
    }

    fn leave(&mut self, node: Slot) {
        if let Some(node) = self.nodes.get_mut(usize::from(node.0)).and_then(Option::take) {
            node.held.iter().for_each(|bytes| self.inbox.taken(bytes.len()));
            self.open_us = Some(now_us());
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, post: &mut dyn Post) -> io::Result<()> {
        self.reopen(now_us());
        self.ask(now_us());
        let until = |due_us: u64| Duration::from_micros(due_us.saturating_sub(now_us()));
        let mut timeout = timeout.into_iter().chain(self.poll_timeout().map(until)).min();
        let is_released = |node: &Node| !node.is_paused && !node.held.is_empty();
        if self.nodes.iter().flatten().any(is_released) || !self.inbox.fall_asleep() {
            timeout = Some(Duration::ZERO);
        }
        self.reactor.turn(timeout, &mut Nobody)?;
        self.inbox.wake_up();
        self.release(post);
        for _ in 0..PUTS_MAX {
            let Ok((from, bytes)) = self.came.try_recv() else { break };
            self.inbox.received();
            self.receive(from, bytes, post);
        }
        post.turn_end(self);
        Ok(())
    }
}

impl Outlet for Zenoh {
    fn send(&mut self, node: Slot, frames: &[u8]) {
        let number = self.node_mut(node).and_then(|node| node.way.number());
        self.say(node, number.map(|number| (Word::Frames, number)), frames);
    }

    /// Zenoh's own queues are short, and who puts waits for them.
    fn has_room(&self, node: Slot) -> bool {
        let node = self.nodes.get(usize::from(node.0)).and_then(Option::as_ref);
        node.is_some_and(|node| node.way.number().is_some())
    }

    fn renew(&mut self, node: Slot) {
        let said = self.node_mut(node).and_then(|node| node.way.give_up(now_us()));
        self.say(node, said, &[]);
    }

    fn pause(&mut self, node: Slot) {
        if let Some(node) = self.node_mut(node) {
            node.is_paused = true;
        }
    }

    fn resume(&mut self, node: Slot) {
        if let Some(node) = self.node_mut(node) {
            node.is_paused = false;
        }
    }
}

impl Open {
    fn new(
        settings: &Settings,
        nodes: &[Option<Node>; NODES_MAX],
        inbox: &Arc<Inbox>,
    ) -> zenoh::Result<Self> {
        let session = zenoh::open(config(settings, nodes)?).wait()?;
        let Settings { cluster, own, .. } = settings;
        let mut publishers = [const { None }; NODES_MAX];
        for (at, node) in nodes.iter().enumerate() {
            if node.is_some() {
                let key = format!("weir/{cluster}/{}/{at}", own.0);
                let publisher = session.declare_publisher(key);
                let publisher = publisher.congestion_control(CongestionControl::Block).wait()?;
                publishers[at] = Some(publisher);
            }
        }
        let inbox = Arc::clone(inbox);
        let subscriber = session.declare_subscriber(format!("weir/{cluster}/*/{}", own.0));
        let subscriber = subscriber.callback(move |sample| {
            let from = sample.key_expr().as_str().split('/').nth(2);
            let from = from.and_then(|from| from.parse().ok()).map(Slot);
            if let Some(from) = from {
                inbox.put(from, sample.payload().clone());
            }
        });
        Ok(Self { publishers, _subscriber: subscriber.wait()?, session })
    }
}

/// Endpoints and certificates; nothing is looked for, and nothing else is served.
fn config(settings: &Settings, nodes: &[Option<Node>; NODES_MAX]) -> zenoh::Result<zenoh::Config> {
    let scheme = if settings.tls.is_some() { "tls" } else { "tcp" };
    let lower = nodes.iter().take(usize::from(settings.own.0)).flatten();
    let endpoint = |host: &str, address: &SocketAddr| match settings.tls {
        // The name is what the certificate is for.
        Some(_) => format!("{scheme}/{host}:{}", address.port()),
        None => format!("{scheme}/{address}"),
    };
    let of_node = |node: &Node| {
        let NodeAddress { addresses, host } = &node.at;
        addresses.iter().map(|address| endpoint(host, address)).collect::<Vec<_>>()
    };
    let connect: Vec<String> = lower.flat_map(of_node).collect();
    let mut config = zenoh::Config::default();
    let mut set = |key: &str, value: serde_json::Value| {
        config.insert_json5(key, &value.to_string()).map_err(|error| format!("{key}: {error}"))
    };
    set("mode", json!("peer"))?;
    set("scouting/multicast/enabled", json!(false))?;
    set("scouting/gossip/enabled", json!(false))?;
    set("listen/endpoints", json!([format!("{scheme}/{}", settings.listen)]))?;
    set("connect/endpoints", json!(connect))?;
    set("connect/timeout_ms", json!(-1))?;
    set("connect/exit_on_failure", json!(false))?;
    let retry = json!({
        "period_init_ms": 50,
        "period_max_ms": 1000,
        "period_increase_factor": 2.0,
    });
    set("connect/retry", retry)?;
    if let Some(TlsFiles { authorities, own, key }) = &settings.tls {
        set("transport/link/tls/root_ca_certificate", json!(authorities))?;
        for side in ["listen", "connect"] {
            set(&format!("transport/link/tls/{side}_certificate"), json!(own))?;
            set(&format!("transport/link/tls/{side}_private_key"), json!(key))?;
        }
        set("transport/link/tls/enable_mtls", json!(true))?;
    }
    Ok(config)
}

/// The thread's reactor has no connections, and is only woken.
struct Nobody;

impl Handler for Nobody {
    fn received(&mut self, _io: &mut Io, _token: Token, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn closed(&mut self, _io: &mut Io, _token: Token, _cause: Closed) {}

    fn turn_end(&mut self, _io: &mut Io) {}
}
