//! The thread that serves: HTTP/1.1 on a unix socket, and over TCP for whoever has a token.

#[cfg(feature = "otlp")]
use crate::otlp::{Otlp, Pusher};
use crate::places::GUESTS_MAX;
use crate::port::Port;
use crate::site::Site;
use crate::socket::{SocketError, SocketFile, listen};
use crate::sys::{Sys, SysBook};
use crate::tcp::Tcp;
use crate::tls::{ControlTls, TlsError};
use crate::tokens::{Token, TokenBook};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use weir_http::{Thread, runtime, serve, serve_through};

/// Connections of the socket at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16;

/// Connections over TCP at a time, those included that are being ended for others. They are apart,
/// so that strangers never take the socket's places.
const OVER_TCP_MAX: usize = 2 * GUESTS_MAX;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// How long a connection lives: one that does not read gives its place back then.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// What the thread steps back by, of 19: it goes on beside busy shards, and they hardly wait.
const NICE: i32 = 10;

/// Where it serves, and whom.
#[derive(Debug, Default)]
pub struct Setup {
    /// A socket's file, which only the owner of this process may use: without a token.
    pub socket: Option<PathBuf>,
    /// Addresses for whoever has a token.
    pub http: Vec<SocketAddr>,
    /// What these speak instead of plain HTTP.
    pub tls: Option<ControlTls>,
    /// Who may come in there.
    pub tokens: Vec<Token>,
    /// Whether `/metrics` needs no token there.
    pub metrics_are_open: bool,
    /// What it has the broker say of itself below `$SYS`.
    pub sys: Option<Sys>,
    /// Whether `/metrics` has Mosquitto's names as well.
    pub has_mosquitto_names: bool,
    /// Where metrics are sent.
    #[cfg(feature = "otlp")]
    pub otlp: Option<Otlp>,
}

/// Why it cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Not on the socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Not at an address.
    #[error("cannot serve HTTP at {address}: {source}; set another [control] http")]
    Address {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Not over TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not to a collector.
    #[cfg(feature = "otlp")]
    #[error("cannot send metrics to [control.otlp] endpoint: {0}")]
    Collector(#[from] weir_http::client::BadAddress),
    /// Not at all.
    #[error("cannot serve [control]: {0}; a process needs some open files (ulimit -n)")]
    System(#[from] io::Error),
}

/// A server that listens and does not yet answer.
pub struct Server {
    runtime: Runtime,
    socket: Option<(UnixListener, SocketFile)>,
    http: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    tokens: TokenBook,
    metrics_are_open: bool,
    sys: SysBook,
    has_mosquitto_names: bool,
    #[cfg(feature = "otlp")]
    pusher: Option<Pusher>,
}

/// A thread that serves. Dropping it ends every connection, and removes the socket's file.
pub struct Control {
    _thread: Thread,
    _file: Option<SocketFile>,
}

impl Server {
    /// Listens wherever `setup` says.
    ///
    /// # Errors
    /// A file that another process listens on, or that is no socket; an address that is taken;
    /// certificates that cannot be used; what the system says.
    pub fn bind(setup: Setup) -> Result<Self, ControlError> {
        let Setup { socket, http, tls, tokens, metrics_are_open, has_mosquitto_names, sys, .. } =
            setup;
        #[cfg(feature = "otlp")]
        let pusher = setup.otlp.map(Otlp::pusher).transpose()?;
        let runtime = runtime()?;
        let inside = runtime.enter();
        let socket = match socket {
            None => None,
            Some(path) => {
                let (listener, file) = listen(&path, 0o600, BACKLOG, "[control] socket")?;
                Some((UnixListener::from_std(listener.into())?, file))
            }
        };
        let bind = |address: SocketAddr| {
            let listener = std::net::TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            listener.map_err(|source| ControlError::Address { address, source })
        };
        let http = http.into_iter().map(bind).collect::<Result<_, _>>()?;
        drop(inside);
        let tls = tls.map(|tls| tls.acceptor()).transpose()?;
        let tokens = TokenBook::new(tokens);
        let sys = SysBook::new(sys);
        Ok(Self {
            runtime,
            socket,
            http,
            tls,
            tokens,
            metrics_are_open,
            sys,
            has_mosquitto_names,
            #[cfg(feature = "otlp")]
            pusher,
        })
    }

    /// Who may come in over TCP: they may be others while it runs.
    pub fn tokens(&self) -> TokenBook {
        self.tokens.clone()
    }

    /// What it has the broker say of itself: it may be something else while it runs.
    pub fn sys(&self) -> SysBook {
        self.sys.clone()
    }

    /// Where HTTP is served over TCP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.http.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Answers from now on, on a thread of its own.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn start(self, port: impl Port) -> io::Result<Control> {
        let Self { runtime, socket, http, tls, tokens, sys, .. } = self;
        let site = Site::new(port, tokens, self.metrics_are_open, self.has_mosquitto_names);
        let (socket, file) = socket.unzip();
        let thread = Thread::start("control", runtime, move |stopped| async move {
            // This thread alone, on Linux: the shards go first. If it may not, that is no fault.
            let _ = rustix::process::setpriority_process(None, NICE);
            if let Some(socket) = socket {
                let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
                tokio::spawn(serve(socket, site.own.clone(), places, LIFE_MAX));
            }
            let all = Arc::new(Semaphore::new(OVER_TCP_MAX));
            for listener in http {
                let listener = Tcp::new(listener, site.places.clone());
                let (site, all) = (site.for_guests.clone(), Arc::clone(&all));
                match tls.clone() {
                    None => tokio::spawn(serve(listener, site, all, LIFE_MAX)),
                    Some(tls) => {
                        let open = move |stream| tls.accept(stream);
                        tokio::spawn(serve_through(listener, open, site, all, LIFE_MAX))
                    }
                };
            }
            tokio::spawn(sys.publish(Arc::clone(&site.asks)));
            #[cfg(feature = "otlp")]
            if let Some(pusher) = self.pusher {
                tokio::spawn(pusher.push(Arc::clone(&site.asks)));
            }
            tokio::spawn(async move {
                // They end before this thread does.
                if let Err(error) = site.deliver().await
                    && error.kind() != io::ErrorKind::UnexpectedEof
                {
                    tracing::error!(%error, "the control thread cannot hear the shards");
                }
            });
            // Told by being dropped.
            let _ = stopped.await;
        })?;
        Ok(Control { _thread: thread, _file: file })
    }
}
