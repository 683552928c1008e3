//! What other threads, and signals, ask of a running broker.

use crate::handover::Handover;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use weir_bridge::{BridgeState, BridgeWatch};
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
    /// What is still done then, in a cluster.
    pub(crate) handover: Handover,
    /// So many wait for something before anybody is let in.
    shut: AtomicU32,
    /// A shard has ended by itself: the others give their clients less time.
    pub(crate) is_broken: AtomicBool,
    /// Shards that accept connections.
    pub(crate) listening: AtomicU64,
    /// How often the counters were asked for.
    pub(crate) counters: AtomicU64,
    /// Theirs are written with them.
    pub(crate) bridges: BridgeWatch,
    /// How often all shards were asked for a turn, by the watchdog.
    pub(crate) turns: AtomicU64,
    /// How many of them have turned since they were asked last.
    pub(crate) turned: AtomicU64,
}

impl Asked {
    /// Nobody is let in before [`Asked::open`].
    pub(crate) fn shut(&self) {
        self.shut.fetch_add(1, Ordering::AcqRel);
    }

    /// What was waited for has happened. Says whether nothing is waited for any more.
    pub(crate) fn open(&self) -> bool {
        self.shut.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shut.load(Ordering::Acquire) == 0
    }

    /// Writes how each bridge is to the log.
    fn log_bridges(&self) {
        for state in self.bridges.states() {
            let BridgeState { name, remote, is_connected, last_error, counts, .. } = state;
            tracing::info!(
                bridge = name,
                remote,
                is_connected,
                last_error,
                ?counts,
                "counters of a bridge"
            );
        }
    }

    /// Whether shards turn as ever.
    pub(crate) fn is_turning(&self) -> bool {
        !self.stop.load(Ordering::Acquire) || !self.handover.is_over()
    }

    /// A shard turns. `said` is its own: which question it has answered last.
    pub(crate) fn say_turned(&self, said: &mut u64) {
        let turns = self.turns.load(Ordering::Acquire);
        if turns != *said {
            *said = turns;
            self.turned.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Stopper {
    pub(crate) const fn new(asked: Arc<Asked>, wakers: Vec<Waker>) -> Self {
        Self { asked, wakers }
    }

    /// The server ends its connections in good order and returns from [`crate::Server::run`].
    pub fn stop(&self) {
        self.asked.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// As [`Stopper::stop`], because a shard has ended.
    pub(crate) fn stop_broken(&self) {
        self.asked.is_broken.store(true, Ordering::Release);
        self.stop_at_once();
    }

    /// As [`Stopper::stop`]; in a cluster, sessions stay here that other nodes have not got by now.
    pub fn stop_at_once(&self) {
        self.asked.handover.end();
        self.stop();
    }

    /// Has every shard turn.
    pub(crate) fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Stops at SIGTERM and SIGINT, at once at the second; writes the counters to the log at
    /// SIGUSR1 and, after `hung_up`, which may begin the log's file anew and have files read again,
    /// at SIGHUP.
    ///
    /// # Errors
    /// What the system says of installing the handlers.
    pub fn obey_signals(&self, hung_up: impl Fn() + Send + 'static) -> std::io::Result<()> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
        let obeyed = [SIGHUP, SIGINT, SIGTERM, SIGUSR1];
        let mut signals = signal_hook::iterator::Signals::new(obeyed)?;
        let stopper = self.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut signals = signals.forever();
            for signal in &mut signals {
                if signal == SIGHUP {
                    hung_up();
                    tracing::info!(
                        "SIGHUP: the configuration and its files were read again; the counters \
                         follow"
                    );
                }
                if matches!(signal, SIGUSR1 | SIGHUP) {
                    stopper.asked.counters.fetch_add(1, Ordering::AcqRel);
                    stopper.wake();
                    stopper.asked.log_bridges();
                    continue;
                }
                tracing::info!(signal, "stopping");
                stopper.stop();
                break;
            }
            stopper.obey_second_signal(signals);
        })?;
        Ok(())
    }

    /// While sessions are handed over.
    fn obey_second_signal(&self, signals: impl Iterator<Item = i32>) {
        use signal_hook::consts::{SIGINT, SIGTERM};
        for signal in signals.filter(|signal| matches!(*signal, SIGINT | SIGTERM)) {
            if !self.asked.handover.is_over() {
                tracing::info!(signal, "stopping at once");
                self.stop_at_once();
            }
        }
    }
}
