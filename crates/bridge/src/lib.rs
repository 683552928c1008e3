//! Bridges: what relays messages between the broker and others.
//!
//! A bridge is a client of its own broker and of a remote one, on a thread of its own
//! ([`Bridges`]). Its queue is its session in the own broker; what waits there, and how safely, is
//! that broker's. It knows the broker by an [`Inlet`] only, which makes connections that need no
//! listener. Called by the broker.
//!
//! With the feature `kafka` a sink of messages to Kafka is of the same kind.

mod backoff;
mod counts;
mod hops;
#[cfg(feature = "kafka")]
pub mod kafka;
mod relay;
mod settings;
mod side;
mod topics;
mod worker;

pub use counts::BridgeState;
pub use hops::{HOPS, HOPS_MAX};
pub use settings::{Dialect, Remote, Settings, Start, StateTopic};
pub use topics::{Direction, End, Topic};

use counts::Shared;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_reactor::Waker;
use worker::Worker;

/// The way into the own broker.
pub trait Inlet: Send + Sync + 'static {
    /// A connection to it, whose client may do everything.
    ///
    /// # Errors
    /// There is no room for it now, or what the system says.
    fn connect(&self) -> io::Result<UnixStream>;
}

/// What a thread does.
#[derive(Clone, Debug)]
pub enum Task {
    /// It relays between two brokers.
    Bridge(Box<Settings>),
    /// It relays to Kafka.
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::KafkaSettings>),
}

/// All bridges, which end with this.
pub struct Bridges {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Wake)>,
    watch: BridgeWatch,
}

/// Has a thread look whether it is to end.
type Wake = Box<dyn Fn() + Send + Sync>;

/// Held by every bridge until it is prepared.
struct Prepared(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

/// What every thread is given.
struct Given {
    shared: Arc<Shared>,
    inlet: Arc<dyn Inlet>,
    prepared: Arc<Prepared>,
    is_stopping: Arc<AtomicBool>,
}

impl Task {
    /// The name that is shown, and the client identifier in the own broker.
    fn names(&self) -> (&str, &str) {
        match self {
            Self::Bridge(settings) => (&settings.name, &settings.local_client_id),
            #[cfg(feature = "kafka")]
            Self::Kafka(settings) => (&settings.name, &settings.local_client_id),
        }
    }

    /// Starts its thread.
    fn start(self, given: Given) -> io::Result<(JoinHandle<()>, Wake)> {
        let Given { shared, inlet, prepared, is_stopping } = given;
        match self {
            Self::Bridge(settings) => {
                let waker = Waker::new()?;
                let (own, settings) = (waker.clone(), Arc::from(settings));
                let thread = spawn("bridge", move || {
                    let worker = Worker::new(&settings, &shared, &is_stopping, (&*inlet, prepared));
                    ended(&settings.name, &shared, worker.run(own));
                })?;
                Ok((thread, Box::new(move || waker.wake())))
            }
            #[cfg(feature = "kafka")]
            Self::Kafka(settings) => {
                let stop = Arc::<tokio::sync::Notify>::default();
                let own = Arc::clone(&stop);
                let thread = spawn("kafka", move || {
                    let run = kafka::run(&settings, &shared, &own, (&*inlet, prepared));
                    ended(&settings.name, &shared, run);
                })?;
                Ok((thread, Box::new(move || stop.notify_one())))
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

/// A thread is at its end: unless that was asked for, somebody should know.
fn ended(name: &str, shared: &Shared, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(bridge = name, %error, "the bridge has ended");
        shared.failed("", &error.to_string());
    }
}

/// How bridges are.
#[derive(Clone, Debug, Default)]
pub struct BridgeWatch(Arc<[Watched]>);

#[derive(Debug)]
struct Watched {
    name: String,
    client_id: String,
    shared: Arc<Shared>,
}

impl BridgeWatch {
    /// Each of them, in the order of the configuration.
    pub fn states(&self) -> Vec<BridgeState> {
        let state = |it: &Watched| it.shared.state(&it.name, &it.client_id);
        self.0.iter().map(state).collect()
    }
}

impl Bridges {
    /// Starts a thread for each bridge. `prepared` is called once all have their sessions in the
    /// own broker, or have found that they cannot have them now: what is published from then on is
    /// theirs to relay.
    ///
    /// # Errors
    /// What the system says of threads.
    pub fn start(
        all: Vec<Task>,
        inlet: &Arc<dyn Inlet>,
        prepared: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let prepared = Arc::new(Prepared(Some(Box::new(prepared))));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (mut threads, mut watch) = (Vec::new(), Vec::new());
        for task in all {
            let shared = Arc::<Shared>::default();
            let (name, client_id) = task.names();
            let (name, client_id) = (name.to_owned(), client_id.to_owned());
            watch.push(Watched { name, client_id, shared: Arc::clone(&shared) });
            threads.push(task.start(Given {
                shared,
                inlet: Arc::clone(inlet),
                prepared: Arc::clone(&prepared),
                is_stopping: Arc::clone(&is_stopping),
            })?);
        }
        Ok(Self { is_stopping, threads, watch: BridgeWatch(watch.into()) })
    }

    /// How they are, for others.
    pub fn watch(&self) -> BridgeWatch {
        self.watch.clone()
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        self.threads.iter().for_each(|(_, wake)| wake());
        for (thread, _) in self.threads.drain(..) {
            // It has said why, if it could not go on.
            let _ = thread.join();
        }
    }
}
