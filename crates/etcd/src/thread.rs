//! The thread that asks etcd: questions side by side, watches until they fail.

use crate::gateway::{Gateway, NoAnswer};
use crate::messages;
use crate::settings::{BadEtcd, EtcdSettings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use weir_cluster::{Ask, Failure, Said, Ticket};

/// Questions that wait, questions that are asked, and answers that wait, each at most.
const ASKS_MAX: usize = 64;
const OPEN_MAX: usize = 64;
const SAID_MAX: usize = 256;

/// How long a log keeps silent about an etcd that does not answer.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// The way to the thread, which ends with it.
#[derive(Debug)]
pub struct Etcd {
    asks: Sender<(Ticket, Ask)>,
    said: Receiver<(Ticket, Said)>,
}

/// Too many questions wait, or the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Why there is no thread.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] BadEtcd),
    /// What the system says of a thread and of what a runtime needs.
    #[error("the thread that asks etcd cannot be started: {0}")]
    System(#[from] std::io::Error),
}

impl Etcd {
    /// Looks whether the settings can be, with the file that they name. Nobody is asked.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(settings: &EtcdSettings) -> Result<(), StartError> {
        Ok(Gateway::new(settings).map(drop)?)
    }

    /// Starts the thread. `wake` is called there when something was said.
    ///
    /// # Errors
    /// The settings cannot be, or the system refuses.
    pub fn start(
        settings: &EtcdSettings,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, StartError> {
        // It is made here to check it, and there since it stays on its thread.
        Self::check(settings)?;
        let runtime = weir_http::runtime()?;
        let ((asks, given), (to, said)) = (channel(ASKS_MAX), channel(SAID_MAX));
        let settings = settings.clone();
        let run = move || {
            let Ok(gateway) = Gateway::new(&settings) else { return };
            let desk = Desk { gateway, to, wake, said_at: Cell::new(None) };
            LocalSet::new().block_on(&runtime, Rc::new(desk).serve(given));
        };
        std::thread::Builder::new().name("etcd".into()).spawn(run)?;
        Ok(Self { asks, said })
    }

    /// Asks.
    ///
    /// # Errors
    /// Too many wait already: nothing will be said of this ticket.
    pub fn ask(&self, ticket: Ticket, ask: Ask) -> Result<(), Busy> {
        self.asks.try_send((ticket, ask)).map_err(|_| Busy)
    }

    /// The next thing said, if there is one now.
    pub fn said(&mut self) -> Option<(Ticket, Said)> {
        self.said.try_recv().ok()
    }
}

/// What the thread has.
struct Desk<W> {
    gateway: Gateway,
    to: Sender<(Ticket, Said)>,
    wake: W,
    /// When the log was told last that there is no answer; none while there is.
    said_at: Cell<Option<Instant>>,
}

impl<W: Fn() + 'static> Desk<W> {
    async fn serve(self: Rc<Self>, mut given: Receiver<(Ticket, Ask)>) {
        // All of them end with it.
        let mut open = JoinSet::new();
        let watches: RefCell<BTreeMap<String, AbortHandle>> = RefCell::default();
        let mut watching = JoinSet::new();
        while let Some((ticket, ask)) = given.recv().await {
            while open.try_join_next().is_some() {}
            while watching.try_join_next().is_some() {}
            if open.len() >= OPEN_MAX {
                open.join_next().await;
            }
            let desk = Rc::clone(&self);
            if let Ask::Watch { prefix, .. } = &ask {
                let prefix = prefix.clone();
                let watch = watching.spawn_local(async move { desk.watch(ticket, &ask).await });
                if let Some(earlier) = watches.borrow_mut().insert(prefix, watch) {
                    earlier.abort();
                }
            } else {
                open.spawn_local(async move { desk.answer(ticket, &ask).await });
            }
        }
    }

    async fn answer(&self, ticket: Ticket, ask: &Ask) {
        let said = match self.gateway.answer(ask).await {
            Ok(said) => {
                self.is_answered();
                said
            }
            Err(error) => self.unavailable(&error),
        };
        self.say(ticket, said).await;
    }

    async fn watch(&self, ticket: Ticket, ask: &Ask) {
        let failed = match self.follow(ticket, ask).await {
            Ok(failure) => Said::Failed(failure),
            Err(error) => self.unavailable(&error),
        };
        self.say(ticket, failed).await;
    }

    /// Passes on what a watch tells, until it fails.
    async fn follow(&self, ticket: Ticket, ask: &Ask) -> Result<Failure, NoAnswer> {
        let mut lines = self.gateway.watch(ask).await?;
        loop {
            match messages::changes(&lines.next().await?)? {
                Said::Failed(failure) => return Ok(failure),
                Said::Changed { changes } if changes.is_empty() => {}
                said => self.say(ticket, said).await,
            }
        }
    }

    async fn say(&self, ticket: Ticket, said: Said) {
        // Nobody waits for it any more if there is no other end.
        let _ = self.to.send((ticket, said)).await;
        (self.wake)();
    }

    fn is_answered(&self) {
        if self.said_at.take().is_some() {
            tracing::info!(endpoint = self.gateway.endpoint(), "etcd answers again");
        }
    }

    fn unavailable(&self, error: &NoAnswer) -> Said {
        if self.said_at.get().is_none_or(|at| at.elapsed() >= SAY_AGAIN) {
            self.said_at.set(Some(Instant::now()));
            tracing::warn!(endpoint = self.gateway.endpoint(), %error, "etcd gives no answer");
        }
        Said::Failed(Failure::Unavailable)
    }
}
