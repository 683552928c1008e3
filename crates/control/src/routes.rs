//! What is answered to which path.

mod bans;

use crate::asks::Asks;
use crate::port::{Answer, Client, Counters, Full, Kicked, NotMoved, PAGE_CLIENTS_MAX, Request};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Clients of an answer, where the request does not say.
const CLIENTS_DEFAULT: usize = 100;

/// The most it may ask for.
const CLIENTS_MAX: usize = 1_000;

/// Bytes of client identifiers that an answer ends at, short of clients.
const NAME_BYTES_MAX: usize = 1024 * 1024;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(crate) fn routes(asks: &Arc<Asks>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/v1/clients", get(clients))
        .route("/api/v1/clients/{id}", get(client).delete(kick))
        .route("/api/v1/bans", get(bans::list).post(bans::add).delete(bans::remove))
        .route("/api/v1/counters", get(counters))
        .route("/api/v1/partitions", get(partitions))
        .route("/api/v1/partitions/{partition}", put(move_partition))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method")
        })
        .layer(from_fn(guard))
        .with_state(Arc::clone(asks))
}

/// A request without a body, answered in time.
async fn guard(request: HttpRequest, next: Next) -> Response {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH);
    if headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != "0")
    {
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "no request here has a body");
        return problem.into_response();
    }
    match tokio::time::timeout(ANSWER_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "the broker did not answer in time; it may be very busy";
            Problem::new(StatusCode::GATEWAY_TIMEOUT, text).into_response()
        }
    }
}

/// A failure, as `{"error": TEXT}`.
struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.text }))).into_response()
    }
}

impl From<Full> for Problem {
    fn from(_: Full) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the broker takes no request now; try again")
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

/// An answer of another kind than the request: the port does not keep to its word.
fn wrong_answer() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the broker answered something else")
}

fn no_client(id: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no client {id:?}"))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Where a list goes on: `SHARD-PLACE`.
struct Cursor {
    shard: u16,
    place: u32,
}

impl Cursor {
    fn parse(text: &str, shards: u16) -> Option<Self> {
        let (shard, place) = text.split_once('-')?;
        let (shard, place) = (shard.parse().ok()?, place.parse().ok()?);
        (shard < shards).then_some(Self { shard, place })
    }

    fn text(&self) -> String {
        format!("{}-{}", self.shard, self.place)
    }
}

/// Clients of one shard after the other.
async fn clients(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(ListQuery { limit, cursor }) = query?;
    let limit = limit.unwrap_or(CLIENTS_DEFAULT);
    if !(1..=CLIENTS_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!("limit must be 1 to {CLIENTS_MAX}")));
    }
    let mut at = match cursor {
        None => Cursor { shard: 0, place: 0 },
        Some(text) => Cursor::parse(&text, asks.shards()).ok_or_else(|| {
            Problem::bad_request("cursor must be one that an answer of this list said")
        })?,
    };
    let (mut clients, mut name_bytes): (Vec<Client>, _) = (Vec::new(), 0);
    while at.shard < asks.shards() && clients.len() < limit && name_bytes < NAME_BYTES_MAX {
        let left = (limit - clients.len()).min(PAGE_CLIENTS_MAX.into()) as u16;
        let request = Request::Clients { from: at.place, clients_max: left };
        let Answer::Clients(page) = asks.ask(at.shard, request).await? else {
            return Err(wrong_answer());
        };
        name_bytes += page.clients.iter().map(Client::name_bytes).sum::<usize>();
        clients.extend(page.clients);
        at = match page.next {
            Some(place) => Cursor { place, ..at },
            None => Cursor { shard: at.shard + 1, place: 0 },
        };
    }
    let cursor = (at.shard < asks.shards()).then(|| at.text());
    Ok(Json(json!({ "clients": clients, "cursor": cursor })))
}

async fn client(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Client>, Problem> {
    let Path(id) = id?;
    let answer = asks.ask(asks.owner(&id), Request::Client(id.as_str().into())).await?;
    let Answer::Client(client) = answer else { return Err(wrong_answer()) };
    client.map(Json).ok_or_else(|| no_client(&id))
}

async fn kick(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path(id) = id?;
    let answer = asks.ask(asks.owner(&id), Request::Kick(id.as_str().into())).await?;
    let Answer::Kicked(kicked) = answer else { return Err(wrong_answer()) };
    match kicked {
        Kicked::Ended => Ok(StatusCode::NO_CONTENT),
        Kicked::Unknown => Err(no_client(&id)),
        Kicked::Absent => {
            let text = format!("the client {id:?} is not connected; its session is kept");
            Err(Problem::new(StatusCode::NOT_FOUND, text))
        }
    }
}

/// The counters of each shard, of all together, and of the process.
async fn counters(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    let (mut shards, mut sum, mut process) = (Vec::new(), Map::new(), Map::new());
    for shard in 0..asks.shards() {
        let answer = asks.ask(shard, Request::Counters).await?;
        let Answer::Counters(counters) = answer else { return Err(wrong_answer()) };
        add(&mut sum, &counters);
        if process.is_empty() {
            process = object(&counters.process);
        }
        let mut own = object(&counters.shard);
        own.insert("refusals".into(), object(&counters.refusals).into());
        shards.push(own);
    }
    Ok(Json(json!({ "sum": sum, "shards": shards, "process": process })))
}

/// What each shard holds.
async fn partitions(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    let mut shards = Vec::new();
    for shard in 0..asks.shards() {
        let answer = asks.ask(shard, Request::Partitions).await?;
        let Answer::Partitions(partitions) = answer else { return Err(wrong_answer()) };
        shards.push(partitions);
    }
    Ok(Json(json!({ "shards": shards })))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveQuery {
    shard: u16,
}

/// Moves a partition to a shard. It goes on if nobody waits any more.
async fn move_partition(
    State(asks): State<Arc<Asks>>,
    partition: Result<Path<String>, PathRejection>,
    query: Result<Query<MoveQuery>, QueryRejection>,
) -> Result<StatusCode, Problem> {
    let (Path(text), Query(MoveQuery { shard: to })) = (partition?, query?);
    let partition: u8 =
        text.parse().map_err(|_| Problem::bad_request("a partition is a number from 0 to 255"))?;
    let conflict = |text| Err(Problem::new(StatusCode::CONFLICT, text));
    if asks.shards() == 1 {
        return conflict("the broker has one shard, which holds all partitions".to_owned());
    }
    let Answer::Moved(moved) = asks.ask(0, Request::Move { partition, to }).await? else {
        return Err(wrong_answer());
    };
    match moved {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(NotMoved::UnderWay) => conflict("another partition is being moved".to_owned()),
        Err(NotMoved::Logged) => {
            conflict("partitions do not move while sessions are kept on disk".to_owned())
        }
        Err(NotMoved::IsThere) => conflict(format!("shard {to} holds partition {partition}")),
        Err(NotMoved::UnknownShard) => {
            let text = format!("there is no shard {to}: they are 0 to {}", asks.shards() - 1);
            Err(Problem::bad_request(text))
        }
    }
}

fn object(counts: &[(&'static str, u64)]) -> Map<String, Value> {
    counts.iter().map(|&(name, count)| (name.to_owned(), count.into())).collect()
}

fn add(sum: &mut Map<String, Value>, counters: &Counters) {
    add_counts(sum, &counters.shard);
    let refusals = sum.entry("refusals").or_insert_with(|| Map::new().into());
    if let Value::Object(refusals) = refusals {
        add_counts(refusals, &counters.refusals);
    }
}

fn add_counts(sum: &mut Map<String, Value>, counts: &[(&'static str, u64)]) {
    for &(name, count) in counts {
        let so_far = sum.get(name).and_then(Value::as_u64).unwrap_or(0);
        sum.insert(name.to_owned(), (so_far + count).into());
    }
}
