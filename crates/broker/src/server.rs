//! The broker as a whole: listen, run, stop.

use crate::auth::Authenticator;
use crate::config::{Config, ConfigError};
use crate::gate::Gate;
use crate::log::Log;
use crate::memory::Memory;
use crate::shell::{Guard, Shell};
use foldhash::fast::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_core::{Shard, ShardId};
use weir_reactor::{Reactor, Waker};

/// How long connections get to take their last bytes when the broker stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Why the broker cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {hint}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why, and what to do.
        hint: String,
    },
    /// The system refuses what every broker needs.
    #[error("the broker cannot run: {0}")]
    System(#[from] std::io::Error),
}

/// A broker that listens and is not yet running.
pub struct Server {
    reactor: Reactor,
    shell: Shell,
    asked: Arc<Asked>,
    addresses: Vec<SocketAddr>,
}

/// Stops a running [`Server`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    asked: Arc<Asked>,
    waker: Waker,
}

/// What other threads ask of a running server.
#[derive(Debug, Default)]
struct Asked {
    stop: AtomicBool,
    counters: AtomicBool,
}

impl Stopper {
    /// The server ends its connections in good order and returns from [`Server::run`].
    pub fn stop(&self) {
        self.asked.stop.store(true, Ordering::Release);
        self.waker.wake();
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
                    stopper.asked.counters.store(true, Ordering::Release);
                    stopper.waker.wake();
                    continue;
                }
                tracing::info!(signal, "stopping");
                return stopper.stop();
            }
        })?;
        Ok(())
    }
}

impl Server {
    /// Listens on every address of `config`.
    ///
    /// # Errors
    /// A setting that cannot be used, an address that is taken or not ours.
    pub fn bind(config: &Config) -> Result<Self, ServeError> {
        config.check()?;
        let mut reactor = Reactor::new()?;
        let mut addresses = Vec::new();
        for address in config.addresses()? {
            let listener =
                weir_reactor::listen(address).map_err(|error| listen_error(address, &error))?;
            addresses.push(listener.local_addr()?);
            reactor.listen(listener)?;
        }
        // A hash that nobody outside can guess keeps clients from choosing colliding names.
        let seed = RandomState::default().hash_one("weir");
        let shard = Shard::new(ShardId(0), 1, config.settings(), seed);
        let guard = Guard {
            gate: Gate::new(config.process.clone()),
            memory: Memory::new(config.process.memory_bytes_max),
            auth: Authenticator::new(&config.auth)?,
            log: Log::default(),
        };
        let asked = Arc::new(Asked::default());
        Ok(Self { reactor, shell: Shell::new(shard, guard), asked, addresses })
    }

    /// Where it listens; the system's choice in the place of port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper { asked: Arc::clone(&self.asked), waker: self.reactor.waker() }
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// What the system says of waiting; faults of single connections end those only.
    pub fn run(mut self) -> Result<(), ServeError> {
        while !self.asked.stop.load(Ordering::Acquire) {
            if self.asked.counters.swap(false, Ordering::AcqRel) {
                self.shell.log_counters();
            }
            let timeout = self
                .shell
                .shard
                .poll_timeout()
                .map(|due| Duration::from_micros(due.0.saturating_sub(weir_reactor::now_us())));
            self.reactor.turn(timeout, &mut self.shell)?;
        }
        self.finish()
    }

    /// Tells every client and waits a little for the last bytes to leave.
    fn finish(mut self) -> Result<(), ServeError> {
        self.reactor.stop_listening();
        self.shell.stop(self.reactor.io());
        let deadline = Instant::now() + STOP_MAX;
        while self.reactor.io().connections() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.reactor.turn(Some(left), &mut self.shell)?;
        }
        self.shell.log_counters();
        tracing::info!("stopped");
        Ok(())
    }
}

fn listen_error(address: SocketAddr, error: &std::io::Error) -> ServeError {
    use std::io::ErrorKind;
    let hint = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "the port is taken; stop what listens there, or choose another with --listen {}:PORT",
            address.ip()
        ),
        ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; choose another with --listen HOST:PORT".into()
        }
        ErrorKind::AddrNotAvailable => {
            "this host has no such address; choose one of its own with --listen HOST:PORT".into()
        }
        _ => error.to_string(),
    };
    ServeError::Listen { address, hint }
}
