//! What a reactor promises of its connections, over each back end.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod batch;
mod done;
mod ends;
mod file_limit;
mod forbidden;
mod layers;
#[path = "../../../transport/tests/it/masked.rs"]
mod masked;
mod support;

use rustix::io::Errno;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use support::{Notes, each, listen, pair, reactor, until};
use weir_reactor::{Closed, ListenerId, SharedBytes, Transport};

#[test]
fn bytes_go_both_ways() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        reactor.io().write(near, b"ping");
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"ping");
        reactor.io().write(far, b"po");
        reactor.io().write(far, b"ng");
        until(&mut reactor, &mut notes, |notes| notes.bytes(near) == b"pong");
        assert_eq!(reactor.io().stats().writes, 2, "what is written in one turn is one send");
        assert_eq!(reactor.io().stats().bytes_out, 8);
    });
}

#[test]
fn the_peer_of_a_connection_is_known_until_it_is_reset() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes::default();
        let stream = TcpStream::connect(address).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
        let (token, peer) = notes.accepted[0];
        assert_eq!(peer, stream.local_addr().unwrap());
        assert_eq!(reactor.io().peer(token), Some(peer));
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(reactor.io().peer(token), None);
    });
}

#[test]
fn what_is_written_before_the_connection_is_there_goes_first() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes::default();
        let near = reactor.io().connect(&Transport::Plain, address, None).unwrap();
        reactor.io().write(near, b"early");
        until(&mut reactor, &mut notes, |notes| {
            notes.received.values().any(|bytes| bytes == b"early")
        });
        assert_eq!(notes.connected, [near]);
    });
}

#[test]
fn a_connection_comes_from_the_address_it_is_told() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes::default();
        let source = IpAddr::from(Ipv4Addr::new(127, 1, 2, 3));
        reactor.io().connect(&Transport::Plain, address, Some(source)).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
        assert_eq!(notes.accepted[0].1.ip(), source);
        assert_ne!(notes.accepted[0].1.port(), 0);
        let foreign = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
        let error = reactor.io().connect(&Transport::Plain, address, Some(foreign)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ADDRNOTAVAIL.raw_os_error()));
        reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
        assert_eq!(notes.closed, []);
    });
}

#[test]
fn a_unix_socket_is_connected_to_and_where_there_is_none_the_error_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut reactor = reactor(weir_reactor::Backend::Epoll);
    let error = reactor.io().connect_unix(&Transport::Plain, &path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let near = reactor.io().connect_unix(&Transport::Plain, &path).unwrap();
    let mut far = listener.accept().unwrap().0;
    reactor.io().write(near, b"hello");
    let mut notes = Notes::default();
    until(&mut reactor, &mut notes, |notes| notes.connected == [near]);
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    far.write_all(b"back").unwrap();
    until(&mut reactor, &mut notes, |notes| notes.received.values().any(|bytes| bytes == b"back"));
    drop(far);
    until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
}

#[test]
fn version_6_of_the_internet_protocol_works_as_well() {
    // Not every host has it.
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("not tested: this host has no ::1");
    }
    each(|backend| {
        let mut reactor = reactor(backend);
        let listener = weir_reactor::listen("[::1]:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        reactor.listen(ListenerId(0), listener, Transport::Plain).unwrap();
        let mut notes = Notes::default();
        let near = reactor.io().connect(&Transport::Plain, address, Some(address.ip())).unwrap();
        reactor.io().write(near, b"six");
        until(&mut reactor, &mut notes, |notes| {
            notes.received.values().any(|bytes| bytes == b"six")
        });
        assert_eq!(notes.accepted[0].1.ip(), address.ip());
    });
}

#[test]
fn a_refused_connect_is_told_with_its_cause() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        reactor.stop_listening();
        let mut notes = Notes::default();
        let near = reactor.io().connect(&Transport::Plain, address, None).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.closed, [(near, Closed::Error(Errno::CONNREFUSED))]);
        assert_eq!(notes.connected, []);
        assert_eq!(reactor.io().connections(), 0);
    });
}

/// Another thread, or whoever has passed it, may still have the socket.
#[test]
fn a_listener_that_is_stopped_accepts_nobody_and_wakes_nobody_though_its_socket_lives() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let listeners =
            [0, 1].map(|_| weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        for (id, listener) in (0..).zip(&listeners) {
            let listener = listener.try_clone().unwrap();
            reactor.listen(ListenerId(id), listener, Transport::Plain).unwrap();
        }
        reactor.stop(ListenerId(0));
        let mut notes = Notes::default();
        let clients = addresses.map(|address| TcpStream::connect(address).unwrap());
        until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
        let turns = reactor.io().stats().turns;
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            reactor.turn(Some(Duration::from_millis(50)), &mut notes).unwrap();
        }
        assert!(reactor.io().stats().turns - turns < 10, "who waits there does not wake it");
        assert_eq!(notes.listeners, [ListenerId(1)]);
        // In its place another may listen.
        let again = listeners[0].try_clone().unwrap();
        reactor.listen(ListenerId(2), again, Transport::Plain).unwrap();
        until(&mut reactor, &mut notes, |notes| notes.accepted.len() == 2);
        assert_eq!(notes.listeners, [ListenerId(1), ListenerId(2)]);
        reactor.stop_listening();
        let late = TcpStream::connect(addresses[1]).unwrap();
        reactor.turn(Some(Duration::from_millis(1)), &mut notes).unwrap();
        assert_eq!(notes.accepted.len(), 2);
        drop((clients, late));
    });
}

#[test]
fn what_is_not_consumed_comes_again_with_more() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        notes.group = 4;
        for piece in [&b"abc"[..], b"def", b"gh"] {
            let calls = notes.calls;
            reactor.io().write(near, piece);
            until(&mut reactor, &mut notes, |notes| notes.calls > calls);
        }
        assert_eq!(notes.bytes(far), b"abcdefgh");
    });
}

#[test]
fn a_packet_longer_than_the_buffer_of_the_thread_is_gathered() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        notes.group = 300_000;
        let packet: Vec<u8> = (0..300_000u32).map(|byte| byte as u8).collect();
        reactor.io().write(near, &packet);
        until(&mut reactor, &mut notes, |notes| !notes.bytes(far).is_empty());
        assert_eq!(notes.bytes(far), packet);
    });
}

#[test]
fn output_waits_for_a_slow_peer_and_is_told_when_all_has_left() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes::default();
        let mut peer = TcpStream::connect(address).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
        let far = notes.accepted[0].0;
        let output: Vec<u8> = (0..16_000_000u32).map(|byte| (byte / 7) as u8).collect();
        reactor.io().write(far, &output);
        for _ in 0..3 {
            reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
        }
        assert!(reactor.io().pending(far) > 0, "the peer has not read yet");
        assert_eq!(notes.drained, []);
        let reader = std::thread::spawn(move || {
            let mut input = vec![0; 16_000_000];
            peer.read_exact(&mut input).unwrap();
            (input, peer)
        });
        until(&mut reactor, &mut notes, |notes| !notes.drained.is_empty());
        assert_eq!((notes.drained.as_slice(), reactor.io().pending(far)), (&[far][..], 0));
        let (input, mut peer) = reader.join().unwrap();
        assert!(input == output, "what came is what was written");
        peer.write_all(b"thanks").unwrap();
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"thanks");
    });
}

#[test]
fn who_does_not_take_the_answers_is_read_no_more_until_they_are_taken() {
    const BYTES: usize = 32_000_000;
    const UNREAD_MAX: usize = 100_000;
    /// What is read with one call at most, and so what is answered before the next look.
    const READ_MAX: usize = 64 * 1024;
    each(|backend| {
        let mut reactor = reactor(backend);
        reactor.io().set_unread_max(UNREAD_MAX);
        let address = listen(&mut reactor);
        let mut notes = Notes { echoes: true, ..Notes::default() };
        let peer = TcpStream::connect(address).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.accepted.is_empty());
        let far = notes.accepted[0].0;
        let mut input = peer.try_clone().unwrap();
        let writer = std::thread::spawn(move || (&peer).write_all(&vec![7; BYTES]).unwrap());
        while reactor.io().stats().held_back == 0 {
            reactor.turn(Some(Duration::from_secs(60)), &mut notes).unwrap();
            assert!(reactor.io().pending(far) <= UNREAD_MAX + READ_MAX);
        }
        assert!(!reactor.io().has_unread(far), "who does not listen is not waited for");
        let reader = std::thread::spawn(move || {
            let mut echo = vec![0; BYTES];
            input.read_exact(&mut echo).unwrap();
            echo
        });
        until(&mut reactor, &mut notes, |notes| notes.bytes(far).len() == BYTES);
        while reactor.io().pending(far) > 0 {
            reactor.turn(Some(Duration::from_secs(60)), &mut notes).unwrap();
        }
        assert!(reader.join().unwrap() == vec![7; BYTES]);
        writer.join().unwrap();
    });
}

/// A socket that takes all it is given never says that it takes more.
#[test]
fn output_of_more_pieces_than_one_call_takes_leaves_whole() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        let piece: SharedBytes = Arc::new(vec![3; 5_000]);
        for _ in 0..100 {
            reactor.io().write_shared(far, b"head", Arc::clone(&piece));
        }
        until(&mut reactor, &mut notes, |notes| notes.bytes(near).len() == 100 * 5_004);
        assert_eq!(reactor.io().pending(far), 0);
    });
}

#[test]
fn close_lets_the_last_bytes_arrive() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        reactor.io().write(near, b"unread when the other end closes");
        reactor.io().write(far, b"last");
        reactor.io().close(far);
        reactor.io().write(far, b"too late");
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.bytes(near), b"last");
        assert_eq!(notes.closed, [(near, Closed::ByPeer)]);
        while reactor.io().connections() > 0 {
            reactor.turn(Some(Duration::from_secs(5)), &mut notes).unwrap();
        }
        assert_eq!(notes.closed.len(), 1, "who closes hears nothing more");
    });
}

#[test]
fn abort_resets() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        reactor.io().abort(far);
        until(&mut reactor, &mut notes, |notes| !notes.closed.is_empty());
        assert_eq!(notes.closed, [(near, Closed::Error(Errno::CONNRESET))]);
        assert_eq!(reactor.io().connections(), 0);
    });
}

#[test]
fn a_connect_that_is_given_up_is_not_heard_of() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes::default();
        let first = reactor.io().connect(&Transport::Plain, address, None).unwrap();
        reactor.io().close(first);
        reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
        let second = reactor.io().connect(&Transport::Plain, address, None).unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.connected.is_empty());
        assert_eq!(notes.connected, [second]);
        assert!(notes.closed.iter().all(|&(token, _)| token != second));
    });
}

#[test]
fn a_paused_connection_is_not_read_until_it_is_resumed() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        reactor.io().pause(far);
        reactor.io().write(near, b"later");
        for _ in 0..3 {
            reactor.turn(Some(Duration::from_millis(10)), &mut notes).unwrap();
        }
        assert_eq!(notes.bytes(far), b"");
        reactor.io().resume(far);
        until(&mut reactor, &mut notes, |notes| notes.bytes(far) == b"later");
    });
}

#[test]
fn a_connection_lives_on_in_another_reactor() {
    each(|backend| {
        let (mut reactor, mut notes, near, far) = pair(backend);
        let mut other = support::reactor(backend);
        let mut others = Notes::default();
        let fd = reactor.io().give_away(far, &[]).unwrap();
        assert!(rustix::net::sockopt::tcp_nodelay(&fd).unwrap(), "nothing waits for an ACK");
        let there = other.io().adopt(fd).unwrap();
        reactor.io().write(near, b"over there");
        for turn in 0.. {
            assert!(turn < 1000, "it does not arrive");
            reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
            other.turn(Some(Duration::from_millis(10)), &mut others).unwrap();
            if others.bytes(there) == b"over there" {
                break;
            }
        }
        assert_eq!((reactor.io().connections(), other.io().connections()), (1, 1));
        other.io().write(there, b"and back");
        other.turn(Some(Duration::ZERO), &mut others).unwrap();
        until(&mut reactor, &mut notes, |notes| notes.bytes(near) == b"and back");
        assert_eq!(notes.closed, []);
        drop(other);
        until(&mut reactor, &mut notes, |notes| notes.closed == [(near, Closed::ByPeer)]);
    });
}

#[test]
fn what_is_said_of_a_former_connection_does_not_reach_the_present_one() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let address = listen(&mut reactor);
        let mut notes = Notes { echoes: true, ..Notes::default() };
        for round in 0..200u32 {
            let mut peer = TcpStream::connect(address).unwrap();
            until(&mut reactor, &mut notes, |notes| notes.accepted.len() == round as usize + 1);
            let (token, _) = notes.accepted[round as usize];
            notes.received.clear();
            notes.closed.clear();
            peer.write_all(&round.to_be_bytes()).unwrap();
            until(&mut reactor, &mut notes, |notes| notes.bytes(token).len() == 4);
            let mut echo = [0; 4];
            peer.read_exact(&mut echo).unwrap();
            assert_eq!(echo, round.to_be_bytes());
            // Both at once: readiness of the old one and a newcomer in its place.
            peer.write_all(b"gone").unwrap();
            reactor.io().abort(token);
            reactor.turn(Some(Duration::ZERO), &mut notes).unwrap();
            assert_eq!(notes.closed, []);
        }
    });
}
