//! Traces: one more, the list of them, what they have, the end of one.

use super::Problem;
use super::operation::Text;
use crate::asks::Asks;
use crate::tracer::{self, NotStarted};
use crate::traces::{TRACES_MAX, TraceOf, TraceShown};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a trace takes if the request does not say, and at most.
const FOR_S_DEFAULT: u64 = 60;
const FOR_S_MAX: u64 = 3_600;

/// Bytes of its lines if the request does not say, and at most.
const BYTES_DEFAULT: usize = 10_000_000;
const BYTES_MAX: usize = 16_000_000;

/// Bytes of a name that the log shows.
const NAME_BYTES_SHOWN: usize = 128;

/// Bytes of a page; the line that passes this is its last.
const PAGE_BYTES: usize = 512 * 1024;

/// How long a page may be waited for.
const WAIT_S_MAX: u64 = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartQuery {
    /// `client`, `user`, `address` or `topic`.
    #[schemars(extend("enum" = ["client", "user", "address", "topic"]))]
    kind: String,
    /// A client identifier, a user name, an address, a topic filter.
    #[schemars(length(min = 1))]
    name: String,
    /// How long, in seconds: 60 if it is not given.
    #[schemars(range(min = 1, max = FOR_S_MAX))]
    for_s: Option<u64>,
    /// Bytes of its lines: 10,000,000 if it is not given.
    #[schemars(range(min = 1, max = BYTES_MAX))]
    bytes_max: Option<usize>,
}

pub(super) async fn start(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<StartQuery>, QueryRejection>,
) -> Result<Json<TraceShown>, Problem> {
    let Query(StartQuery { kind, name, for_s, bytes_max }) = query?;
    let for_s = within("for_s", for_s.unwrap_or(FOR_S_DEFAULT), FOR_S_MAX)?;
    let bytes_max = within("bytes_max", bytes_max.unwrap_or(BYTES_DEFAULT), BYTES_MAX)?;
    let of = TraceOf { kind, name };
    asks.check_trace(&of).map_err(Problem::bad_request)?;
    let shown = &of.name[..of.name.floor_char_boundary(NAME_BYTES_SHOWN)];
    tracing::info!(kind = of.kind, name = shown, for_s, "a trace begins");
    match tracer::start(&asks, of, Duration::from_secs(for_s), bytes_max).await {
        Ok(trace) => Ok(Json(trace)),
        Err(NotStarted::TooMany) => {
            let text = format!("{TRACES_MAX} traces go on; end one of them (GET lists them)");
            Err(Problem::new(StatusCode::CONFLICT, text))
        }
        Err(NotStarted::Busy) => Err(crate::port::Full.into()),
    }
}

fn within<T: PartialOrd + From<u8> + std::fmt::Display>(
    name: &str,
    value: T,
    max: T,
) -> Result<T, Problem> {
    match (T::from(1)..=max).contains(&value) {
        true => Ok(value),
        false => Err(Problem::bad_request(format!("{name} is out of its bounds: {value}"))),
    }
}

/// All traces.
#[derive(Serialize, JsonSchema)]
pub(super) struct TraceList {
    traces: Vec<TraceShown>,
}

pub(super) async fn list(State(asks): State<Arc<Asks>>) -> Json<TraceList> {
    Json(TraceList { traces: asks.traces.list() })
}

fn none() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such trace")
}

pub(super) async fn one(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<u64>, PathRejection>,
) -> Result<Json<TraceShown>, Problem> {
    let Path(id) = id?;
    asks.traces.one(id).map(Json).ok_or_else(none)
}

pub(super) async fn end(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<u64>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(id) = id?;
    if asks.traces.end(id) { Ok(NoContent) } else { Err(none()) }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// The number of the last line that is there already: 0 if it is not given.
    after: Option<u64>,
    /// Seconds to wait for a line, at most 5: none if it is not given.
    wait_s: Option<u64>,
}

/// A page of lines, as soon as there is one.
pub(super) async fn events(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<u64>, PathRejection>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Text, Problem> {
    let (Path(id), Query(EventsQuery { after, wait_s })) = (id?, query?);
    let wait = Duration::from_secs(wait_s.unwrap_or(0).min(WAIT_S_MAX));
    let until = Instant::now() + wait;
    loop {
        let news = asks.traces.news();
        tokio::pin!(news);
        // From now on, so that none is missed that comes while the lines are looked at.
        news.as_mut().enable();
        let page = asks.traces.lines(id, after.unwrap_or(0), PAGE_BYTES).ok_or_else(none)?;
        let is_waited_for = page.text.is_empty() && !page.is_over;
        if !is_waited_for || tokio::time::timeout_at(until, news).await.is_err() {
            return Ok(Text { kind: "application/x-ndjson", text: page.text });
        }
    }
}
