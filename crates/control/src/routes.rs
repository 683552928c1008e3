//! What is answered to which path, and to whom.

mod bans;
mod bridges;
mod broker;
mod clients;
mod cluster;
mod counters;
mod drain;
mod drops;
mod guests;
mod health;
mod listeners;
mod messages;
mod openapi;
mod operation;
mod partitions;
mod reload;
mod retained;
mod subscriptions;
mod token;
mod top;
mod traces;
mod users;
mod why;

use crate::asks::Asks;
use crate::dashboard;
use crate::port::Full;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection, StringRejection};
use axum::extract::{DefaultBodyLimit, Request as HttpRequest};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
pub(crate) use guests::Guests;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use operation::Operation;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a body may take to come.
const BODY_MAX: Duration = Duration::from_secs(10);

/// Bytes of a body: the longest message, in base64.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Everything that is answered: the one place to add a route, which is in the API's description
/// then.
fn operations() -> Vec<Operation> {
    use Operation as On;
    let mut all = vec![
        On::get("/healthz", "Whether the process answers.", health::alive),
        On::get(
            "/readyz",
            "Whether clients are let in and every thread answers; else 503.",
            health::ready,
        ),
        On::get("/metrics", "Every counter as text for Prometheus.", counters::metrics),
        On::get("/api/v1/openapi.json", "This description.", openapi::openapi),
        On::get("/api/v1/broker", "Which broker this is, and since when.", broker::broker),
        On::get("/api/v1/clients", "Clients, by pages.", clients::clients),
        On::get("/api/v1/clients/{id}", "One client.", clients::client).fails(&[NO_CLIENT]),
        On::delete("/api/v1/clients/{id}", "Ends a client's connection.", clients::kick)
            .fails(&[(404, "There is no such client, or it is not connected.")]),
        On::get(
            "/api/v1/clients/{id}/subscriptions",
            "A client's subscriptions, by pages.",
            subscriptions::subscriptions,
        )
        .fails(&[NO_CLIENT]),
        On::delete("/api/v1/sessions/{id}", "Ends a session, and its connection.", clients::end)
            .fails(&[NO_CLIENT]),
        On::get("/api/v1/retained", "Retained messages, by pages.", retained::list),
        On::get("/api/v1/retained/{*topic}", "A topic's retained message.", retained::one)
            .fails(&[NOTHING_RETAINED]),
        On::delete("/api/v1/retained/{*topic}", "Clears a topic.", retained::clear)
            .fails(&[NOTHING_RETAINED]),
        On::post("/api/v1/publish", "Publishes a message.", messages::publish),
        On::post(
            "/api/v1/publish/bulk",
            "Publishes messages in order, up to the first that cannot be.",
            messages::publish_bulk,
        ),
    ];
    all.extend(of_configuration());
    all.extend(of_watching());
    all
}

/// Who may come in, and how.
fn of_configuration() -> Vec<Operation> {
    use Operation as On;
    vec![
        On::get("/api/v1/bans", "Bans that are in force, by pages.", bans::list),
        On::post("/api/v1/bans", "Bans somebody, and ends who is connected.", bans::add)
            .fails(&[(409, "There are too many bans.")]),
        On::delete("/api/v1/bans", "Takes a ban back.", bans::remove).fails(&[
            (404, "There is no such ban."),
            (409, "The file of bans has it."),
            (500, "It holds no more, but will after a restart: its file cannot be written."),
        ]),
        On::get("/api/v1/bridges", "Bridges to other brokers.", bridges::list),
        On::post("/api/v1/reload", "Has files read again, as SIGHUP does.", reload::reload)
            .fails(&[NOT_USED]),
        On::get("/api/v1/config", "The configuration, but for secrets.", reload::config).fails(&[
            (403, "The file is for an admin."),
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::get("/api/v1/config/sections", "What is live, and what not.", reload::sections),
        On::put("/api/v1/config", "Another configuration file.", reload::put_config).fails(&[
            (403, "Nobody may over TCP, as it is configured."),
            NOT_USED,
            NOT_WRITTEN,
        ]),
        On::get("/api/v1/drain", "How far clients are sent away.", drain::state),
        On::post("/api/v1/drain", "Sends clients away, and lets in none.", drain::begin),
        On::delete("/api/v1/drain", "Lets clients in again.", drain::end),
        On::get("/api/v1/listeners", "Where clients come in.", listeners::list),
        On::get("/api/v1/users", "Users of the password file.", users::list)
            .fails(&[NO_FILE, NOT_WRITTEN]),
        On::get("/api/v1/users/{name}", "Whether there is a user.", users::one).fails(&[
            NO_USER,
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::put("/api/v1/users/{name}", "A user's password.", users::put).fails(&[
            (201, "There was none before."),
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::delete("/api/v1/users/{name}", "Takes a user out.", users::remove).fails(&[
            NO_USER,
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::get("/api/v1/users/{name}/rights", "A user's access rights.", users::rights).fails(&[
            NO_USER,
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::put("/api/v1/users/{name}/rights", "Others for a user.", users::put_rights).fails(&[
            NO_USER,
            NO_FILE,
            NOT_WRITTEN,
        ]),
        On::get("/api/v1/acl", "The file of access rights.", users::acl)
            .fails(&[NO_FILE, NOT_WRITTEN]),
        On::put("/api/v1/acl", "Another text of it.", users::put_acl)
            .fails(&[NO_FILE, NOT_WRITTEN]),
    ]
}

/// How things stand.
fn of_watching() -> Vec<Operation> {
    use Operation as On;
    vec![
        On::get("/api/v1/cluster", "The cluster, as this node sees it.", cluster::cluster),
        On::delete(
            "/api/v1/cluster/nodes/{name}",
            "Has the place of a node that will not come back be free.",
            cluster::forget,
        )
        .fails(&[
            (404, "No node of this name has a place, or there is no cluster."),
            (409, "It is a member."),
        ]),
        On::get("/api/v1/drops", "What was dropped and refused lately.", drops::list),
        On::get("/api/v1/why", "Whether a client would get a message, and why not.", why::why),
        On::get("/api/v1/top", "Who sends and gets most, counted from now on.", top::top),
        On::get("/api/v1/traces", "Traces; for an admin, as all of them are.", traces::list),
        On::post("/api/v1/traces", "Starts a trace.", traces::start)
            .fails(&[(409, "As many traces go on as may.")]),
        On::get("/api/v1/traces/{id}", "How a trace stands.", traces::one).fails(&[NO_TRACE]),
        On::delete("/api/v1/traces/{id}", "Ends a trace.", traces::end).fails(&[NO_TRACE]),
        On::get("/api/v1/traces/{id}/events", "Lines of a trace, by pages.", traces::events)
            .fails(&[NO_TRACE]),
        On::get("/api/v1/counters", "Every counter, by thread and in sum.", counters::counters),
        On::get("/api/v1/history", "Some counters in the last hour.", counters::history),
        On::get("/api/v1/token", "Whose token came with the request.", token::token),
        On::get("/api/v1/partitions", "What each thread holds.", partitions::partitions),
        On::put(
            "/api/v1/partitions/{partition}",
            "Gives a partition to another thread.",
            partitions::move_partition,
        )
        .fails(&[(409, "It is there already, or partitions cannot move now.")]),
    ]
}

const NO_CLIENT: (u16, &str) = (404, "There is no such client.");
const NOT_USED: (u16, &str) = (409, "Something cannot be used, so that nothing has changed.");
const NO_FILE: (u16, &str) = (409, "The configuration names no such file.");
const NO_USER: (u16, &str) = (404, "There is no such user.");
const NOT_WRITTEN: (u16, &str) = (500, "The file cannot be read or written.");
const NO_TRACE: (u16, &str) = (404, "There is no such trace.");
const NOTHING_RETAINED: (u16, &str) = (404, "Nothing is retained for the topic.");

/// For whoever may do everything.
pub(crate) fn routes(asks: &Arc<Asks>) -> Router {
    let add = |router: Router<Arc<Asks>>, on: Operation| {
        let handler = on.handler.route_layer(from_fn(in_time));
        let handler = match on.takes_body {
            true => handler.route_layer(from_fn(with_body)),
            false => handler.route_layer(from_fn(without_body)),
        };
        router.route(on.path, handler)
    };
    operations()
        .into_iter()
        .fold(Router::new(), add)
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method")
        })
        .layer(map_response(for_nobody_else))
        // It is whole by then, and not longer than it may.
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(asks))
}

/// The same for whoever has to show a token, and the page, which has a place to enter it.
pub(crate) fn routes_for_guests(asks: &Arc<Asks>, guests: Guests) -> Router {
    routes(asks)
        .merge(dashboard::routes())
        .layer(from_fn_with_state(Arc::new(guests), guests::admit))
}

/// A request without a body, where none is taken.
async fn without_body(request: HttpRequest, next: Next) -> Response {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH);
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || length.is_some_and(|length| length != "0");
    if has_body {
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "this takes no body");
        return problem.into_response();
    }
    next.run(request).await
}

/// An answer that is kept nowhere, and is nothing else than it says.
async fn for_nobody_else(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A request whose body has come, and is not too long.
async fn with_body(request: HttpRequest, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect();
    let problem = match tokio::time::timeout(BODY_MAX, body).await {
        Ok(Ok(body)) => {
            return next.run(HttpRequest::from_parts(head, body.to_bytes().into())).await;
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("a body may have {BODY_BYTES_MAX} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        Ok(Err(error)) => Problem::bad_request(format!("the body cannot be read: {error}")),
        Err(_) => Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to come"),
    };
    // The rest of the body is no request.
    ([(header::CONNECTION, "close")], problem).into_response()
}

/// A request that is answered in time.
async fn in_time(request: HttpRequest, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "the broker did not answer in time; it may be very busy";
            Problem::new(StatusCode::GATEWAY_TIMEOUT, text).into_response()
        }
    }
}

/// A failure.
#[derive(Serialize, JsonSchema)]
struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What was wrong, and what to do.
    #[serde(rename = "error")]
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// Of the message at this place of several.
    fn at(self, at: usize) -> Self {
        Self { text: format!("message {at}: {}", self.text), ..self }
    }

    fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
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

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<StringRejection> for Problem {
    fn from(rejection: StringRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

/// How much of a list an answer is to have: `usual`, where the request does not say.
fn limit<T>(asked: Option<T>, usual: T, max: T) -> Result<T, Problem>
where
    T: Copy + Display + From<u8> + PartialOrd,
{
    let limit = asked.unwrap_or(usual);
    match (T::from(1)..=max).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::bad_request(format!("limit must be 1 to {max}"))),
    }
}

/// An answer of another kind than the request: the port does not keep to its word.
fn wrong_answer() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the broker answered something else")
}
