//! The thread that serves: HTTP/1.1 on some listeners, each with its site.

use crate::host::step_back;
use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Connections a listener has at a time; more wait in its backlog.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take over the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long a connection lives: one that reads nothing gives its place back then, and a page that
/// listens comes again by itself and begins with the state.
const LIFE_MAX: Duration = Duration::from_secs(600);

/// Bytes of a head, and of what is read ahead.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long clients have to hear of the end.
const LINGER: Duration = Duration::from_millis(500);

/// Until accept is tried again after the system refused.
const REFUSED_WAIT: Duration = Duration::from_millis(200);

/// A thread that serves. Dropping it ends every connection.
pub(super) struct Server {
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the sites from now on, on `core` if one is given.
    pub(super) fn start(
        sites: Vec<(TcpListener, Router)>,
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Those that read kept results.
            .max_blocking_threads(2)
            .build()
            .context("cannot start the web server")?;
        for (listener, _) in &sites {
            listener.set_nonblocking(true)?;
        }
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            step_back(core);
            runtime.block_on(async {
                let open = |(listener, site)| {
                    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
                    (tokio::spawn(accept(listener, site, Arc::clone(&places))), places)
                };
                let open: Vec<_> = sites.into_iter().map(open).collect();
                // Told by being dropped.
                let _ = stopped.await;
                // One that takes longer is cut off.
                let _ = tokio::time::timeout(LINGER, close(&open)).await;
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("web".into()).spawn(serve)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A server that broke down has ended, too.
            let _ = thread.join();
        }
    }
}

/// Accepts no more, and waits until the last client has gone.
async fn close(open: &[(tokio::task::JoinHandle<()>, Arc<Semaphore>)]) {
    for (accept, places) in open {
        accept.abort();
        // It is never closed, so that all places will be had.
        let _ = places.acquire_many(CONNECTIONS_MAX as u32).await;
    }
}

async fn accept(listener: TcpListener, site: Router, places: Arc<Semaphore>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "the page cannot be served"),
    };
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
            // Out of files, as a rule: the load has them.
            Err(_) => tokio::time::sleep(REFUSED_WAIT).await,
        }
    }
}

async fn serve(stream: TcpStream, site: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(site));
    // A client that goes away, or speaks something else, is no fault of ours.
    let _ = tokio::time::timeout(LIFE_MAX, connection).await;
}
