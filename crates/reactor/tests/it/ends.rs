//! What a peer said before its connection broke is heard, and then the end.

use crate::support::{Notes, each, listen, reactor, until};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weir_reactor::{Backend, Closed, Reactor, Token};

/// More than one read takes.
static LAST_WORDS: [u8; 40_000] = [7; 40_000];

/// A connection that is not read, whose peer has said its last words and is gone; and it is known
/// to be gone, since output has failed.
fn broken_while_paused(backend: Backend) -> (Reactor, Notes, Token) {
    let mut reactor = reactor(backend);
    let address = listen(&mut reactor);
    let mut notes = Notes::default();
    let mut peer = TcpStream::connect(address).unwrap();
    until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
    let token = notes.accepted[0].0;
    reactor.io().pause(token);
    peer.write_all(&LAST_WORDS).unwrap();
    drop(peer);
    // The first is answered by a reset, the others find it.
    for _ in 0..5 {
        reactor.io().write(token, b"nobody takes this");
        reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
    }
    assert_eq!(reactor.io().stats().writes, 1);
    (reactor, notes, token)
}

#[test]
fn what_came_before_the_end_is_heard_when_a_pause_is_over() {
    each(|backend| {
        let (mut reactor, mut notes, token) = broken_while_paused(backend);
        assert_eq!(notes.closed, [], "it is paused, and its last words lie unread");
        assert_eq!(reactor.io().pending(token), 0, "what nobody takes is not kept");
        reactor.io().resume(token);
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.bytes(token), LAST_WORDS);
        assert!(matches!(notes.closed[..], [(ended, Closed::Error(_))] if ended == token));
        assert_eq!(reactor.io().connections(), 0);
    });
}

#[test]
fn a_pause_is_waited_for_asleep_though_the_peer_is_gone() {
    each(|backend| {
        const WAIT: Duration = Duration::from_millis(50);
        let (mut reactor, mut notes, _) = broken_while_paused(backend);
        let mut sleeps = || {
            let begun = Instant::now();
            reactor.turn(Some(WAIT), &mut notes).unwrap();
            begun.elapsed() >= WAIT
        };
        // What the system has to say of the end is said a few times at most.
        assert!((0..5).any(|_| sleeps()), "it does not sleep");
        assert!((0..3).all(|_| sleeps()), "there was something to do");
    });
}

#[test]
fn a_connection_that_is_broken_and_closed_is_gone_at_once() {
    each(|backend| {
        let (mut reactor, mut notes, token) = broken_while_paused(backend);
        reactor.io().close(token);
        reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
        assert_eq!((reactor.io().connections(), notes.closed.len()), (0, 0));
    });
}
