//! A node's membership: what it asks etcd, and what it is told.

use super::ClusterConfig;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use weir_cluster::{
    Ask, BadSettings, Busy, Cas, Collected, Event, Failure, Incarnation, Members, Node,
    NotForgotten, NotOpened, Revision, Said, Seat, Slot, Ticket,
};
use weir_core::Micros;
use weir_etcd::{Etcd, StartError};
use weir_reactor::{Waker, now_us};
use weir_transport::tls::{ClientError, PemError};

/// How long a start waits for its place: another node may keep its name until a lease has ended.
const PLACE_MAX: Duration = Duration::from_secs(60);

/// After how long it says what it waits for.
const SAY_AFTER: Duration = Duration::from_secs(3);

/// Tickets of what is asked beside the membership.
const OWN_TICKETS: u64 = 1 << 63;

/// Why there is no membership.
#[derive(Debug, thiserror::Error)]
pub enum NoPlace {
    /// The settings.
    #[error("cluster")]
    Settings(#[from] BadSettings),
    /// The settings of etcd, or no thread for it.
    #[error("cluster.etcd")]
    Etcd(#[from] StartError),
    /// A file of the settings cannot be read.
    #[error("{key}: cannot read {}: {error}", path.display())]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file of the settings is not what it should be.
    #[error("{key}: {}: {error}", path.display())]
    Pem {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: PemError,
    },
    /// What is in the files of `[cluster.tls]` does not go together.
    #[error("cluster.tls: {0}")]
    Tls(ClientError),
    /// A user without a password, or the other way round.
    #[error("cluster.etcd_user and cluster.etcd_password_file go together")]
    HalfUser,
    /// Nobody gave it one.
    #[error(
        "this node got no place in the cluster within {} s: look whether etcd answers at the \
         addresses of cluster.etcd, and whether another node has this name", PLACE_MAX.as_secs()
    )]
    Late,
}

/// The membership of this node, and the thread that asks etcd for it.
pub(crate) struct Membership {
    members: Members,
    etcd: Etcd,
    /// What has happened when something was asked for beside, and was not heard.
    unheard: Vec<Event>,
}

/// A membership that has begun.
pub(crate) struct Seated {
    pub(crate) membership: Membership,
    pub(crate) node: Node,
    /// What all nodes' hashes begin with.
    pub(crate) seed: u64,
}

impl Membership {
    /// Takes a place, and waits until it has one. `waker` is used when there is something to
    /// [`Membership::hear`].
    pub(crate) fn take(
        config: &ClusterConfig,
        (shards, former): (u16, Vec<Incarnation>),
        waker: Waker,
    ) -> Result<Seated, NoPlace> {
        let random = || getrandom::u64().map_err(|error| StartError::System(error.into()));
        let settings = config.settings(shards, former);
        let (members, proposal) = (Members::new(settings, random()?)?, random()?);
        let (bell, rings) = sync_channel(1);
        let wake = move || {
            let _ = bell.try_send(());
            waker.wake();
        };
        let etcd = Etcd::start(&config.etcd()?, wake)?;
        let membership = Self { members, etcd, unheard: Vec::new() };
        membership.wait(config, proposal, &rings)
    }

    /// Until the place and the seed are there.
    fn wait(
        mut self,
        config: &ClusterConfig,
        proposal: u64,
        rings: &Receiver<()>,
    ) -> Result<Seated, NoPlace> {
        let begun = Instant::now();
        let mut seed = Seed::new(config, proposal);
        seed.ask(&self.etcd);
        let (mut node, mut has_said) = (None, false);
        while begun.elapsed() < PLACE_MAX {
            let mut others = Vec::new();
            for event in self.hear_all(&mut others) {
                match event {
                    Event::Seated(seated) => node = Some(seated),
                    Event::Notice(notice) => tracing::warn!("cluster: {notice}"),
                    _ => {}
                }
            }
            others.into_iter().for_each(|(ticket, said)| seed.hear(ticket, said, &self.etcd));
            if let (Some(node), Some(seed)) = (&node, seed.known)
                && self.members.acts_until().is_some()
            {
                return Ok(Seated { node: node.clone(), seed, membership: self });
            }
            if begun.elapsed() >= SAY_AFTER && !std::mem::replace(&mut has_said, true) {
                tracing::info!(etcd = ?config.etcd, "waiting for a place in the cluster");
            }
            let due = self
                .members
                .poll_timeout()
                .map_or(1_000_000, |due| due.0.saturating_sub(now_us()).clamp(1_000, 1_000_000));
            match rings.recv_timeout(Duration::from_micros(due)) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(NoPlace::Late)
    }

    /// Takes what etcd has said, and does what is due. Returns what has happened.
    pub(crate) fn hear(&mut self) -> Vec<Event> {
        self.hear_all(&mut Vec::new())
    }

    /// They come once more, before the next.
    pub(crate) fn hear_later(&mut self, events: Vec<Event>) {
        self.unheard = events;
    }

    fn hear_all(&mut self, others: &mut Vec<(Ticket, Said)>) -> Vec<Event> {
        let mut all = std::mem::take(&mut self.unheard);
        while let Some((ticket, said)) = self.etcd.said() {
            match ticket.0 >= OWN_TICKETS {
                true => others.push((ticket, said)),
                false => self.act(&mut all, |members, now, desk| {
                    members.handle(ticket, said, now, desk);
                }),
            }
        }
        if self.members.poll_timeout().is_some_and(|due| due.0 <= now_us()) {
            self.act(&mut all, Members::handle_timeout);
        }
        all
    }

    /// Has the membership do something, and what follows of it.
    fn act(
        &mut self,
        all: &mut Vec<Event>,
        call: impl FnOnce(&mut Members, Micros, &mut Collected),
    ) {
        let Self { members, etcd, .. } = self;
        let mut done = Collected::default();
        call(members, Micros(now_us()), &mut done);
        while !(done.asks.is_empty() && done.events.is_empty()) {
            let Collected { asks, events } = std::mem::take(&mut done);
            for (ticket, ask) in asks {
                if etcd.ask(ticket, ask).is_err() {
                    // It rests before it asks again.
                    let said = Said::Failed(Failure::Unavailable);
                    members.handle(ticket, said, Micros(now_us()), &mut done);
                }
            }
            for event in events {
                // Nothing is done for partitions of client identifiers yet.
                if let Event::Release { number, .. } = event {
                    members.released(number, Micros(now_us()), &mut done);
                } else {
                    all.push(event);
                }
            }
        }
    }

    /// When [`Membership::hear`] is due, if nothing is said.
    pub(crate) fn due(&self) -> Option<Micros> {
        self.members.poll_timeout()
    }

    /// Until when this node may act, if it may.
    pub(crate) fn acts_until(&self) -> Option<Micros> {
        self.members.acts_until()
    }

    /// Whether it may.
    pub(crate) fn may_act(&self) -> bool {
        self.acts_until().is_some_and(|until| now_us() < until.0)
    }

    /// This node, while it has its place.
    pub(crate) fn seat(&self) -> Option<&Node> {
        self.members.seat()
    }

    /// The other members.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Node> {
        let own = self.members.seat().map(|seat| seat.place.slot);
        self.members.nodes().filter(move |node| Some(node.place.slot) != own)
    }

    /// All that is known of the cluster.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// See [`Members::forget`]. What has happened is added to the events.
    ///
    /// # Errors
    /// Not this node, or not now.
    pub(crate) fn forget(
        &mut self,
        name: &str,
        events: &mut Vec<Event>,
    ) -> Result<(), NotForgotten> {
        let mut said = Ok(());
        self.act(events, |members, now, desk| said = members.forget(name, now, desk));
        said
    }

    /// Asks for a change from outside a round: what has happened is told with the next one.
    fn ask<E>(
        &mut self,
        call: impl FnOnce(&mut Members, Micros, &mut Collected) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut said = Ok(());
        let mut events = std::mem::take(&mut self.unheard);
        self.act(&mut events, |members, now, desk| said = call(members, now, desk));
        self.unheard = events;
        said
    }

    /// See [`Members::keep_log_at`].
    pub(crate) fn keep_log_at(&mut self, keepers: Vec<Seat>) -> Result<(), Busy> {
        self.ask(|members, now, desk| members.keep_log_at(keepers, now, desk))
    }

    /// See [`Members::open_log_of`].
    pub(crate) fn open_log_of(&mut self, slot: Slot) -> Result<(), NotOpened> {
        self.ask(|members, now, desk| members.open_log_of(slot, now, desk))
    }

    /// See [`Members::give_back_log_of`].
    pub(crate) fn give_back_log_of(&mut self, slot: Slot) -> Result<(), NotOpened> {
        self.ask(|members, now, desk| members.give_back_log_of(slot, now, desk))
    }

    /// See [`Members::close_log_of`].
    pub(crate) fn close_log_of(&mut self, slot: Slot) -> Result<(), NotOpened> {
        self.ask(|members, now, desk| members.close_log_of(slot, now, desk))
    }

    /// Gives its place back, so that the others do not wait for it.
    pub(crate) fn leave(&mut self) {
        self.act(&mut Vec::new(), Members::leave);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.members.has_left()
    }
}

/// The number that the hashes of all nodes begin with: the first node writes it.
struct Seed {
    key: String,
    proposal: u64,
    tickets: u64,
    known: Option<u64>,
}

impl Seed {
    fn new(config: &ClusterConfig, proposal: u64) -> Self {
        let key = format!("weir-seed/{}", config.name);
        Self { key, proposal, tickets: OWN_TICKETS, known: None }
    }

    fn ask(&mut self, etcd: &Etcd) {
        self.tickets += 1;
        let _ = etcd.ask(Ticket(self.tickets), Ask::Get { key: self.key.clone() });
    }

    fn hear(&mut self, ticket: Ticket, said: Said, etcd: &Etcd) {
        if ticket.0 != self.tickets || self.known.is_some() {
            return;
        }
        match said {
            Said::Found { records, .. } => {
                let text =
                    records.first().and_then(|record| std::str::from_utf8(&record.value).ok());
                self.known = text.and_then(|text| u64::from_str_radix(text, 16).ok());
                if self.known.is_none() {
                    let revision = records.first().map_or(Revision::NONE, |record| record.revision);
                    self.tickets += 1;
                    let cas = Cas {
                        key: self.key.clone(),
                        value: Some(format!("{:016x}", self.proposal).into_bytes()),
                        lease: None,
                        compared: vec![(self.key.clone(), revision)],
                    };
                    let _ = etcd.ask(Ticket(self.tickets), Ask::Cas(cas));
                }
            }
            // Written, by this node or another: it is read.
            _ => self.ask(etcd),
        }
    }
}
