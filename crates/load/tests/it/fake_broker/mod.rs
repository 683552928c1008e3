//! A broker with known faults, to calibrate the load generator against.
//!
//! It routes, acknowledges and then does wrong by its seed: loses, duplicates, holds a message
//! back behind its successor, delays, refuses, forgets. It keeps its own list of every wrong it
//! did, found by other code than the ledger's.
#![expect(clippy::unwrap_used, reason = "a test fails where its fake does")]

mod conn;

pub(crate) use conn::{Faults, Lie};

use conn::Fake;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_load::outcome::Anomaly;
use weir_load::plan::{Group, Phases, Plan, Publish, Subscription};
use weir_load::{Interval, LoadError, Outcome};
use weir_reactor::{ListenerId, Reactor, Transport, Waker};

/// What the fake did. `publisher` of an anomaly is the stamp's number, not yet the client's.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) duplicated_with_dup: u64,
    pub(crate) published: u64,
    pub(crate) deliveries: u64,
    pub(crate) strays: u64,
    /// Deliveries that were altered.
    pub(crate) lies: u64,
    /// Deliveries that were sent out of time.
    pub(crate) late: u64,
    /// Messages that were refused or never acknowledged, and their deliveries.
    pub(crate) unaccepted: u64,
    pub(crate) unaccepted_deliveries: u64,
    /// Connections that ended with a DISCONNECT, and without.
    pub(crate) disconnects: u64,
    pub(crate) cut: u64,
}

/// A running fake.
pub(crate) struct FakeBroker {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Deeds>,
}

impl FakeBroker {
    pub(crate) fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // A reactor stays on its thread.
            let mut reactor = Reactor::new().unwrap();
            reactor.listen(ListenerId(0), listener, Transport::Plain).unwrap();
            tell.send(reactor.waker()).unwrap();
            let mut fake = Fake::new(faults);
            while !is_stopped.load(Ordering::Relaxed) {
                reactor.turn(fake.timeout(), &mut fake).unwrap();
                if fake.is_gone() {
                    reactor.stop_listening();
                }
            }
            fake.into_deeds()
        });
        let waker = told.recv().unwrap();
        Self { address, stop, waker, thread }
    }

    /// Ends the fake and tells what it did.
    pub(crate) fn stop(self) -> Deeds {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join().unwrap()
    }
}

/// Runs a plan by `run` against a fake: what the load generator says, and what the fake did.
pub(crate) fn run_against(
    faults: Faults,
    plan: &Plan,
    run: impl FnOnce(&Plan, &mut dyn FnMut(&Interval)) -> Result<Outcome, LoadError>,
) -> (Outcome, Deeds) {
    let fake = FakeBroker::start(faults);
    let plan = Plan { target: fake.address, ..plan.clone() };
    let mut heard = 0;
    let outcome = run(&plan, &mut |_| heard += 1).unwrap();
    assert_eq!(heard, outcome.intervals.len(), "every interval is told as it ends");
    (outcome, fake.stop())
}

/// A plan of number 7 and of a second, for [`run_against`].
pub(crate) fn plan(groups: Vec<Group>) -> Plan {
    let phases = Phases { warm_up_ms: 200, measure_ms: 1_000, drain_ms: 1_500 };
    Plan { run: 7, ..Plan::new(([127, 0, 0, 1], 1).into(), groups, phases) }
}

fn group(name: &str, clients: u32) -> Group {
    let client_id = format!("w{{run}}-{name}-{{i}}");
    Group { name: name.into(), clients, client_id, ..Group::default() }
}

pub(crate) fn subscribers(clients: u32, filters: &[&str], qos: u8) -> Group {
    let subscriptions = filters.iter().map(|&filter| Subscription::plain(filter, qos)).collect();
    Group { subscriptions, ..group("sub", clients) }
}

/// Each publishes to a topic of its own, `t{run}/{i}`.
pub(crate) fn publishers(clients: u32, rate_per_s: f64, qos: u8) -> Group {
    let (topic, payload_bytes) = ("t{run}/{i}".into(), 32);
    let publish = Publish { topic, qos, rate_per_s, payload_bytes, ..Publish::default() };
    Group { publish: Some(publish), ..group("pub", clients) }
}
