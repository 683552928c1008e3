//! Two links and a network that cuts connections anywhere, also inside a frame, shows that to the
//! ends at different times, and may carry things twice. Nodes are started anew. What a
//! sender was not told to be lost comes once and in its order.

use crate::support::{Note, Notes, WALL, flush, letter, link, message, publish, push};
use std::collections::VecDeque;
use weir_chance::Chance;
use weir_cluster::{Link, Pushed};
use weir_core::Micros;
use weir_wire::QoS;

const SEEDS: u64 = 2000;
const STEPS: usize = 400;
const WINDOW: usize = 6_000;

/// One of the two nodes.
struct Node {
    link: Link,
    incarnation: u64,
    /// Whether it has a connection, as far as it knows.
    is_connected: bool,
    /// Whether it has said there who it is.
    has_greeted: bool,
    /// Bytes that came and were not taken.
    held: Vec<u8>,
    /// Letters that were kept for the other one, in all its lives.
    sent: Vec<u64>,
    next: u64,
    /// Up to here the link has said that letters may be lost, or the node is gone that had them.
    void: u64,
    /// The last that came from the other one.
    last: u64,
}

impl Node {
    fn new(own: u8) -> Self {
        Self {
            link: link(own, 1 - own, 1, WINDOW),
            incarnation: 1,
            is_connected: false,
            has_greeted: false,
            held: Vec::new(),
            sent: Vec::new(),
            next: 1,
            void: 0,
            last: 0,
        }
    }
}

struct World {
    seed: u64,
    chance: Chance,
    now: Micros,
    nodes: [Node; 2],
    /// Bytes on their way, by the node that has sent them.
    wires: [VecDeque<u8>; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            chance: Chance::new(seed),
            now: Micros(1),
            nodes: [Node::new(0), Node::new(1)],
            wires: [VecDeque::new(), VecDeque::new()],
        }
    }

    fn step(&mut self) {
        let at = self.chance.below(2);
        match self.chance.below(40) {
            0..12 => self.push(at),
            12..20 => self.flush(at),
            20..32 => {
                let bytes = self.chance.below(400);
                self.deliver(at, bytes);
            }
            32..34 => self.cut(at),
            34..37 => self.connect(),
            37..39 => self.wait(),
            _ if self.chance.below(4) == 0 => self.restart(at),
            _ => self.cut(at),
        }
    }

    /// Some letters of one turn.
    fn push(&mut self, at: usize) {
        let message = message(QoS::AtMostOnce, vec![7; self.chance.below(300)]);
        let (kind, count) = (self.chance.below(3), 1 + self.chance.below(4));
        let node = &mut self.nodes[at];
        for _ in 0..count {
            let number = node.next;
            node.next += 1;
            let mail = match kind {
                0 => letter(number),
                kind => publish(&message, number, kind == 1),
            };
            match push(&mut node.link, &mail) {
                Pushed::Kept => node.sent.push(number),
                Pushed::Dropped => assert!(kind == 2, "somebody waits for it"),
                Pushed::TooLong => panic!("it is short"),
            }
        }
    }

    fn flush(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if !node.is_connected {
            return;
        }
        let bytes = flush(&mut node.link, self.now);
        if std::mem::replace(&mut node.has_greeted, true) && self.chance.below(8) == 0 {
            self.wires[at].extend(&bytes);
        }
        self.wires[at].extend(bytes);
    }

    /// So many bytes of what this node has sent come to the other one.
    fn deliver(&mut self, from: usize, bytes: usize) {
        let bytes = bytes.min(self.wires[from].len());
        let came = self.wires[from].drain(..bytes);
        let node = &mut self.nodes[1 - from];
        if !node.is_connected {
            return;
        }
        node.held.extend(came);
        let held = std::mem::take(&mut node.held);
        let mut notes = Notes::default();
        let taken = node.link.received(&held, self.now, WALL, &mut notes);
        match taken {
            Ok(taken) => node.held = held[taken..].to_vec(),
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
        self.heed(1 - from, &notes);
    }

    /// What the node was told is as the other one has sent it.
    fn heed(&mut self, at: usize, notes: &Notes) {
        for note in &notes.0 {
            let [node, other] = self.nodes.get_disjoint_mut([at, 1 - at]).unwrap();
            match note {
                Note::Up(_) => {}
                Note::Reset(lost) => {
                    assert!(*lost <= node.sent.len() as u64, "seed {}", self.seed);
                    node.void = node.next - 1;
                }
                Note::Letter(number) => {
                    let seed = self.seed;
                    assert!(*number > node.last, "seed {seed}: {number} came after {}", node.last);
                    let is_owed = |sent: &&u64| {
                        (node.last + 1..*number).contains(*sent) && **sent > other.void
                    };
                    let missing = other.sent.iter().find(is_owed);
                    assert_eq!(missing, None, "seed {seed}: it is missing before {number}");
                    node.last = *number;
                }
            }
        }
    }

    /// One end hears that the connection is lost; what is on its way to the other may come still.
    fn cut(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.link.disconnected();
        node.held.clear();
        node.is_connected = false;
        self.wires[1 - at].clear();
    }

    /// A new connection, whatever the ends knew of the old one.
    fn connect(&mut self) {
        for (node, wire) in self.nodes.iter_mut().zip(&mut self.wires) {
            node.link.connected(self.now);
            node.held.clear();
            (node.is_connected, node.has_greeted) = (true, false);
            wire.clear();
        }
    }

    fn wait(&mut self) {
        let micros = [100, 20_000, 1_000_000][self.chance.below(3)];
        self.now = self.now + Micros(micros);
        for at in 0..2 {
            if self.nodes[at].link.handle_timeout(self.now).is_err() {
                self.cut(at);
            }
        }
    }

    /// The node is started anew, or only its link.
    fn restart(&mut self, at: usize) {
        self.cut(at);
        let node = &mut self.nodes[at];
        node.incarnation += self.chance.below(2) as u64;
        node.link = link(at as u8, 1 - at as u8, node.incarnation, WINDOW);
        node.void = node.next - 1;
    }

    /// Everything works again: all that is owed comes.
    fn heal(&mut self) {
        self.connect();
        for _ in 0..4 {
            for at in 0..2 {
                self.flush(at);
            }
            for at in 0..2 {
                self.deliver(at, usize::MAX);
            }
            self.now = self.now + Micros(50_000);
        }
        for at in 0..2 {
            let (node, other, seed) = (&self.nodes[at], &self.nodes[1 - at], self.seed);
            assert_eq!(node.link.letters(), 0, "seed {seed}: all is acknowledged");
            assert_eq!(node.link.bytes(), 0, "seed {seed}");
            let owed = node.sent.last().copied().filter(|sent| *sent > node.void);
            assert!(owed.is_none_or(|sent| sent == other.last), "seed {seed}: {owed:?} is owed");
        }
    }
}

#[test]
fn what_is_sent_comes_once_and_in_its_order_or_is_said_to_be_lost() {
    let (mut resent, mut doubles, mut resets, mut dropped, mut letters) = (0, 0, 0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.heal();
        for node in &world.nodes {
            let counts = node.link.counts();
            resent += counts.resent;
            doubles += counts.doubles;
            resets += counts.resets;
            dropped += counts.dropped;
            letters += counts.letters_in;
        }
    }
    // What a network that does nothing would not show.
    for (count, name) in [
        (resent, "resent"),
        (doubles, "doubles"),
        (resets, "resets"),
        (dropped, "dropped"),
        (letters / 10, "letters"),
    ] {
        assert!(count > SEEDS / 4, "{count} {name}");
    }
}
