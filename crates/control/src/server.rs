//! The thread that serves: HTTP/1.1 on a unix socket.

use crate::asks::Asks;
use crate::port::Port;
use crate::routes::routes;
use crate::socket::{SocketError, SocketFile, listen};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use weir_http::{Thread, runtime, serve};

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// How long a connection lives: one that does not read gives its place back then.
const LIFE_MAX: Duration = Duration::from_secs(60);

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
    _thread: Thread,
    _file: SocketFile,
}

impl Server {
    /// Listens on a socket file, which only the owner of this process may use.
    ///
    /// # Errors
    /// A file that another process listens on, or that is no socket; what the system says.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let runtime = runtime().map_err(|source| SocketError::System {
            path: path.into(),
            source,
            hint: "a process needs some open files (ulimit -n)".into(),
        })?;
        let (socket, file) = listen(path, 0o600, BACKLOG, "[control] socket")?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::from_std(socket.into())
        };
        let hint = "set another [control] socket".into();
        let listener =
            listener.map_err(|source| SocketError::System { path: path.into(), source, hint })?;
        Ok(Self { runtime, listener, file })
    }

    /// Answers from now on, on a thread of its own.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn start(self, port: impl Port) -> io::Result<Control> {
        let Self { runtime, listener, file } = self;
        let asks = Arc::new(Asks::new(Box::new(port)));
        let thread = Thread::start("control", runtime, move |stopped| async move {
            // This thread alone, on Linux: the shards go first. If it may not, that is no fault.
            let _ = rustix::process::setpriority_process(None, NICE);
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            tokio::spawn(serve(listener, routes(&asks), places, LIFE_MAX));
            tokio::spawn(async move {
                // They end before this thread does.
                if let Err(error) = asks.deliver().await
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
