//! What other threads, and signals, ask of a running broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_reactor::Waker;

/// Stops a running [`crate::Server`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    asked: Arc<Asked>,
    wakers: Vec<Waker>,
}

/// What other threads ask of a running server.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) stop: AtomicBool,
    /// How often the counters were asked for.
    pub(crate) counters: AtomicU64,
}

impl Stopper {
    pub(crate) fn new(asked: Arc<Asked>, wakers: Vec<Waker>) -> Self {
        Self { asked, wakers }
    }

    /// The server ends its connections in good order and returns from [`crate::Server::run`].
    pub fn stop(&self) {
        self.asked.stop.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Stops at SIGTERM and SIGINT; writes the counters to the log at SIGUSR1.
    ///
    /// # Errors
    /// What the system says of installing the handlers.
    pub fn obey_signals(&self) -> std::io::Result<()> {
        use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
        let stopper = self.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    stopper.asked.counters.fetch_add(1, Ordering::AcqRel);
                    stopper.wake();
                    continue;
                }
                tracing::info!(signal, "stopping");
                return stopper.stop();
            }
        })?;
        Ok(())
    }
}
