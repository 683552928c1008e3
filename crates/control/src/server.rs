//! The thread that serves: HTTP/1.1 on a unix socket.

use crate::asks::Asks;
use crate::port::Port;
use crate::routes::routes;
use crate::socket::{SocketError, SocketFile, listen};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16;

/// How long a client may take over the head of a request, or rest before its next one.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Bytes of a head: a client identifier of 5,000 bytes fits, whatever they are.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long a connection lives: one that does not read gives its place back then.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// Until accept is tried again after the system refused.
const REFUSED_WAIT: Duration = Duration::from_millis(200);

/// What the thread steps back by, of 19: it goes on beside busy shards, and they hardly wait.
const NICE: i32 = 10;

/// A server that listens and does not yet answer.
pub struct Server {
    runtime: Runtime,
    listener: UnixListener,
    file: SocketFile,
}

/// A thread that serves. Dropping it ends every connection, and removes the socket's file.
pub struct Control {
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _file: SocketFile,
}

impl Server {
    /// Listens on a socket file, which only the owner of this process may use.
    ///
    /// # Errors
    /// A file that another process listens on, or that is no socket; what the system says.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| SocketError::System {
                path: path.into(),
                source,
                hint: "a process needs some open files (ulimit -n)",
            })?;
        let (listener, file) = runtime.block_on(listen(path))?;
        Ok(Self { runtime, listener, file })
    }

    /// Answers from now on, on a thread of its own.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn start(self, port: impl Port) -> io::Result<Control> {
        let Self { runtime, listener, file } = self;
        let (stop, stopped) = oneshot::channel();
        let asks = Arc::new(Asks::new(Box::new(port)));
        let serve = move || {
            // This thread alone, on Linux: the shards go first. If it may not, that is no fault.
            let _ = rustix::process::setpriority_process(None, NICE);
            runtime.block_on(async {
                tokio::spawn(accept(listener, routes(&asks)));
                tokio::spawn(async move {
                    if let Err(error) = asks.deliver().await {
                        tracing::error!(%error, "the control thread cannot hear the shards");
                    }
                });
                // Told by being dropped.
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve)?;
        Ok(Control { stop: Some(stop), thread: Some(thread), _file: file })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: UnixListener, site: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    serve(stream, site).await;
                    drop(place);
                });
            }
            // Out of files, as a rule: the clients of the broker have them.
            Err(_) => tokio::time::sleep(REFUSED_WAIT).await,
        }
    }
}

async fn serve(stream: UnixStream, site: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(site));
    // A client that goes away, or speaks something else, is no fault of ours.
    let _ = tokio::time::timeout(LIFE_MAX, connection).await;
}
