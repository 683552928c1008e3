//! More connections than the process may have open files, on both sides.

use crate::support::{Notes, each, listen, reactor, until};
use std::fs::File;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use weir_reactor::{Backend, Token, Transport};

/// Set for the child, which lowers its own limit.
const CHILD: &str = "WEIR_REACTOR_FILES_MAX";

const FILES_MAX: u64 = 64;
const CONNECTIONS: usize = 500;

#[test]
fn connections_are_not_bounded_by_open_files() {
    if std::env::var_os(CHILD).is_some() {
        let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current = Some(FILES_MAX);
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        return each(|backend| match backend {
            Backend::Epoll => {
                is_bounded();
                rests_until_a_file_is_free();
            }
            Backend::IoUring | Backend::Auto => {
                is_not_bounded(backend);
                rests_until_a_slot_is_free(backend);
            }
        });
    }
    // The limit is the process', so it is lowered where no other test runs.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "file_limit::connections_are_not_bounded_by_open_files", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && out.contains("1 passed"), "{out}\n{err}");
    eprint!("{err}");
}

fn is_bounded() {
    assert_eq!(Backend::Epoll.connections_max(), FILES_MAX as usize);
    let mut reactor = reactor(Backend::Epoll);
    let address = listen(&mut reactor);
    let refused =
        (0..CONNECTIONS).find_map(|_| reactor.io().connect(&Transport::Plain, address, None).err());
    assert!(refused.is_some(), "the limit is lowered");
}

/// Tries that fail before a file is given back.
const FAILURES: u64 = 3;

/// Waits that those tries may take: what happens on other sockets and rings of the thread ends
/// some. A listener that is heard while it may not accept ends tens of thousands.
const WAITS_MAX: u64 = 100;

/// Counts waits: a reactor that may not accept is not woken by whoever wants in.
fn rests_until_a_file_is_free() {
    let mut reactor = reactor(Backend::Epoll);
    let address = listen(&mut reactor);
    let mut notes = Notes { echoes: false, ..Notes::default() };
    let first = TcpStream::connect(address).unwrap();
    until(&mut reactor, &mut notes, |notes| notes.accepted.len() == 1);
    // A client that has left stays in the backlog, and takes no file of this process there.
    drop(TcpStream::connect(address).unwrap());
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    let turns = reactor.io().stats().turns;
    while reactor.io().stats().accept_errors < FAILURES {
        reactor.turn(None, &mut notes).unwrap();
    }
    let turns = reactor.io().stats().turns - turns;
    assert!(turns <= WAITS_MAX, "{turns} waits for {FAILURES} tries");

    // One of its own connections ends: the next comes in with it, and then it is full again.
    let token = notes.accepted[0].0;
    reactor.io().abort(token);
    let failures = reactor.io().stats().accept_errors;
    let turns = reactor.io().stats().turns;
    until(&mut reactor, &mut notes, |notes| notes.accepted.len() == 2);
    assert!(reactor.io().stats().turns - turns <= WAITS_MAX);
    assert!(reactor.io().stats().accept_errors <= failures + 2);
    // And whoever comes later wakes it again.
    drop((files, first));
    let _third = TcpStream::connect(address).unwrap();
    until(&mut reactor, &mut notes, |notes| notes.accepted.len() == 3);
}

/// The same where the table of direct descriptors is full, and no file is left for another ring.
fn rests_until_a_slot_is_free(backend: Backend) {
    // Clients first: a ring holds as many as the limit on files.
    let (mut near, mut near_notes) = (reactor(Backend::IoUring), Notes::default());
    let mut reactor = reactor(backend);
    let address = listen(&mut reactor);
    let mut notes = Notes { echoes: false, ..Notes::default() };
    let mut connect = |count: usize| -> Vec<Token> {
        let tokens = (0..count)
            .map(|_| near.io().connect(&Transport::Plain, address, None).unwrap())
            .collect();
        let all = near_notes.connected.len() + count;
        until(&mut near, &mut near_notes, |notes| notes.connected.len() == all);
        tokens
    };
    let clients = 2 * FILES_MAX as usize;
    connect(1);
    until(&mut reactor, &mut notes, |notes| notes.accepted.len() == 1);
    connect(clients - 1);
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let before = reactor.io().stats();
    while reactor.io().stats().accept_errors < before.accept_errors + FAILURES {
        reactor.turn(None, &mut notes).unwrap();
    }
    let turns = reactor.io().stats().turns - before.turns;
    // Those that find room take some turns themselves.
    let accepted = notes.accepted.len();
    assert!(accepted < clients, "{accepted} of {clients} found room");
    assert!(turns <= WAITS_MAX + accepted as u64, "{turns} waits for {FAILURES} tries");

    // Whoever goes makes room for the next, at once, until all have been in.
    while notes.accepted.len() < clients {
        let token = notes.accepted[notes.accepted.len() - accepted].0;
        reactor.io().abort(token);
        let (count, turns) = (notes.accepted.len(), reactor.io().stats().turns);
        until(&mut reactor, &mut notes, |notes| notes.accepted.len() > count);
        assert!(reactor.io().stats().turns - turns <= WAITS_MAX);
    }
    drop(files);
}

fn is_not_bounded(backend: Backend) {
    assert!(backend.connections_max() >= 2 * CONNECTIONS);
    let mut reactor = reactor(backend);
    let address = listen(&mut reactor);
    let mut notes = Notes { echoes: false, ..Notes::default() };
    let connect = |reactor: &mut weir_reactor::Reactor, count: usize| -> Vec<Token> {
        (0..count)
            .map(|_| reactor.io().connect(&Transport::Plain, address, None).unwrap())
            .collect()
    };
    let mut near = connect(&mut reactor, CONNECTIONS);
    until(&mut reactor, &mut notes, |notes| {
        notes.accepted.len() == CONNECTIONS && notes.connected.len() == CONNECTIONS
    });
    let mut far: Vec<Token> = notes.accepted.iter().map(|&(token, _)| token).collect();
    exchange(&mut reactor, &mut notes, &near, &far);

    // Half of them go, by either end and in either way, and others come in their places.
    notes.accepted.clear();
    notes.connected.clear();
    for (index, token) in near.drain(CONNECTIONS / 2..).enumerate() {
        match index % 2 {
            0 => reactor.io().close(token),
            _ => reactor.io().abort(token),
        }
    }
    until(&mut reactor, &mut notes, |notes| notes.closed.len() == CONNECTIONS / 2);
    far.retain(|token| notes.closed.iter().all(|(closed, _)| closed != token));
    while reactor.io().connections() > CONNECTIONS {
        reactor.turn(Some(Duration::from_secs(5)), &mut notes).unwrap();
    }
    near.extend(connect(&mut reactor, CONNECTIONS / 2));
    until(&mut reactor, &mut notes, |notes| {
        notes.accepted.len() == CONNECTIONS / 2 && notes.connected.len() == CONNECTIONS / 2
    });
    far.extend(notes.accepted.iter().map(|&(token, _)| token));
    exchange(&mut reactor, &mut notes, &near, &far);
    assert_eq!(reactor.io().stats().accept_errors, 0);
    assert_eq!(reactor.io().connections(), 2 * CONNECTIONS);
}

/// Every connection says its number, both ways.
fn exchange(reactor: &mut weir_reactor::Reactor, notes: &mut Notes, near: &[Token], far: &[Token]) {
    assert_eq!((near.len(), far.len()), (CONNECTIONS, CONNECTIONS));
    notes.received.clear();
    for ends in [near, far] {
        for (number, &token) in ends.iter().enumerate() {
            reactor.io().write(token, &(number as u32).to_be_bytes());
        }
        let others = if ends == near { far } else { near };
        until(reactor, notes, |notes| others.iter().all(|&token| notes.bytes(token).len() == 4));
        let mut numbers: Vec<&[u8]> = others.iter().map(|&token| notes.bytes(token)).collect();
        numbers.sort_unstable();
        let all: Vec<[u8; 4]> = (0..CONNECTIONS as u32).map(u32::to_be_bytes).collect();
        assert!(numbers == all, "each has its own");
    }
    let _ = notes.closed.drain(..);
}
