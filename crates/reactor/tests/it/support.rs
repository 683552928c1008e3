//! A handler that notes what it hears, over each back end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_reactor::{
    Backend, Closed, Handler, Io, Learnt, ListenerId, Reactor, Token, Transport, Waker,
};

/// What a handler heard.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) accepted: Vec<(Token, SocketAddr)>,
    /// Those that accepted them.
    pub(crate) listeners: Vec<ListenerId>,
    /// What layers have learnt of peers.
    pub(crate) learnt: Vec<(Token, Learnt)>,
    pub(crate) connected: Vec<Token>,
    pub(crate) closed: Vec<(Token, Closed)>,
    pub(crate) drained: Vec<Token>,
    pub(crate) received: HashMap<Token, Vec<u8>>,
    /// Consumes whole groups of so many bytes only; 0 is everything.
    pub(crate) group: usize,
    /// Consumes one group, and wants no more.
    pub(crate) pauses: bool,
    /// Answers with what came.
    pub(crate) echoes: bool,
    pub(crate) calls: usize,
}

impl Notes {
    pub(crate) fn bytes(&self, token: Token) -> &[u8] {
        self.received.get(&token).map_or(&[], Vec::as_slice)
    }
}

impl Handler for Notes {
    fn accepted(&mut self, _io: &mut Io, token: Token, by: ListenerId, peer: SocketAddr) {
        self.listeners.push(by);
        self.accepted.push((token, peer));
    }

    fn learnt(&mut self, _io: &mut Io, token: Token, learnt: Learnt) {
        assert!(!self.received.contains_key(&token), "nothing is received before");
        self.learnt.push((token, learnt));
    }

    fn connected(&mut self, _io: &mut Io, token: Token) {
        self.connected.push(token);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        self.calls += 1;
        let mut consumed = bytes.len() - bytes.len() % self.group.max(1);
        if self.pauses {
            consumed = consumed.min(self.group);
            io.pause(token);
        }
        self.received.entry(token).or_default().extend(&bytes[..consumed]);
        if self.echoes {
            io.write(token, &bytes[..consumed]);
        }
        consumed
    }

    fn drained(&mut self, _io: &mut Io, token: Token) {
        self.drained.push(token);
    }

    fn closed(&mut self, _io: &mut Io, token: Token, cause: Closed) {
        self.closed.push((token, cause));
    }

    fn turn_end(&mut self, _io: &mut Io) {}
}

/// Runs a test over every back end that the system allows; in CI it has to allow all.
pub(crate) fn each(test: impl Fn(Backend)) {
    for backend in [Backend::Epoll, Backend::IoUring, Backend::Auto] {
        if let Err(error) = backend.check() {
            assert!(std::env::var_os("CI").is_none(), "{backend:?}: {error}");
            eprintln!("{backend:?} is not tested: {error}");
            continue;
        }
        eprintln!("{backend:?}");
        test(backend);
    }
}

pub(crate) fn reactor(backend: Backend) -> Reactor {
    Reactor::with_backend(Waker::new().unwrap(), backend).unwrap()
}

/// Listens on a port of the system's choice.
pub(crate) fn listen(reactor: &mut Reactor) -> SocketAddr {
    let listener = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    reactor.listen(ListenerId(0), listener, Transport::Plain).unwrap();
    address
}

/// Turns until `is_done`.
pub(crate) fn until(
    reactor: &mut Reactor,
    notes: &mut Notes,
    mut is_done: impl FnMut(&Notes) -> bool,
) {
    // Far too long to be met: who sleeps over something fails.
    let long = Duration::from_secs(60);
    let begun = Instant::now();
    while !is_done(notes) {
        reactor.turn(Some(long), notes).unwrap();
        assert!(begun.elapsed() < long, "what is awaited does not come");
    }
}

/// A reactor connected to itself: the near end connected, the far end was accepted.
pub(crate) fn pair(backend: Backend) -> (Reactor, Notes, Token, Token) {
    let mut reactor = reactor(backend);
    let address = listen(&mut reactor);
    let mut notes = Notes::default();
    let near = reactor.io().connect(&Transport::Plain, address, None).unwrap();
    until(&mut reactor, &mut notes, |notes| {
        !notes.accepted.is_empty() && !notes.connected.is_empty()
    });
    let far = notes.accepted[0].0;
    assert_eq!(notes.connected, [near]);
    (reactor, notes, near, far)
}
