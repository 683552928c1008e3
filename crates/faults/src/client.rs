//! What publishers and subscribers share: the run that they are in, and how they come to nodes.

use crate::ledger::{At, Ledger};
use crate::network::address;
use crate::plan::{Fault, NODES};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use weir_bench::driver::Login;
use weir_chance::Chance;
use weir_crash::link::{Link, Place, Welcome};
use weir_wire::packet::Disconnect;
use weir_wire::{Packet, Properties, ReasonCode, Version};

/// How long the network may take.
const REACH_MAX: Duration = Duration::from_secs(1);

/// How long CONNACK may take: a node waits for a lost one until that one's lease has ended.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// They publish and wander.
    Load,
    /// They wait for what is on its way.
    Drain,
    /// They end.
    End,
}

/// What all share.
#[derive(Debug)]
pub(crate) struct Run {
    begin: Instant,
    phase: AtomicU8,
    ledger: Mutex<Ledger>,
    fault: Mutex<Option<Fault>>,
    /// How many subscribers have subscribed.
    pub(crate) subscribed: AtomicUsize,
}

impl Run {
    pub(crate) fn new(ledger: Ledger) -> Self {
        let (ledger, fault) = (Mutex::new(ledger), Mutex::new(None));
        let (phase, subscribed) = (AtomicU8::new(Phase::Drain as u8), AtomicUsize::new(0));
        Self { begin: Instant::now(), phase, ledger, fault, subscribed }
    }

    pub(crate) fn now(&self) -> At {
        self.begin.elapsed()
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no client panics while it writes")
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// There is a fault from now on, or none.
    pub(crate) fn suffer(&self, fault: Option<Fault>) {
        *self.fault.lock().expect("nothing panics here") = fault;
    }

    /// Whether the fault of these seconds is of a kind.
    pub(crate) fn is_hit(&self, is_so: impl FnOnce(&Fault) -> bool) -> bool {
        self.fault.lock().expect("nothing panics here").as_ref().is_some_and(is_so)
    }
}

/// Where a client connects.
pub(crate) fn place(node: usize, answer_max: Duration) -> Place {
    Place {
        target: SocketAddr::new(address(node), 1883),
        version: Version::V5,
        login: Login::default(),
        reach_max: REACH_MAX,
        answer_max,
    }
}

/// A client on its way between nodes.
#[derive(Debug)]
pub(crate) struct Traveller {
    pub(crate) client_id: String,
    pub(crate) session: usize,
    pub(crate) pinned: Option<usize>,
    pub(crate) node: usize,
    /// Whether a node has said that there is a session.
    pub(crate) is_known: bool,
    /// A node may have begun a session and could not say so.
    pub(crate) may_be_anew: bool,
    pub(crate) chance: Chance,
}

/// A connection that a traveller has come to.
pub(crate) struct Arrived {
    pub(crate) link: Link,
    /// Its number in the ledger.
    pub(crate) connection: usize,
    pub(crate) begun: Begun,
}

/// When the session of a connection was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Now, for the first time.
    First,
    /// It is the one that the client had.
    Before,
    /// Now, and the client had one.
    Anew,
    /// It is there, but a node may have begun it that could not say so.
    Perhaps,
}

impl Traveller {
    pub(crate) fn new(run: &Run, client_id: &str, number: usize, pins: bool, seed: u64) -> Self {
        let pinned = pins.then_some(number % NODES);
        let session = run.ledger().session(client_id, pinned);
        let mut chance = Chance::new(seed ^ weir_chance::mix(session as u64 + 1));
        let node = pinned.unwrap_or_else(|| chance.below(NODES));
        let (client_id, is_known, may_be_anew) = (client_id.into(), false, false);
        Self { client_id, session, pinned, node, is_known, may_be_anew, chance }
    }

    /// Connects to its node.
    pub(crate) fn come(&mut self, run: &Run) -> io::Result<Arrived> {
        run.ledger().visit(self.session, self.node);
        let place = place(self.node, ANSWER_MAX);
        let came = Link::connect(&place, &self.client_id, !self.is_known, true);
        let (link, Welcome { is_session_present, .. }) = came.inspect_err(|error| {
            self.may_be_anew |= error.kind() != io::ErrorKind::ResourceBusy;
        })?;
        let is_unsure = std::mem::take(&mut self.may_be_anew) && self.is_known;
        let is_same = is_session_present && self.is_known;
        let connection = run.ledger().connected(self.session, self.node, run.now());
        let begun = match (is_same, std::mem::replace(&mut self.is_known, true)) {
            (true, _) if is_unsure => Begun::Perhaps,
            (true, _) => Begun::Before,
            (false, true) => Begun::Anew,
            (false, false) => Begun::First,
        };
        Ok(Arrived { link, connection, begun })
    }

    /// Goes elsewhere, if it does.
    pub(crate) fn go_on(&mut self) {
        if self.pinned.is_none() {
            self.node = self.chance.below(NODES);
        }
    }

    /// How long it stays at a node.
    pub(crate) fn stay(&mut self) -> Duration {
        match self.pinned {
            Some(_) => Duration::MAX,
            None => Duration::from_millis(2_000 + self.chance.below(8_000) as u64),
        }
    }
}

/// Ends a connection as the protocol has it.
pub(crate) fn say_goodbye(link: &mut Link) -> io::Result<()> {
    let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
    link.push(&Packet::Disconnect(Disconnect { reason, properties }));
    link.flush()
}
