//! HTTP/1.1 on a thread of its own, with bounds: for whoever operates the broker, and for the page
//! of the suite; and what their pages have in common. Routes, listeners and what else the thread
//! does are the caller's. [`client`] asks others.

pub mod assets;
pub mod client;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

/// How long a client may take over the head of a request, or rest before its next one.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Bytes of a head, and of what is read ahead: a client identifier of 5,000 bytes fits, whatever
/// they are.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A runtime for one thread, with a few more for files.
///
/// # Errors
/// What the system says: a process needs some open files.
pub fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_io().enable_time().max_blocking_threads(2).build()
}

/// Answers on as many connections at a time as there are `places`, for ever; more wait to be
/// accepted. Each lives for `life_max`: one that does not read gives its place back then.
pub async fn serve<L: Listener<Addr: Clone + Send + Sync + 'static>>(
    listener: L,
    site: Router,
    places: Arc<Semaphore>,
    life_max: Duration,
) {
    serve_through(listener, |stream| ready(Ok(stream)), site, places, life_max).await;
}

/// As [`serve`], on what `open` makes of each connection: TLS. What the listener says of a peer is
/// among the extensions of its requests.
pub async fn serve_through<L, S, F>(
    mut listener: L,
    open: impl Fn(L::Io) -> F,
    site: Router,
    places: Arc<Semaphore>,
    life_max: Duration,
) where
    L: Listener<Addr: Clone + Send + Sync + 'static>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // It rests by itself while the system has no files left.
        let (stream, peer) = listener.accept().await;
        let opened = open(stream);
        let site = TowerToHyperService::new(site.clone());
        let answer = service_fn(move |mut request: hyper::Request<_>| {
            request.extensions_mut().insert(peer.clone());
            site.call(request)
        });
        tokio::spawn(async move {
            // A client that goes away, or speaks something else, is no fault of ours.
            let _ = tokio::time::timeout(life_max, async {
                let stream = tokio::time::timeout(HEAD_MAX, opened).await??;
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_MAX)
                    .max_buf_size(HEAD_BYTES_MAX)
                    .serve_connection(TokioIo::new(stream), answer);
                connection.await.map_err(io::Error::other)
            })
            .await;
            drop(place);
        });
    }
}

/// A thread that serves. Dropping it ends every connection.
pub struct Thread {
    /// Dropped to end it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Runs what `serve` makes of the end, which comes when this is dropped.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        runtime: Runtime,
        serve: impl FnOnce(oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(serve(stopped));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}
