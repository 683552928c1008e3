//! Many connections that are ready at once.

use crate::support::{Notes, each, listen, reactor, until};
use std::net::SocketAddr;
use std::time::Duration;
use weir_reactor::{Backend, Closed, Handler, Io, ListenerId, Reactor, Token, Transport};

/// More than are read with one call.
const CONNECTIONS: usize = 100;

/// Near and far ends, in the same order: each near end said its place, and the far ends have it
/// unread.
fn all_ready(backend: Backend) -> (Reactor, Notes, Vec<Token>, Vec<Token>) {
    let mut reactor = reactor(backend);
    let address = listen(&mut reactor);
    let mut notes = Notes::default();
    let mut ends = (Vec::new(), Vec::new());
    for count in 1..=CONNECTIONS {
        ends.0.push(reactor.io().connect(&Transport::Plain, address, None).unwrap());
        until(&mut reactor, &mut notes, |notes| {
            (notes.accepted.len(), notes.connected.len()) == (count, count)
        });
        ends.1.push(notes.accepted[count - 1].0);
    }
    for (place, &token) in ends.0.iter().enumerate() {
        reactor.io().write(token, &(place as u32).to_be_bytes());
    }
    (reactor, notes, ends.0, ends.1)
}

fn place(place: usize) -> [u8; 4] {
    (place as u32).to_be_bytes()
}

#[test]
fn paused_ones_are_passed_over() {
    each(|backend| {
        let (mut reactor, mut notes, _, far) = all_ready(backend);
        let is_paused = |place: usize| place.is_multiple_of(3);
        let paused: Vec<usize> = (0..CONNECTIONS).filter(|&place| is_paused(place)).collect();
        paused.iter().for_each(|&place| reactor.io().pause(far[place]));
        until(&mut reactor, &mut notes, |notes| notes.received.len() == CONNECTIONS - paused.len());
        for (at, &token) in far.iter().enumerate() {
            let expected = if is_paused(at) { &[][..] } else { &place(at)[..] };
            assert_eq!(notes.bytes(token), expected, "of {at}");
        }
        paused.iter().for_each(|&place| reactor.io().resume(far[place]));
        until(&mut reactor, &mut notes, |notes| notes.received.len() == CONNECTIONS);
        for (at, &token) in far.iter().enumerate() {
            assert_eq!(notes.bytes(token), place(at), "of {at}");
        }
    });
}

#[test]
fn what_was_not_given_yet_is_unread() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = all_ready(backend);
        reactor.io().pause(far[0]);
        until(&mut reactor, &mut notes, |notes| notes.received.len() == CONNECTIONS - 1);
        assert!(reactor.io().has_unread(far[0]), "it is paused");
        assert!(!reactor.io().has_unread(far[1]) && !reactor.io().has_unread(near[0]));
    });
}

#[test]
fn more_than_a_turn_handles_is_unread() {
    // Sockets as files, on both sides.
    const MANY: usize = 1_500;
    let mut reactor = reactor(Backend::Epoll);
    let address = listen(&mut reactor);
    let mut notes = Notes::default();
    let mut peers: Vec<_> =
        (0..MANY).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    until(&mut reactor, &mut notes, |notes| notes.accepted.len() == MANY);
    for peer in &mut peers {
        std::io::Write::write_all(peer, b"x").unwrap();
    }
    // Until the turn that leaves some of them for the next.
    until(&mut reactor, &mut notes, |notes| !notes.received.is_empty());
    let unread: Vec<Token> = notes.accepted.iter().map(|&(token, _)| token).collect();
    for token in unread {
        let is_given = notes.received.contains_key(&token);
        assert_eq!(reactor.io().has_unread(token), !is_given);
    }
    assert!(notes.received.len() < MANY, "a turn has a bound");
}

/// The first that is heard ends all others, in a different way each.
struct Tyrant {
    subjects: Vec<Token>,
    heard: Vec<Token>,
    closed: Vec<Token>,
}

impl Handler for Tyrant {
    fn accepted(&mut self, _io: &mut Io, _token: Token, _: ListenerId, _peer: SocketAddr) {}

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        self.heard.push(token);
        for (at, &other) in self.subjects.iter().enumerate().filter(|(_, other)| **other != token) {
            match at % 3 {
                0 => io.abort(other),
                1 => io.close(other),
                // What was read of it already cannot be taken along; what was not, can.
                _ if io.give_away(other, &[]).is_err() => io.abort(other),
                _ => {}
            }
        }
        self.subjects.clear();
        bytes.len()
    }

    fn closed(&mut self, _io: &mut Io, token: Token, _cause: Closed) {
        self.closed.push(token);
    }

    fn turn_end(&mut self, _io: &mut Io) {}
}

#[test]
fn who_is_ended_by_another_is_not_heard() {
    each(|backend| {
        let (mut reactor, _, near, far) = all_ready(backend);
        let mut tyrant = Tyrant { subjects: far.clone(), heard: Vec::new(), closed: Vec::new() };
        while reactor.io().connections() > 2 {
            reactor.turn(Some(Duration::from_secs(30)), &mut tyrant).unwrap();
        }
        assert_eq!(tyrant.heard.len(), 1);
        let at = far.iter().position(|&token| token == tyrant.heard[0]).unwrap();
        let others: Vec<Token> = near.iter().copied().filter(|&token| token != near[at]).collect();
        tyrant.closed.sort_unstable();
        let mut expected = others;
        expected.sort_unstable();
        assert_eq!(tyrant.closed, expected, "only the near ends hear of it");
    });
}
