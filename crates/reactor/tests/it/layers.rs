//! Connections with layers between the socket and the handler.

use crate::masked::{ALARM, HEAD_BYTES, Masks, PING, Sealed, Side};
use crate::support::{Notes, each, reactor, until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_reactor::{Backend, Closed, Learnt, ListenerId, Reactor, Token, Transport};
use weir_transport::{Layers, Recipe, Scratch, Stream, TransportError, UNDECODED_BYTES_MAX};

/// Sealed ahead of the socket, as the reactor has it.
const SEALED_BYTES_MAX: u64 = 256 * 1024;

/// At which nothing more is read.
const NETWORK_BYTES_MAX: u64 = 2 * SEALED_BYTES_MAX;

const GREETING_BYTES: usize = 8;

fn listen(reactor: &mut Reactor, count: usize) -> (SocketAddr, Arc<Sealed>) {
    let masks = Masks::new(Side::Server, count);
    let sealed = Arc::clone(&masks.sealed);
    let listener = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    reactor.listen(ListenerId(7), listener, Transport::Layered(Arc::new(masks))).unwrap();
    (address, sealed)
}

fn connect(reactor: &mut Reactor, address: SocketAddr, count: usize) -> Token {
    let transport = Transport::Layered(Arc::new(Masks::new(Side::Client, count)));
    reactor.io().connect(&transport, address, None).unwrap()
}

/// A client without a reactor.
struct Peer {
    stream: TcpStream,
    layers: Layers,
    scratch: Scratch,
    plain: Vec<u8>,
    has_ended: bool,
}

impl Peer {
    /// Its greeting is not sent yet.
    fn silent(address: SocketAddr) -> (Self, Vec<u8>) {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (mut layers, mut scratch) = (Masks::new(Side::Client, 1).layers(), Scratch::default());
        let mut greeting = Vec::new();
        layers.begin(&mut greeting, &mut scratch);
        (Self { stream, layers, scratch, plain: Vec::new(), has_ended: false }, greeting)
    }

    /// Greeted and greeted back, accepted as the last of all that were noted.
    fn open(address: SocketAddr, reactor: &mut Reactor, notes: &mut Notes) -> (Self, Token) {
        let (mut peer, greeting) = Self::silent(address);
        let count = notes.accepted.len() + 1;
        peer.stream.write_all(&greeting).unwrap();
        until(reactor, notes, |notes| notes.accepted.len() == count);
        peer.stream.set_nonblocking(true).unwrap();
        while !peer.layers.is_open() {
            reactor.turn(Some(Duration::from_millis(1)), notes).unwrap();
            peer.read_some();
        }
        peer.stream.set_nonblocking(false).unwrap();
        (peer, notes.accepted[count - 1].0)
    }

    fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut network = Vec::new();
        self.layers.send(plain, &mut network, &mut self.scratch);
        network
    }

    fn says(&mut self, plain: &[u8]) {
        let network = self.seal(plain);
        self.stream.write_all(&network).unwrap();
    }

    /// Says whether something came.
    fn read_some(&mut self) -> bool {
        let mut bytes = [0; 64 * 1024];
        let read = match self.stream.read(&mut bytes) {
            Ok(0) => panic!("the end came without being said"),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        };
        let Self { layers, scratch, plain, .. } = self;
        let stream = layers.received(&bytes[..read], plain, &mut Vec::new(), scratch).unwrap();
        self.has_ended = stream == Stream::Ended;
        true
    }

    fn read(mut self, length: usize) -> Self {
        while self.plain.len() < length {
            self.read_some();
        }
        self
    }
}

fn sealed(sealed: &AtomicU64) -> u64 {
    sealed.load(Ordering::Relaxed)
}

/// Bytes that show where they are missing or doubled.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| ((at / 7) ^ (at >> 11)) as u8).collect()
}

#[test]
fn both_ends_talk_through_their_layers_and_hear_plain_bytes() {
    each(|backend| {
        for count in 1..=2 {
            let mut reactor = reactor(backend);
            let (address, sealed_there) = listen(&mut reactor, count);
            let mut notes = Notes::default();
            let near = connect(&mut reactor, address, count);
            // Waits until the layers are open.
            reactor.io().write(near, b"early");
            until(&mut reactor, &mut notes, |notes| notes.connected == [near]);
            let (far, by) = (notes.accepted[0].0, notes.listeners[0]);
            assert_eq!(by, ListenerId(7));
            let told = [(far, Learnt::default())];
            assert_eq!(notes.learnt, told, "said once, of who was accepted");
            until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"early");
            let frames = sealed(&sealed_there.frames);
            for _ in 0..100 {
                reactor.io().write(far, b"ten bytes.");
            }
            until(&mut reactor, &mut notes, |notes| notes.bytes(near).len() == 1000);
            assert_eq!(notes.bytes(near), b"ten bytes.".repeat(100));
            let flushed = (sealed(&sealed_there.frames) - frames) / count as u64;
            assert_eq!(flushed, 1, "what leaves in one turn is one frame");
        }
    });
}

#[test]
fn a_plain_end_is_not_connected_to_one_with_layers() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let near = reactor.io().connect(&Transport::Plain, address, None).unwrap();
        reactor.io().write(near, b"\x10\x0cplain");
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        let fault = TransportError::Malformed("no greeting");
        let far = notes.accepted[0].0;
        assert!(notes.closed.contains(&(far, Closed::Transport(fault))), "{:?}", notes.closed);
        until(&mut reactor, &mut notes, |notes| notes.closed.len() == 2);
        assert_eq!(notes.bytes(near), [ALARM], "the last words are sent");
        assert_eq!((notes.bytes(far), notes.connected.as_slice()), (&b""[..], &[near][..]));
    });
}

#[test]
fn wherever_the_network_splits_the_bytes_the_handler_hears_the_same() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes { group: 4, ..Notes::default() };
        for split in 1..GREETING_BYTES + 2 * (HEAD_BYTES + 10) {
            let (mut peer, mut bytes) = Peer::silent(address);
            // Sealed before the server's greeting came: the client's side of a mask needs none.
            bytes.extend(peer.seal(b"abcdefghij"));
            bytes.extend(peer.seal(b"klmnopqrst"));
            let (first, last) = bytes.split_at(split);
            peer.stream.write_all(first).unwrap();
            let count = notes.accepted.len() + 1;
            until(&mut reactor, &mut notes, |notes| notes.accepted.len() == count);
            let far = notes.accepted[count - 1].0;
            notes.received.remove(&far);
            for _ in 0..3 {
                reactor.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            }
            peer.stream.write_all(last).unwrap();
            until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"abcdefghijklmnopqrst");
            reactor.io().abort(far);
        }
        assert_eq!(notes.closed, []);
    });
}

#[test]
fn a_connection_moves_with_its_layers_in_the_middle_of_a_frame_and_of_a_packet() {
    each(|backend| {
        let (mut from, mut to) = (reactor(backend), reactor(backend));
        let (address, _) = listen(&mut from, 1);
        let mut notes = Notes { group: 8, ..Notes::default() };
        let mut others = Notes { group: 8, ..Notes::default() };
        for split in 0..HEAD_BYTES + 8 {
            let (mut peer, far) = Peer::open(address, &mut from, &mut notes);
            notes.received.remove(&far);
            let calls = notes.calls;
            peer.says(b"packet 1half");
            until(&mut from, &mut notes, |notes| notes.calls > calls);
            let frame = peer.seal(b"-of-packet 2");
            peer.stream.write_all(&frame[..split]).unwrap();
            from.io().write(far, b"before");
            for _ in 0..3 {
                from.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            }
            assert_eq!(notes.bytes(far), b"packet 1");
            // Written and not sent: it goes along.
            from.io().write(far, b", between");
            let moved = from.io().give_away(far, &[]).unwrap();
            from.turn(Some(Duration::ZERO), &mut notes).unwrap();
            let there = to.io().adopt(moved).unwrap();
            others.received.remove(&there);
            assert_eq!(to.io().pending(there), 9);
            to.io().write(there, b", after");
            peer.stream.write_all(&frame[split..]).unwrap();
            until(&mut to, &mut others, |others| others.bytes(there).len() == 16);
            assert_eq!(others.bytes(there), b"half-of-packet 2", "split at {split}");
            to.turn(Some(Duration::ZERO), &mut others).unwrap();
            assert_eq!(peer.read(22).plain, b"before, between, after");
            to.io().abort(there);
            to.turn(Some(Duration::ZERO), &mut others).unwrap();
        }
        assert_eq!((notes.closed, others.closed), (vec![], vec![]));
        assert_eq!((from.io().connections(), to.io().connections()), (0, 0));
    });
}

#[test]
fn output_that_a_slow_peer_has_not_taken_moves_along_in_both_forms() {
    each(|backend| {
        for transport in [Transport::Plain, Transport::Layered(Arc::new(masks()))] {
            let (mut from, mut to) = (reactor(backend), reactor(backend));
            let listener = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            from.listen(ListenerId(0), listener, transport.clone()).unwrap();
            let (mut notes, mut others) = (Notes::default(), Notes::default());
            let output = pattern(16_000_000);
            let (mut peer, greeting) = Peer::silent(address);
            let is_layered = matches!(transport, Transport::Layered(_));
            if is_layered {
                peer.stream.write_all(&greeting).unwrap();
            }
            until(&mut from, &mut notes, |notes| !notes.accepted.is_empty());
            let far = notes.accepted[0].0;
            from.io().write(far, &output[..9_000_000]);
            from.io().write_shared(far, &[], Arc::new(output[9_000_000..].to_vec()));
            for _ in 0..100 {
                from.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            }
            let pending = from.io().pending(far);
            assert!(pending > 1_000_000, "the peer has not read yet");
            let moved = from.io().give_away(far, &[]).unwrap();
            from.turn(Some(Duration::ZERO), &mut notes).unwrap();
            let there = to.io().adopt(moved).unwrap();
            assert_eq!(to.io().pending(there), pending);
            let reader = std::thread::spawn(move || match is_layered {
                true => peer.read(16_000_000).plain,
                false => {
                    let mut input = vec![0; 16_000_000];
                    peer.stream.read_exact(&mut input).unwrap();
                    input
                }
            });
            until(&mut to, &mut others, |others| others.drained == [there]);
            assert!(reader.join().unwrap() == output, "what came is what was written");
        }
    });
}

fn masks() -> Masks {
    Masks::new(Side::Server, 1)
}

#[test]
fn a_garbage_frame_ends_its_own_connection_only() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes { echoes: true, ..Notes::default() };
        let (mut good, far) = Peer::open(address, &mut reactor, &mut notes);
        let (mut bad, other) = Peer::open(address, &mut reactor, &mut notes);
        let mut bytes = bad.seal(b"right");
        let mut wrong = bad.seal(b"wrong");
        *wrong.last_mut().unwrap() ^= 1;
        bytes.extend(wrong);
        bad.stream.write_all(&bytes).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        let fault = TransportError::Malformed("wrong check");
        assert_eq!(notes.closed, [(other, Closed::Transport(fault))]);
        assert_eq!(notes.bytes(other), b"right", "what came before it is heard");
        assert_eq!(reactor.io().stats().transport_errors, 1);
        good.says(b"still here");
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"still here");
        assert_eq!(good.read(10).plain, b"still here");
        // The last words, then the end in good order.
        let mut rest = Vec::new();
        bad.stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.last(), Some(&ALARM));
        drop(bad);
        until(&mut reactor, &mut notes, |notes| notes.closed.len() == 2);
        while reactor.io().connections() > 0 {
            reactor.turn(Some(Duration::from_secs(5)), &mut notes).unwrap();
        }
        assert_eq!(notes.closed[1], (far, Closed::ByPeer));
    });
}

#[test]
fn an_endless_frame_is_cut_off_at_the_bound() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        peer.stream.write_all(&[0xA5, 0, 0xFF, 0xFF, 0xFF, 0]).unwrap();
        peer.stream.write_all(&vec![0; UNDECODED_BYTES_MAX]).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.closed, [(far, Closed::Transport(TransportError::TooLong))]);
    });
}

#[test]
fn output_for_a_slow_peer_is_sealed_up_to_the_bound_and_waits_as_it_was_written() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, there) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        let output = pattern(16_000_000);
        reactor.io().write(far, &output);
        let mut sealed_max = 0;
        for _ in 0..100 {
            reactor.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            let sent = reactor.io().stats().bytes_out - GREETING_BYTES as u64;
            sealed_max = sealed_max.max(sealed(&there.bytes) - sent);
        }
        let frames = 4 * SEALED_BYTES_MAX / (16 * 1024);
        let overhead = frames * HEAD_BYTES as u64;
        assert!(sealed_max > 0 && sealed_max <= SEALED_BYTES_MAX + overhead, "{sealed_max}");
        let sent = (reactor.io().stats().bytes_out - GREETING_BYTES as u64) as usize;
        let pending = reactor.io().pending(far);
        assert!(pending > 1_000_000, "the peer has not read yet");
        assert!(pending.abs_diff(output.len() - sent) < 10_000, "{pending} and {sent} sent");
        assert_eq!(notes.drained, []);
        // What it says is heard all the same.
        peer.says(b"acknowledged");
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"acknowledged");
        let reader = std::thread::spawn(move || peer.read(16_000_000).plain);
        until(&mut reactor, &mut notes, |notes| notes.drained == [far]);
        assert_eq!(reactor.io().pending(far), 0);
        assert!(reader.join().unwrap() == output, "what came is what was written");
    });
}

/// Writes until nothing is taken any more, however often the reactor turns.
fn write_all_that_fits(
    peer: &mut TcpStream,
    bytes: &[u8],
    reactor: &mut Reactor,
    notes: &mut Notes,
) -> usize {
    peer.set_nonblocking(true).unwrap();
    let (mut written, mut refused) = (0, 0);
    while refused < 100 {
        match peer.write(&bytes[written % bytes.len()..]) {
            Ok(count) => (written, refused) = (written + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(written < 500_000_000, "it is read without end");
        reactor.turn(Some(Duration::from_millis(1)), notes).unwrap();
    }
    written
}

#[test]
fn a_peer_that_reads_no_answers_is_read_no_more() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, there) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        let ping = [PING, 0, 0, 0, 0, PING];
        let pings = ping.repeat(1000);
        let written = write_all_that_fits(&mut peer.stream, &pings, &mut reactor, &mut notes);
        let pending = reactor.io().pending(far) as u64;
        let answers_max = NETWORK_BYTES_MAX + 64 * 1024 + HEAD_BYTES as u64;
        assert!((NETWORK_BYTES_MAX..=answers_max).contains(&pending), "{pending}");
        assert!(sealed(&there.pongs) < written as u64 / 6, "some are not read");
        assert_eq!(reactor.io().stats().held_back, 1);
        // Read on as the peer does.
        while sealed(&there.pongs) < written as u64 / 6 || reactor.io().pending(far) > 0 {
            reactor.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            while peer.read_some() {}
        }
        assert_eq!(notes.closed, []);
    });
}

#[test]
fn the_end_is_said_through_the_layers_behind_all_output() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        // More than is sealed at once.
        let output = pattern(2_000_000);
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        reactor.io().write(far, &output);
        reactor.io().close(far);
        let reader = std::thread::spawn(move || {
            while !peer.has_ended {
                peer.read_some();
            }
            let mut rest = Vec::new();
            peer.stream.read_to_end(&mut rest).unwrap();
            (peer.plain, rest)
        });
        while reactor.io().connections() > 0 {
            reactor.turn(Some(Duration::from_millis(100)), &mut notes).unwrap();
        }
        let (plain, rest) = reader.join().unwrap();
        assert!(plain == output && rest.is_empty(), "all of it, then the end");
        assert_eq!(notes.closed, [], "who closes hears nothing more");
    });
}

#[test]
fn a_peer_that_says_its_end_has_closed_in_good_order() {
    each(|backend: Backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        let mut bytes = peer.seal(b"last");
        peer.layers.close(&mut bytes, &mut peer.scratch);
        peer.stream.write_all(&bytes).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(
            (notes.bytes(far), &*notes.closed),
            (&b"last"[..], &[(far, Closed::ByPeer)][..])
        );
        while !peer.has_ended {
            reactor.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
            peer.read_some();
        }
    });
}

#[test]
fn an_end_behind_a_pause_is_told_when_that_is_over() {
    each(|backend: Backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes { group: 4, pauses: true, ..Notes::default() };
        let (mut peer, far) = Peer::open(address, &mut reactor, &mut notes);
        let mut bytes = peer.seal(b"lastword");
        peer.layers.close(&mut bytes, &mut peer.scratch);
        peer.stream.write_all(&bytes).unwrap();
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"last");
        assert_eq!(notes.closed, [], "half of it waits");
        reactor.io().resume(far);
        assert_eq!(reactor.io().take_kept(far), b"word");
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.closed, [(far, Closed::ByPeer)]);
    });
}

/// Many handshakes at once keep those who are in from being served for a few of them only.
#[test]
fn a_turn_reads_a_few_connections_whose_layers_are_not_open() {
    const PEERS: usize = 30;
    const IN_A_TURN: u64 = 8;
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor, 1);
        let mut notes = Notes::default();
        let mut peers: Vec<_> = (0..PEERS).map(|_| Peer::silent(address)).collect();
        until(&mut reactor, &mut notes, |notes| notes.accepted.len() == PEERS);
        for (peer, greeting) in &mut peers {
            peer.stream.write_all(greeting).unwrap();
        }
        let mut turns = 0;
        while reactor.io().stats().reads < PEERS as u64 {
            let before = reactor.io().stats().reads;
            reactor.turn(Some(Duration::from_secs(60)), &mut notes).unwrap();
            let read = reactor.io().stats().reads - before;
            assert!(read <= IN_A_TURN, "{read} in a turn");
            turns += 1;
        }
        assert!(turns >= 4 && reactor.io().stats().put_off > 0, "{turns} turns");
        for (peer, _) in &mut peers {
            peer.stream.read_exact(&mut [0; GREETING_BYTES]).unwrap();
        }
    });
}
