//! Who answers at the door while the store is read: a thread that takes connections and refuses
//! them with a reason, so that clients neither hang nor take the broker for gone.
//!
//! A start that is quick refuses nobody: until [`GRACE`] has passed, who comes waits for the
//! shards. Where somebody else keeps the address, as systemd does, that is until [`PATIENCE`] has.

use crate::listener::{Doors, Front, Listener};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_reactor::{Closed, Io, ListenerId, Reactor, Token, Waker};
use weir_wire::packet::{ConnAck, Connect};
use weir_wire::{Frame, Packet, PropertiesBuf, Property, ReasonCode, Version};

/// Who comes this long after the start, or earlier, may still be served.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// The same of those who come by a socket that was passed: they came while no broker ran at all,
/// and are not to notice that one takes the place of another. Clients wait about as long for a
/// CONNACK.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The longest CONNECT that is read before it is refused.
const CONNECT_BYTES_MAX: u32 = 64 * 1024;

/// Connections whose CONNECT has not come; beyond them the oldest ends.
const WAITING_MAX: usize = 1_000;

/// The thread; it ends with this.
pub(crate) struct Doorman {
    over: Option<Sender<()>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Doorman {
    /// Refuses who is there once `grace` has passed, or `patience` where the socket was passed.
    ///
    /// # Errors
    /// What the system says of threads and sockets.
    pub(crate) fn start(
        listeners: &[Listener],
        doors: &Doors,
        (grace, patience): (Duration, Duration),
    ) -> io::Result<Self> {
        let listeners: io::Result<Vec<_>> = listeners.iter().map(Listener::try_clone).collect();
        let (listeners, waker) = (listeners?, Waker::new()?);
        let (over, is_over) = channel();
        let (own, doors) = (waker.clone(), Arc::clone(doors));
        let begin = Instant::now();
        let run = move || {
            let (passed, own_ones): (Vec<_>, Vec<_>) =
                listeners.into_iter().partition(|listener| listener.is_passed);
            let first = if own_ones.is_empty() { patience } else { grace };
            if is_over.recv_timeout(first) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let later = (passed, begin + patience);
            if let Err(error) = refuse(own_ones, later, doors, own, &is_over) {
                tracing::warn!(%error, "clients are not told that the store is still read");
            }
        };
        let thread = std::thread::Builder::new().name("doorman".into()).spawn(run)?;
        Ok(Self { over: Some(over), waker, thread: Some(thread) })
    }
}

impl Drop for Doorman {
    fn drop(&mut self) {
        self.over = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, the shards serve all the same.
            let _ = thread.join();
        }
    }
}

fn refuse(
    listeners: Vec<Listener>,
    (mut later, at): (Vec<Listener>, Instant),
    doors: Doors,
    waker: Waker,
    is_over: &Receiver<()>,
) -> io::Result<()> {
    let mut reactor = Reactor::with_waker(waker)?;
    for Listener { id, socket, transport, .. } in listeners {
        reactor.listen(id, socket, transport)?;
    }
    let mut refuser = Refuser { doors, waiting: VecDeque::new(), refused: 0 };
    while is_over.try_recv() == Err(TryRecvError::Empty) {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            for Listener { id, socket, transport, .. } in later.drain(..) {
                reactor.listen(id, socket, transport)?;
            }
        }
        reactor.turn((!later.is_empty()).then_some(left), &mut refuser)?;
    }
    tracing::info!(connections = refuser.refused, "were refused while the store was read");
    Ok(())
}

struct Refuser {
    doors: Doors,
    /// Oldest first.
    waiting: VecDeque<Token>,
    refused: u64,
}

impl weir_reactor::Handler for Refuser {
    fn accepted(&mut self, io: &mut Io, token: Token, by: ListenerId, peer: SocketAddr) {
        let door = self.doors.get(usize::from(by.0)).and_then(Option::as_ref);
        if door.is_some_and(|door| door.front(peer.ip()) == Front::Stranger) {
            return io.abort(token);
        }
        if self.waiting.len() == WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            io.abort(oldest);
        }
        self.waiting.push_back(token);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let connect = match Frame::check(bytes, CONNECT_BYTES_MAX) {
            Ok(None) => return 0,
            Ok(Some(frame)) => Packet::decode(Version::V5, frame),
            Err(error) => Err(error),
        };
        self.waiting.retain(|&one| one != token);
        self.refused += 1;
        match connect {
            Ok(Packet::Connect(Connect { version, .. })) => {
                let mut answer = Vec::new();
                refusal(version, &mut answer);
                io.write(token, &answer);
                io.close(token);
            }
            Ok(_) | Err(_) => io.abort(token),
        }
        bytes.len()
    }

    fn closed(&mut self, _: &mut Io, token: Token, _: Closed) {
        self.waiting.retain(|&one| one != token);
    }

    fn turn_end(&mut self, _: &mut Io) {}
}

fn refusal(version: Version, out: &mut Vec<u8>) {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::ReasonString("the broker is starting: it still reads its store"));
    let reason = ReasonCode::ServerUnavailable;
    ConnAck { session_present: false, reason, properties: properties.as_properties() }
        .encode(version, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{Door, ListenerConfig};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use weir_reactor::Transport;

    const AT_ONCE: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

    #[test]
    fn who_comes_by_a_socket_that_was_passed_waits_for_the_shards() {
        let socket = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, accepting) = (socket.local_addr().unwrap(), socket.try_clone().unwrap());
        let (id, transport, is_passed) = (ListenerId(0), Transport::Plain, true);
        let listeners = [Listener { id, socket: socket.into(), transport, is_passed }];
        let patience = (Duration::ZERO, Duration::from_secs(600));
        let doorman = Doorman::start(&listeners, &vec![None].into(), patience).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        drop(doorman);
        assert!(accepting.accept().is_ok(), "nobody else has taken it");
    }

    #[test]
    fn who_comes_is_refused_and_whoever_is_silent_hears_of_the_end() {
        let socket = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, accepting) = (socket.local_addr().unwrap(), socket.try_clone().unwrap());
        let (id, transport) = (ListenerId(0), Transport::Plain);
        let (socket, is_passed) = (socket.into(), false);
        let listeners = [Listener { id, socket, transport, is_passed }];
        let doors = vec![None].into();
        let doorman = Doorman::start(&listeners, &doors, AT_ONCE).unwrap();
        let mut silent = TcpStream::connect(address).unwrap();
        // MQTT 5.0, a clean start, no client identifier.
        let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0, 0, 0];
        for (version, code) in [(4, 3), (5, 0x88)] {
            let mut connect = connect.to_vec();
            connect[8] = version;
            if version == 4 {
                // There are no properties.
                connect.pop();
                connect[1] -= 1;
            }
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(&connect).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            assert_eq!((answer[0], answer[3]), (0x20, code), "{answer:?}");
        }
        drop(doorman);
        // By an end or by a reset.
        assert!(silent.read(&mut [0]).unwrap_or(0) == 0);
        // Who comes now is left to the shards.
        let _client = TcpStream::connect(address).unwrap();
        assert!((0..1_000).any(|_| {
            std::thread::yield_now();
            accepting.accept().is_ok()
        }));
    }

    #[test]
    fn proxies_are_refused_for_their_clients_and_others_are_cut() {
        let config = |from: &str| -> ListenerConfig {
            let text = format!("address = \"127.0.0.1:0\"\n[proxy]\nfrom = [{from:?}]\n");
            toml::from_str(&text).unwrap()
        };
        let answer = |from: &str| {
            let socket = weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap();
            let door = Arc::new(Door::open(&config(from), &mut Vec::new()).unwrap().unwrap());
            let transport = Transport::Layered(Arc::<Door>::clone(&door));
            let (id, socket, is_passed) = (ListenerId(0), socket.into(), true);
            let listeners = [Listener { id, socket, transport, is_passed }];
            let doors = vec![Some(door)].into();
            let _doorman = Doorman::start(&listeners, &doors, AT_ONCE).unwrap();
            let mut client = TcpStream::connect(address).unwrap();
            let connect = b"\x10\x0C\0\x04MQTT\x04\x02\0\0\0\0";
            // One that is cut may not get that far.
            let _ = client.write_all(&[&b"PROXY UNKNOWN\r\n"[..], connect].concat());
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer);
            answer
        };
        assert_eq!(answer("127.0.0.0/8"), [0x20, 2, 0, 3]);
        assert_eq!(answer("192.0.2.0/24"), b"");
    }

    #[test]
    fn each_version_has_its_code_for_a_server_that_is_not_available() {
        for (version, code) in [(Version::V31, 3), (Version::V311, 3), (Version::V5, 0x88)] {
            let mut out = Vec::new();
            refusal(version, &mut out);
            assert_eq!(out[3], code, "{version:?}");
        }
    }
}
