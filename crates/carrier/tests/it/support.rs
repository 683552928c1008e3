//! Nodes that number the letters they send each other.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_carrier::{Carrier, Lost, NodeAddress, Outlet, Post};
use weir_cluster::{Inbox, Link, LinkSettings, Peer, Slot};
use weir_core::{Mail, Micros, ShardId, Wall};
use weir_reactor::now_us;

const WALL: Wall = Wall(0);

/// A node with one shard.
pub(crate) struct Node {
    carrier: Box<dyn Carrier>,
    pub(crate) desk: Desk,
}

impl Node {
    pub(crate) fn new(own: u8, incarnation: u64, carrier: impl Carrier + 'static) -> Self {
        let desk = Desk {
            own: Slot(own),
            incarnation,
            links: BTreeMap::new(),
            notes: BTreeMap::new(),
            downs: Vec::new(),
            renews: None,
            pauses: None,
        };
        Self { carrier: Box::new(carrier), desk }
    }

    pub(crate) fn join(&mut self, node: u8, at: NodeAddress) {
        let settings = LinkSettings {
            cluster: "lab".into(),
            own: self.desk.own,
            peer: Slot(node),
            incarnation: self.desk.incarnation,
            window_bytes: LinkSettings::WINDOW_BYTES,
            frame_bytes_max: LinkSettings::FRAME_BYTES_MAX,
        };
        self.desk.links.insert(Slot(node), Link::new(settings));
        self.carrier.join(Slot(node), at);
    }

    pub(crate) fn seeks(&self, node: u8) -> bool {
        self.carrier.seeks(Slot(node))
    }

    pub(crate) fn found(&mut self, node: u8, addresses: &[SocketAddr]) {
        self.carrier.found(Slot(node), addresses);
    }

    pub(crate) fn turn(&mut self) {
        self.carrier.turn(Some(Duration::from_millis(1)), &mut self.desk).unwrap();
    }

    /// Letters of these numbers and of so many bytes for that node.
    pub(crate) fn send(&mut self, to: u8, numbers: std::ops::RangeInclusive<u64>, bytes: usize) {
        let link = self.desk.links.get_mut(&Slot(to)).unwrap();
        for number in numbers {
            let mail = Mail::Interest { filter: "f".repeat(bytes).into(), number };
            let _ = link.push(ShardId(0), ShardId(1), &mail, WALL);
        }
    }

    /// The numbers that came from that node.
    pub(crate) fn came(&self, from: u8) -> &[u64] {
        self.desk.notes.get(&Slot(from)).map_or(&[], |notes| &notes.letters)
    }
}

/// Turns all nodes until `is_done`.
pub(crate) fn until(nodes: &mut [&mut Node], mut is_done: impl FnMut(&[&mut Node]) -> bool) {
    // Far too long to be met.
    let long = Duration::from_secs(60);
    let begun = Instant::now();
    while !is_done(nodes) {
        nodes.iter_mut().for_each(|node| node.turn());
        assert!(begun.elapsed() < long, "what is awaited does not come");
    }
}

/// What comes of a node that is paused waits, and comes in its order later.
pub(crate) fn check_pause(mut a: Node, mut b: Node) {
    b.send(0, 1..=1, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 1);
    a.desk.pauses = Some((Slot(1), true));
    a.turn();
    b.send(0, 2..=10, 10);
    a.send(1, 1..=10, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 10);
    b.send(0, 11..=20, 10);
    (0..20).for_each(|_| [&mut a, &mut b].into_iter().for_each(Node::turn));
    assert_eq!(a.came(1), [1]);
    a.desk.pauses = Some((Slot(1), false));
    b.send(0, 21..=30, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 30);
    assert_eq!(a.came(1), (1..=30).collect::<Vec<_>>());
}

/// What a node was told of another.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) letters: Vec<u64>,
    pub(crate) ups: u64,
    pub(crate) resets: u64,
}

impl Inbox for Notes {
    fn up(&mut self, _peer: Peer) {
        self.ups += 1;
    }

    fn reset(&mut self, _lost: u64) {
        self.resets += 1;
    }

    fn letter(&mut self, _from: ShardId, _to: ShardId, mail: Mail) {
        if let Mail::Interest { number, .. } = mail {
            self.letters.push(number);
        }
    }
}

/// The links of a node.
pub(crate) struct Desk {
    own: Slot,
    incarnation: u64,
    pub(crate) links: BTreeMap<Slot, Link>,
    pub(crate) notes: BTreeMap<Slot, Notes>,
    pub(crate) downs: Vec<(Slot, Lost)>,
    /// The connection with it is given up at the end of the turn.
    pub(crate) renews: Option<Slot>,
    /// Whether that one is not to be heard from the end of the turn on.
    pauses: Option<(Slot, bool)>,
}

impl Post for Desk {
    fn peer_up(&mut self, _out: &mut dyn Outlet, node: Slot) {
        self.links.get_mut(&node).unwrap().connected(Micros(now_us()));
    }

    fn peer_down(&mut self, _out: &mut dyn Outlet, node: Slot, lost: Lost) {
        self.links.get_mut(&node).unwrap().disconnected();
        self.downs.push((node, lost));
    }

    fn received(&mut self, out: &mut dyn Outlet, node: Slot, bytes: &[u8]) -> usize {
        let link = self.links.get_mut(&node).unwrap();
        let notes = self.notes.entry(node).or_default();
        link.received(bytes, Micros(now_us()), WALL, notes).unwrap_or_else(|_| {
            out.renew(node);
            bytes.len()
        })
    }

    fn turn_end(&mut self, out: &mut dyn Outlet) {
        if let Some(node) = self.renews.take() {
            self.links.get_mut(&node).unwrap().disconnected();
            out.renew(node);
        }
        match self.pauses.take() {
            Some((node, true)) => out.pause(node),
            Some((node, false)) => out.resume(node),
            None => {}
        }
        let now = Micros(now_us());
        for (node, link) in &mut self.links {
            if link.handle_timeout(now).is_err() {
                out.renew(*node);
            }
            while out.has_room(*node)
                && let Some(frame) = link.flush(now)
            {
                out.send(*node, frame);
            }
        }
    }
}

/// An authority that signs certificates of nodes.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `localhost` and its key.
    pub(crate) fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".into()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}
