//! What is answered to which path, and to whom.

mod bans;
mod clients;
mod counters;
mod drain;
mod drops;
mod guests;
mod health;
mod listeners;
mod messages;
mod partitions;
mod reload;
mod retained;
mod subscriptions;
mod token;
mod users;
mod why;

use crate::asks::Asks;
use crate::dashboard;
use crate::port::Full;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection, StringRejection};
use axum::extract::{DefaultBodyLimit, Request as HttpRequest};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
pub(crate) use guests::Guests;
use serde_json::json;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Bytes of a body: the longest message, in base64.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// For whoever may do everything.
pub(crate) fn routes(asks: &Arc<Asks>) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(counters::metrics))
        .route("/api/v1/clients", get(clients::clients))
        .route("/api/v1/clients/{id}", get(clients::client).delete(clients::kick))
        .route("/api/v1/clients/{id}/subscriptions", get(subscriptions::subscriptions))
        .route("/api/v1/sessions/{id}", delete(clients::end))
        .route("/api/v1/retained", get(retained::list))
        .route("/api/v1/retained/{*topic}", get(retained::one).delete(retained::clear))
        .route("/api/v1/publish", post(messages::publish))
        .route("/api/v1/publish/bulk", post(messages::publish_bulk))
        .route("/api/v1/bans", get(bans::list).post(bans::add).delete(bans::remove))
        .route("/api/v1/reload", post(reload::reload))
        .route("/api/v1/config", get(reload::config).put(reload::put_config))
        .route("/api/v1/drain", get(drain::state).post(drain::begin).delete(drain::end))
        .route("/api/v1/users", get(users::list))
        .route("/api/v1/users/{name}", get(users::one).put(users::put).delete(users::remove))
        .route("/api/v1/users/{name}/rights", get(users::rights).put(users::put_rights))
        .route("/api/v1/acl", get(users::acl).put(users::put_acl))
        .route("/api/v1/listeners", get(listeners::list))
        .route("/api/v1/drops", get(drops::list))
        .route("/api/v1/why", get(why::why))
        .route("/api/v1/counters", get(counters::counters))
        .route("/api/v1/history", get(counters::history))
        .route("/api/v1/token", get(token::token))
        .route("/api/v1/partitions", get(partitions::partitions))
        .route("/api/v1/partitions/{partition}", put(partitions::move_partition))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard))
        .with_state(Arc::clone(asks))
}

/// The same for whoever has to show a token, and the page, which has a place to enter it.
pub(crate) fn routes_for_guests(asks: &Arc<Asks>, guests: Guests) -> Router {
    routes(asks)
        .merge(dashboard::routes())
        .layer(from_fn_with_state(Arc::new(guests), guests::admit))
}

/// A request that has no body if its method has none here, answered in time.
async fn guard(request: HttpRequest, next: Next) -> Response {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH);
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || length.is_some_and(|length| length != "0");
    if has_body && !matches!(*request.method(), Method::POST | Method::PUT) {
        let text = "only a POST or a PUT has a body";
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text);
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
