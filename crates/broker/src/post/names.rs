//! Where other nodes are. To look up a name may take long, and the post has a lease to renew: that
//! is done on a thread of its own, and again from time to time while there is no connection, since
//! a node may have moved.

use super::member::Peer;
use super::search::{AGAIN, Found};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_carrier::Carrier;
use weir_cluster::{SLOTS, Slot};
use weir_core::Micros;
use weir_reactor::Waker;

/// Names that wait for the thread. One for which there is no room is asked for again later.
const NAMES_MAX: usize = SLOTS as usize;

/// Addresses of one name that are looked at.
const ADDRESSES_MAX: usize = 16;

/// What finds that.
type Resolve = dyn Fn(&str) -> Found + Send + Sync;

/// The names of nodes, and the thread that looks them up. There is none before a name is asked for.
pub(crate) struct Names {
    resolve: Arc<Resolve>,
    /// Of who hears the answers.
    waker: Waker,
    thread: Option<Thread>,
}

/// It ends when this is dropped and it has looked up what it is at. Nobody waits for that: it may
/// take longer than a stop should.
struct Thread {
    names: SyncSender<String>,
    found: Receiver<(String, Found)>,
}

impl Names {
    /// Those that the system knows.
    pub(crate) fn new(waker: Waker) -> Self {
        let resolve = |name: &str| {
            let found: Vec<SocketAddr> = name.to_socket_addrs()?.take(ADDRESSES_MAX).collect();
            match found.is_empty() {
                true => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address")),
                false => Ok(found),
            }
        };
        Self { resolve: Arc::new(resolve), waker, thread: None }
    }

    /// Asks where those nodes are that the carrier seeks, and tells it what was found.
    pub(super) fn seek(
        &mut self,
        peers: &mut BTreeMap<Slot, Peer>,
        carrier: &mut impl Carrier,
        now: Micros,
    ) {
        while let Some((name, found)) = self.hear() {
            for (&slot, Peer { member, search, .. }) in peers.iter_mut() {
                if member.address == name
                    && let Some(addresses) = search.heard(&member.name, &name, &found, now)
                {
                    carrier.found(slot, addresses);
                }
            }
        }
        for (&slot, Peer { member, search, .. }) in peers {
            if search.due.is_some_and(|due| due <= now) && carrier.seeks(slot) {
                let (node, address) = (&member.name, &member.address);
                match self.ask(address) {
                    Ok(is_asked) => search.due = (!is_asked).then_some(now + AGAIN),
                    Err(error) => _ = search.heard(node, address, &Err(error), now),
                }
            }
        }
    }

    /// When [`Names::seek`] is due, if nothing is found.
    pub(super) fn due(peers: &BTreeMap<Slot, Peer>, carrier: &impl Carrier) -> Option<Micros> {
        let sought = peers.iter().filter(|(slot, _)| carrier.seeks(**slot));
        sought.filter_map(|(_, peer)| peer.search.due).min()
    }

    fn hear(&self) -> Option<(String, Found)> {
        self.thread.as_ref()?.found.try_recv().ok()
    }

    /// Whether there was room for the question.
    fn ask(&mut self, name: &str) -> io::Result<bool> {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => Thread::start(Arc::clone(&self.resolve), self.waker.clone())?,
        };
        let asked = thread.names.try_send(name.to_owned());
        self.thread = Some(thread);
        Ok(asked.is_ok())
    }
}

impl Thread {
    fn start(resolve: Arc<Resolve>, waker: Waker) -> io::Result<Self> {
        let (names, asked) = sync_channel::<String>(NAMES_MAX);
        let (answers, found) = sync_channel(NAMES_MAX);
        let run = move || {
            for name in asked {
                let found = resolve(&name);
                if answers.send((name, found)).is_err() {
                    return;
                }
                waker.wake();
            }
        };
        std::thread::Builder::new().name("names".into()).spawn(run)?;
        Ok(Self { names, found })
    }
}

#[cfg(test)]
mod tests {
    use super::super::member::tests::peer;
    use super::super::search::Search;
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;
    use weir_carrier::{NodeAddress, Post};

    /// It is connected to nobody.
    #[derive(Default)]
    struct Unconnected {
        /// It seeks no node.
        is_connected: bool,
        found: Vec<(Slot, Vec<SocketAddr>)>,
    }

    impl Carrier for Unconnected {
        fn waker(&self) -> Waker {
            unreachable!("nobody asks")
        }

        fn join(&mut self, _node: Slot, _at: NodeAddress) {}

        fn seeks(&self, _node: Slot) -> bool {
            !self.is_connected
        }

        fn found(&mut self, node: Slot, addresses: &[SocketAddr]) {
            self.found.push((node, addresses.to_vec()));
        }

        fn leave(&mut self, _node: Slot) {}

        fn turn(&mut self, _: Option<Duration>, _: &mut dyn Post) -> io::Result<()> {
            unreachable!("nobody asks")
        }
    }

    /// What the resolver is asked, and what it says to that when it is told to.
    struct Desk {
        names: Names,
        peers: BTreeMap<Slot, Peer>,
        carrier: Unconnected,
        asked: Receiver<String>,
        says: Sender<Found>,
    }

    impl Desk {
        fn new(addresses: &[&str]) -> Self {
            let (asks, asked) = channel();
            let (says, said) = channel();
            let both = std::sync::Mutex::new((asks, said));
            let resolve = move |name: &str| {
                let (asks, said) = &*both.lock().unwrap();
                asks.send(name.to_owned()).unwrap();
                said.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            };
            let (resolve, waker) = (Arc::new(resolve), Waker::new().unwrap());
            Self {
                names: Names { resolve, waker, thread: None },
                peers: (0..).zip(addresses).map(|(slot, address)| peer(slot, address)).collect(),
                carrier: Unconnected::default(),
                asked,
                says,
            }
        }

        fn seek(&mut self, now: u64) {
            self.names.seek(&mut self.peers, &mut self.carrier, Micros(now));
        }

        /// The thread has its answer, and the post has heard it.
        fn answer(&mut self, found: Found, now: u64) {
            self.says.send(found).unwrap();
            let before = Names::due(&self.peers, &self.carrier);
            while Names::due(&self.peers, &self.carrier) == before {
                self.seek(now);
                std::thread::yield_now();
            }
        }

        fn failure(&self, slot: u8) -> Option<&str> {
            self.peers[&Slot(slot)].search.failure()
        }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_node_is_found_once_its_name_resolves_and_again_when_it_has_moved() {
        let mut desk = Desk::new(&["a.lab:7883"]);
        assert_eq!(Names::due(&desk.peers, &desk.carrier), Some(Micros(0)));
        desk.seek(1);
        assert_eq!(desk.asked.recv().unwrap(), "a.lab:7883");
        // However long it takes, it is asked for once, and nobody waits.
        desk.seek(100_000_000);
        assert_eq!(Names::due(&desk.peers, &desk.carrier), None);
        desk.answer(Err(io::Error::other("no such name")), 100_000_000);
        assert_eq!(desk.failure(0), Some("no such name"));
        assert_eq!(Names::due(&desk.peers, &desk.carrier), Some(Micros(102_000_000)));
        desk.seek(101_999_999);
        assert!(desk.asked.try_recv().is_err(), "it is not due");
        desk.seek(102_000_000);
        let addresses = vec![at("10.0.0.1:7883"), at("10.0.0.2:7883")];
        desk.answer(Ok(addresses.clone()), 102_000_000);
        assert_eq!(desk.failure(0), None);
        assert_eq!(desk.carrier.found, [(Slot(0), addresses)]);
        // Nobody asks while there is a connection.
        assert_eq!(desk.asked.recv().unwrap(), "a.lab:7883");
        desk.carrier.is_connected = true;
        desk.seek(200_000_000);
        assert_eq!(Names::due(&desk.peers, &desk.carrier), None);
        assert!(desk.asked.try_recv().is_err(), "it is connected");
        desk.carrier.is_connected = false;
        desk.seek(200_000_001);
        desk.answer(Ok(vec![at("10.0.0.3:7883")]), 200_000_001);
        assert_eq!(desk.carrier.found[1], (Slot(0), vec![at("10.0.0.3:7883")]));
    }

    #[test]
    fn an_address_that_is_one_needs_no_thread() {
        let mut desk = Desk::new(&["10.0.0.1:7883", "[::1]:7883"]);
        desk.seek(1);
        assert!(desk.names.thread.is_none());
        assert_eq!(Names::due(&desk.peers, &desk.carrier), None);
        assert_eq!(Search::new("[::1]:7883").1, [at("[::1]:7883")]);
        assert!(Search::new("a.lab:7883").1.is_empty());
    }

    #[test]
    fn names_for_which_there_is_no_room_are_asked_for_later() {
        let mut desk = Desk::new(&["a.lab:1"]);
        desk.seek(1);
        // The thread has taken it.
        desk.asked.recv().unwrap();
        (0..NAMES_MAX).for_each(|_| assert!(desk.names.ask("b.lab:1").unwrap()));
        assert!(!desk.names.ask("b.lab:1").unwrap());
        desk.peers.extend([peer(1, "c.lab:1")]);
        desk.seek(2);
        assert_eq!(Names::due(&desk.peers, &desk.carrier), Some(Micros(2) + AGAIN));
    }

    #[test]
    fn the_thread_ends_with_the_post() {
        let Desk { mut names, asked, says, .. } = Desk::new(&[]);
        names.ask("a.lab:1").unwrap();
        asked.recv().unwrap();
        let resolve = Arc::downgrade(&names.resolve);
        drop(names);
        // What it is at is looked up first.
        assert_eq!(resolve.strong_count(), 1);
        says.send(Ok(Vec::new())).unwrap();
        while resolve.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_the_system_does_not_know_is_an_error() {
        let names = Names::new(Waker::new().unwrap());
        assert_eq!((names.resolve)("127.0.0.1:1").unwrap(), [at("127.0.0.1:1")]);
        // It is no name, so that nobody is asked.
        assert!((names.resolve)("a.lab").is_err());
    }
}
