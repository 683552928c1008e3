//! A layer that is done after the first bytes, and hands nothing on before it was asked.

use crate::support::{Notes, each, reactor, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_reactor::{Closed, Handler, Io, Learnt, ListenerId, Token, Transport};
use weir_transport::{Layer, Layers, Recipe, Stream, TransportError};

/// Counts calls of layers that are done, which none should get.
#[derive(Clone, Debug, Default)]
struct Openings(Arc<AtomicU64>);

#[derive(Debug)]
struct Opening {
    held: Vec<u8>,
    is_open: bool,
    calls: Arc<AtomicU64>,
}

impl Recipe for Openings {
    fn layers(&self) -> Layers {
        let calls = Arc::clone(&self.0);
        let layer: Box<dyn Layer> = Box::new(Opening { held: Vec::new(), is_open: false, calls });
        Layers::new([layer])
    }
}

impl Layer for Opening {
    fn begin(&mut self, _network: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        _network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        if self.is_open {
            assert_eq!(bytes, b"", "only what it held is asked for");
            plain.append(&mut self.held);
        } else {
            self.held = bytes[1..].to_vec();
            self.is_open = true;
        }
        Ok(Stream::Open)
    }

    fn send(&mut self, _plain: &[u8], _network: &mut Vec<u8>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&mut self, _network: &mut Vec<u8>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn held(&self) -> usize {
        0
    }

    fn learnt(&mut self) -> Learnt {
        Learnt { name: Some("ann".into()), ..Learnt::default() }
    }

    fn is_done(&self) -> bool {
        self.is_open && self.held.is_empty()
    }
}

fn listen(reactor: &mut weir_reactor::Reactor) -> (SocketAddr, Openings) {
    let openings = Openings::default();
    let listener = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let transport = Transport::Layered(Arc::new(openings.clone()));
    reactor.listen(ListenerId(0), listener, transport).unwrap();
    (address, openings)
}

#[test]
fn a_layer_that_is_done_leaves_and_what_it_held_is_heard_after_what_it_has_learnt() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, openings) = listen(&mut reactor);
        let mut notes = Notes { echoes: true, group: 4, ..Notes::default() };
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"!four and").unwrap();
        until(&mut reactor, &mut notes, |notes| !notes.received.is_empty());
        let (token, _) = notes.accepted[0];
        assert_eq!(
            notes.learnt,
            [(token, Learnt { name: Some("ann".into()), ..Learnt::default() })]
        );
        peer.write_all(b"four").unwrap();
        until(&mut reactor, &mut notes, |notes| notes.bytes(token).len() == 12);
        let mut echo = [0; 12];
        peer.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"four andfour");
        reactor.io().close(token);
        drop(peer);
        until(&mut reactor, &mut notes, |_| true);
        assert_eq!(openings.0.load(Ordering::Relaxed), 0);
    });
}

/// Lets nobody in.
#[derive(Default)]
struct Refuses(u32);

impl Handler for Refuses {
    fn learnt(&mut self, io: &mut Io, token: Token, _learnt: Learnt) {
        self.0 += 1;
        io.abort(token);
    }

    fn received(&mut self, _io: &mut Io, _token: Token, _bytes: &[u8]) -> usize {
        panic!("it was not let in")
    }

    fn closed(&mut self, _io: &mut Io, _token: Token, _cause: Closed) {}

    fn turn_end(&mut self, _io: &mut Io) {}
}

#[test]
fn who_is_not_let_in_by_what_was_learnt_is_not_heard() {
    each(|backend| {
        let mut reactor = reactor(backend);
        let (address, _) = listen(&mut reactor);
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"!more").unwrap();
        let mut refuses = Refuses::default();
        while refuses.0 == 0 || reactor.io().connections() > 0 {
            reactor.turn(Some(std::time::Duration::from_secs(60)), &mut refuses).unwrap();
        }
        // A direct descriptor is closed with what the next turn submits.
        reactor.turn(Some(std::time::Duration::ZERO), &mut refuses).unwrap();
        assert!(peer.read(&mut [0]).unwrap_or(0) == 0);
    });
}
