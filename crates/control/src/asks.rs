//! Requests on their way to shards, and who waits for the answers.
//!
//! At most one of a kind is under way to a shard. Who gave up waiting still holds its kind until
//! the answer has come: so a shard that is late is never asked more than it had answered.

use crate::bans::{BanPage, Changed, NewBan, Unchanged, Whom};
use crate::bridges::Bridge;
use crate::cluster::{Cluster, NotForgotten};
use crate::history::History;
use crate::keeper::Keeper;
use crate::metrics::{About, Measured};
use crate::places::Refusals;
use crate::port::{Answer, Counters, Full, Port, REQUESTS_MAX, Request};
use crate::top::Windows;
use crate::traces::{TraceOf, Traces};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

/// How long a shard rests after an answer before it is asked the same kind again: a client that
/// asks without end takes a small part of its time.
const REST: Duration = Duration::from_millis(1);

/// Shared by the tasks of the one thread: its lock is always free.
pub(crate) struct Asks {
    desk: Mutex<Desk>,
    /// By shard, then kind: whose turn it is.
    turns: Vec<[Arc<Semaphore>; REQUESTS_MAX]>,
    keeper: Arc<dyn Keeper>,
    keeping: Arc<Semaphore>,
    /// Of the counters that were asked for.
    pub(crate) history: History,
    pub(crate) traces: Traces,
    pub(crate) windows: Windows,
    /// Of whoever comes over TCP.
    pub(crate) refusals: Arc<Refusals>,
    /// Held by the one request that publishes several messages.
    pub(crate) bulk: Semaphore,
    /// Whether `/metrics` has Mosquitto's names as well.
    pub(crate) has_mosquitto_names: bool,
    /// How often metrics were sent to a collector, and could not be, where there is one.
    pub(crate) pushes: OnceLock<[AtomicU64; 2]>,
    begun: Instant,
}

struct Desk {
    port: Box<dyn Port>,
    /// By shard, then kind.
    waiting: Vec<[Option<Waiting>; REQUESTS_MAX]>,
}

/// A request that is under way.
struct Waiting {
    asker: oneshot::Sender<Answer>,
    turn: OwnedSemaphorePermit,
}

impl Asks {
    pub(crate) fn new(port: Box<dyn Port>) -> Self {
        let shards = port.shards();
        let turns = || std::array::from_fn(|_| Arc::new(Semaphore::new(1)));
        let waiting = (0..shards).map(|_| Default::default()).collect();
        Self {
            keeper: port.keeper(),
            keeping: Arc::new(Semaphore::new(1)),
            desk: Mutex::new(Desk { port, waiting }),
            turns: (0..shards).map(|_| turns()).collect(),
            history: History::default(),
            traces: Traces::default(),
            windows: Windows::default(),
            refusals: Arc::default(),
            bulk: Semaphore::new(1),
            has_mosquitto_names: false,
            pushes: OnceLock::new(),
            begun: Instant::now(),
        }
    }

    /// How long the broker has been there.
    pub(crate) fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What metrics say beside the counters.
    fn about(&self) -> About {
        let pushes = self.pushes.get();
        About {
            has_mosquitto_names: self.has_mosquitto_names,
            uptime_s: self.uptime().as_secs(),
            pushes: pushes.map(|all| all.each_ref().map(|count| count.load(Ordering::Relaxed))),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        self.turns.len() as u16
    }

    pub(crate) fn owner(&self, client_id: &str) -> u16 {
        self.desk().port.owner(client_id)
    }

    pub(crate) fn ban(&self, ban: NewBan) -> Result<Changed, Unchanged> {
        self.desk().port.ban(ban)
    }

    pub(crate) fn unban(&self, whom: &Whom) -> Result<Changed, Unchanged> {
        self.desk().port.unban(whom)
    }

    /// Each bridge, with its queue as the shard has it that owns its session.
    pub(crate) async fn bridges(&self) -> Result<Vec<Bridge>, Full> {
        let mut bridges = self.desk().port.bridges();
        for bridge in &mut bridges {
            let id = &*bridge.client_id;
            let client = self.ask(self.owner(id), Request::Client(id.into())).await?;
            if let Answer::Client(Some(client)) = client {
                bridge.queued_messages = client.queued_messages + u64::from(client.in_flight);
                bridge.queued_bytes = client.queued_bytes;
            }
        }
        Ok(bridges)
    }

    pub(crate) fn cluster(&self) -> Option<Cluster> {
        self.desk().port.cluster()
    }

    /// All that metrics tell of.
    pub(crate) async fn measured(&self) -> Result<Measured, Full> {
        Ok(Measured {
            shards: self.counters().await?,
            bridges: self.bridges().await?,
            cluster: self.cluster(),
            about: self.about(),
        })
    }

    /// Has the place of a node be free, and waits until it is.
    pub(crate) async fn forget_node(&self, name: &str) -> Result<(), NotForgotten> {
        let (asker, answer) = oneshot::channel();
        let said = move |said| {
            // Whoever gave up is told nothing.
            let _ = asker.send(said);
        };
        self.desk().port.forget_node(name, Box::new(said));
        answer.await.unwrap_or(Err(NotForgotten::Busy))
    }

    /// Why clients are not let in, if they are not.
    pub(crate) fn is_shut(&self) -> Option<&'static str> {
        self.desk().port.is_shut()
    }

    pub(crate) fn check_trace(&self, of: &TraceOf) -> Result<(), String> {
        self.desk().port.check_trace(of)
    }

    /// Has the keeper do something on a thread that may wait for it, one at a time.
    pub(crate) async fn keep<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn Keeper) -> T + Send + 'static,
    ) -> Result<T, Full> {
        let turn = Arc::clone(&self.keeping).acquire_owned().await.map_err(|_| Full)?;
        let keeper = Arc::clone(&self.keeper);
        let done = tokio::task::spawn_blocking(move || {
            // Also held if whoever asks gives up waiting.
            let _turn = turn;
            what(&*keeper)
        });
        done.await.map_err(|_| Full)
    }

    pub(crate) fn bans(&self, from: usize, bans_max: usize) -> BanPage {
        self.desk().port.bans(from, bans_max)
    }

    /// Asks a shard when it is this request's turn, and waits for the answer. The caller gives up
    /// by dropping this.
    pub(crate) async fn ask(&self, shard: u16, request: Request) -> Result<Answer, Full> {
        let (shard_at, kind) = (usize::from(shard), request.kind());
        let turns = self.turns.get(shard_at).ok_or(Full)?;
        let turn = Arc::clone(&turns[kind]).acquire_owned().await.map_err(|_| Full)?;
        let (asker, answer) = oneshot::channel();
        {
            let mut desk = self.desk();
            desk.port.ask(shard, request)?;
            desk.waiting[shard_at][kind] = Some(Waiting { asker, turn });
        }
        answer.await.map_err(|_| Full)
    }

    /// Asks one shard after the other; the answers are in their order.
    pub(crate) async fn ask_all(&self, request: &Request) -> Result<Vec<Answer>, Full> {
        let mut answers = Vec::new();
        for shard in 0..self.shards() {
            answers.push(self.ask(shard, request.clone()).await?);
        }
        Ok(answers)
    }

    /// The counters of all shards, in order, each with those of the process. The history keeps a
    /// sample of them.
    pub(crate) async fn counters(&self) -> Result<Vec<Counters>, Full> {
        let counters = |answer| match answer {
            Answer::Counters(mut counters) => {
                counters.process.extend(self.refusals.by_name());
                Some(counters)
            }
            _ => None,
        };
        let all: Vec<_> =
            self.ask_all(&Request::Counters).await?.into_iter().filter_map(counters).collect();
        self.history.note(Instant::now(), &all);
        Ok(all)
    }

    /// Gives answers to who waits for them, as they come.
    pub(crate) async fn deliver(&self) -> io::Result<()> {
        let wakes = self.desk().port.wakes()?;
        wakes.set_nonblocking(true)?;
        let wakes = UnixStream::from_std(wakes)?;
        let mut bytes = [0; 64];
        loop {
            wakes.readable().await?;
            match wakes.try_read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.take_answers(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_answers(&self) {
        let Desk { port, waiting } = &mut *self.desk();
        port.take_answers(&mut |shard, answer| {
            let kinds = waiting.get_mut(usize::from(shard));
            let waiting = kinds.and_then(|kinds| kinds[answer.kind()].take());
            let Some(Waiting { asker, turn }) = waiting else { return };
            // Whoever gave up is told nothing.
            let _ = asker.send(answer);
            tokio::spawn(async move {
                tokio::time::sleep(REST).await;
                drop(turn);
            });
        });
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests;
