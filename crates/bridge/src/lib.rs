//! Bridges: what relays messages between the broker and others.
//!
//! A bridge is a client of its own broker and of a remote one, on a thread of its own
//! ([`Bridges`]). Its queue is its session in the own broker; what waits there, and how safely, is
//! that broker's. It knows the broker by an [`Inlet`] only, which makes connections that need no
//! listener. Called by the broker.

mod backoff;
mod counts;
mod hops;
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

/// All bridges, which end with this.
pub struct Bridges {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Waker)>,
    watch: BridgeWatch,
}

/// Held by every bridge until it is prepared.
struct Prepared(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

/// How bridges are.
#[derive(Clone, Debug, Default)]
pub struct BridgeWatch(Arc<[(String, Arc<Shared>)]>);

impl BridgeWatch {
    /// Each of them, in the order of the configuration.
    pub fn states(&self) -> Vec<BridgeState> {
        self.0.iter().map(|(name, shared)| shared.state(name)).collect()
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
        all: Vec<Settings>,
        inlet: &Arc<dyn Inlet>,
        prepared: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let prepared = Arc::new(Prepared(Some(Box::new(prepared))));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (mut threads, mut watch) = (Vec::new(), Vec::new());
        for settings in all {
            let (waker, shared) = (Waker::new()?, Arc::<Shared>::default());
            watch.push((settings.name.clone(), Arc::clone(&shared)));
            let (own, inlet) = (waker.clone(), Arc::clone(inlet));
            let (settings, stop) = (Arc::new(settings), Arc::clone(&is_stopping));
            let prepared = Arc::clone(&prepared);
            let run = move || {
                let run = Worker::new(&settings, &shared, &stop, (&*inlet, prepared)).run(own);
                if let Err(error) = run {
                    tracing::error!(bridge = settings.name, %error, "the bridge has ended");
                    shared.failed("", &error.to_string());
                }
            };
            let thread = std::thread::Builder::new().name("bridge".into()).spawn(run)?;
            threads.push((thread, waker));
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
        self.threads.iter().for_each(|(_, waker)| waker.wake());
        for (thread, _) in self.threads.drain(..) {
            // It has said why, if it could not go on.
            let _ = thread.join();
        }
    }
}
