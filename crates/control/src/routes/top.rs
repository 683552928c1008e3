//! `/api/v1/top`: which clients send and get most.

use super::Problem;
use crate::asks::Asks;
use crate::top::{TALKERS_MAX, Talker, Traffic};
use crate::window::window;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How long it is counted, where the request does not say, and at most: an answer has its time.
const SECONDS: u8 = 5;
const SECONDS_MAX: u8 = 8;

/// Clients of an answer, where the request does not say.
const LIMIT: u16 = 20;

/// By what clients are put in order.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Messages,
    Bytes,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Direction {
    In,
    Out,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TopQuery {
    /// How long it is counted: 5 if it is not given. One who asks while it is counted for another
    /// gets that.
    #[schemars(range(min = 1, max = SECONDS_MAX))]
    seconds: Option<u8>,
    /// What those in front have most of: messages if it is not given.
    #[serde(default)]
    by: Order,
    /// Only what comes from clients, or goes to them: both together if it is not given.
    direction: Option<Direction>,
    /// Clients of the answer: 20 if it is not given.
    #[schemars(range(min = 1, max = TALKERS_MAX))]
    limit: Option<u16>,
}

/// Who has sent and got most in a while.
#[derive(Serialize, JsonSchema)]
pub(super) struct Top {
    /// How long it was counted.
    seconds: f64,
    /// Of all clients.
    total: Traffic,
    /// Those with most.
    clients: Vec<Talker>,
}

pub(super) async fn top(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<TopQuery>, QueryRejection>,
) -> Result<Json<Top>, Problem> {
    let Query(TopQuery { seconds, by, direction, limit }) = query?;
    let seconds = seconds.unwrap_or(SECONDS);
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(Problem::bad_request(format!("seconds must be 1 to {SECONDS_MAX}")));
    }
    let limit = super::limit(limit, LIMIT, TALKERS_MAX)?;
    let key = |of: &Traffic| {
        let (inward, outward) = match by {
            Order::Messages => (of.messages_in, of.messages_out),
            Order::Bytes => (of.bytes_in, of.bytes_out),
        };
        match direction {
            Some(Direction::In) => inward,
            Some(Direction::Out) => outward,
            None => inward + outward,
        }
    };
    let window = window(&asks, Duration::from_secs(seconds.into())).await?;
    let (total, clients) = (window.tally.total, window.tally.first(key, limit));
    Ok(Json(Top { seconds: window.seconds, total, clients }))
}
