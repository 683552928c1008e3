//! The thread that serves: HTTP/1.1 on some listeners, each with its site.

use crate::host::step_back;
use anyhow::Context;
use axum::Router;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weir_http::{Thread, runtime, serve};

/// Connections a listener has at a time; more wait in its backlog.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection lives: one that reads nothing gives its place back then, and a page that
/// listens comes again by itself and begins with the state.
const LIFE_MAX: Duration = Duration::from_secs(600);

/// How long clients have to hear of the end.
const LINGER: Duration = Duration::from_millis(500);

/// Serves the sites from now on, on `core` if one is given, until it is dropped.
pub(super) fn start(
    sites: Vec<(TcpListener, Router)>,
    core: Option<usize>,
) -> anyhow::Result<Thread> {
    let runtime = runtime().context("cannot start the web server")?;
    for (listener, _) in &sites {
        listener.set_nonblocking(true)?;
    }
    let thread = Thread::start("web", runtime, move |stopped| async move {
        step_back(core);
        let open = sites.into_iter().filter_map(|(listener, site)| {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            let listener = tokio::net::TcpListener::from_std(listener)
                .inspect_err(|error| tracing::warn!(%error, "the page cannot be served"));
            let served = serve(listener.ok()?, site, Arc::clone(&places), LIFE_MAX);
            Some((tokio::spawn(served), places))
        });
        let open: Vec<_> = open.collect();
        // Told by being dropped.
        let _ = stopped.await;
        // One that takes longer is cut off.
        let _ = tokio::time::timeout(LINGER, close(&open)).await;
    })?;
    Ok(thread)
}

/// Accepts no more, and waits until the last client has gone.
async fn close(open: &[(tokio::task::JoinHandle<()>, Arc<Semaphore>)]) {
    for (accept, places) in open {
        accept.abort();
        // It is never closed, so that all places will be had.
        let _ = places.acquire_many(CONNECTIONS_MAX as u32).await;
    }
}
