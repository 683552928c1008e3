//! What is answered to which path.

use super::hub::Hub;
use super::metrics as text_metrics;
use super::stored::{Stored, StoredError};
use crate::page::Page;
use axum::Router;
use axum::extract::{Path as PathPart, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use std::convert::Infallible;
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use weir_http::assets::{BASE_CSS, BASE_JS, UPLOT_CSS, UPLOT_JS};

/// Pages that listen to events at a time.
const STREAMS_MAX: usize = 16;

/// A line is sent at least this often, so that both ends notice a dead connection.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// A page of ours loads nothing from anywhere and is shown in no frame.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The page; empty where its template does not fit, which a test would see.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page = Page {
        title: "weir bench",
        styles: &[UPLOT_CSS, BASE_CSS, include_str!("page.css")],
        body: include_str!("page.html"),
        scripts: &[UPLOT_JS, BASE_JS, include_str!("page.js")],
        is_served: true,
        ..Page::default()
    };
    page.html(&Value::Null).unwrap_or_default()
});

#[derive(Clone)]
struct Site {
    hub: Arc<Hub>,
    stored: Arc<Stored>,
    streams: Arc<Semaphore>,
}

/// The page, its data, and the metrics.
pub(super) fn page(hub: &Arc<Hub>, results: &Path, names: Names) -> Router {
    let site = Site {
        hub: Arc::clone(hub),
        stored: Arc::new(Stored::new(results)),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
    };
    Router::new()
        .route("/", get(|| async { Html(PAGE.as_str()) }))
        .route("/events", get(events))
        .route("/runs", get(runs))
        .route("/runs/{id}", get(run))
        .route("/runs/{id}/report", get(report))
        .with_state(site)
        .merge(metrics(hub))
        .layer(from_fn(move |request: Request, next: Next| guard(names, request, next)))
}

/// The metrics alone.
pub(super) fn metrics(hub: &Arc<Hub>) -> Router {
    let of = |State(hub): State<Arc<Hub>>| async move {
        ([(header::CONTENT_TYPE, text_metrics::CONTENT_TYPE)], hub.look(text_metrics::render))
    };
    Router::new().route("/metrics", get(of)).with_state(Arc::clone(hub))
}

/// By which names a site may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// As `localhost` or by number: a site of this host alone. Another site's script that has its
    /// own name point here does not get an answer.
    Local,
    /// By any.
    Any,
}

impl Names {
    pub(super) fn of(listener: &TcpListener) -> Self {
        let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        if is_local { Self::Local } else { Self::Any }
    }

    fn allows(self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let Some(host) = host else { return false };
        // A port stands behind the last colon, and a number of IPv6 in brackets.
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => name,
            _ => host,
        };
        let is_number = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        self == Self::Any || name == "localhost" || is_number
    }
}

async fn guard(names: Names, request: Request, next: Next) -> Response {
    if !names.allows(request.headers()) {
        return (StatusCode::FORBIDDEN, "ask for localhost or 127.0.0.1\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// The state so far, then every event. A listener that falls too far behind is cut off.
async fn events(State(site): State<Site>) -> Response {
    let Ok(place) = site.streams.try_acquire_owned() else {
        let text = "too many pages are open; close one\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let Some((state, receiver)) = site.hub.join() else {
        return (StatusCode::GONE, "the command has ended\n").into_response();
    };
    let first = tokio_stream::once(Ok::<_, Infallible>(Sent::default().event("state").data(state)));
    let rest = BroadcastStream::new(receiver).map_while(move |event| {
        // The place is given back with the stream.
        let _place = &place;
        event.ok().map(|text| Ok(Sent::default().data(&*text)))
    });
    let alive = KeepAlive::new().interval(ALIVE_EVERY);
    Sse::new(first.chain(rest)).keep_alive(alive).into_response()
}

async fn runs(State(site): State<Site>) -> Response {
    let list = tokio::task::spawn_blocking(move || site.stored.list()).await;
    let Ok(list) = list else { return broken() };
    axum::Json(list.iter().map(Arc::as_ref).collect::<Vec<_>>()).into_response()
}

async fn run(State(site): State<Site>, PathPart(id): PathPart<String>) -> Response {
    file(site, id, "result.json", "application/json").await
}

async fn report(State(site): State<Site>, PathPart(id): PathPart<String>) -> Response {
    file(site, id, "report.html", "text/html; charset=utf-8").await
}

async fn file(site: Site, id: String, name: &'static str, kind: &'static str) -> Response {
    let read = tokio::task::spawn_blocking(move || site.stored.file(&id, name)).await;
    match read {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Ok(Err(StoredError::Unknown)) => {
            (StatusCode::NOT_FOUND, "there is no such run\n").into_response()
        }
        Ok(Err(StoredError::TooLarge)) => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the file is too large to be shown\n").into_response()
        }
        Err(_) => broken(),
    }
}

fn broken() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the results cannot be read\n").into_response()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
