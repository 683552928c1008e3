//! `/api/v1/drain`: clients are sent to another server.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, DrainOrder, DrainState, Request};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde_json::{Value, json};
use std::sync::Arc;

/// Clients that are sent away in a second, where the request does not say.
const PER_SECOND: u32 = 500;

/// The most it may ask for.
const PER_SECOND_MAX: u32 = 1_000_000;

/// Bytes of the name of a server.
const REFERENCE_BYTES_MAX: usize = 1_024;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainQuery {
    server: Option<String>,
    #[serde(default)]
    moved: bool,
    rate: Option<u32>,
}

pub(super) async fn begin(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<DrainQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(DrainQuery { server, moved, rate }) = query?;
    let per_second = rate.unwrap_or(PER_SECOND);
    if !(1..=PER_SECOND_MAX).contains(&per_second) {
        return Err(Problem::bad_request(format!("rate must be 1 to {PER_SECOND_MAX}")));
    }
    let is_text = |server: &String| {
        (1..=REFERENCE_BYTES_MAX).contains(&server.len()) && !server.contains(char::is_control)
    };
    if !server.as_ref().is_none_or(is_text) {
        let text = format!("server must have 1 to {REFERENCE_BYTES_MAX} bytes of text");
        return Err(Problem::bad_request(text));
    }
    tracing::info!(server, moved, per_second, "clients are sent away");
    let per_second = per_second.div_ceil(u32::from(asks.shards()).max(1));
    order(&asks, DrainOrder::Begin { is_moved: moved, reference: server, per_second }).await
}

pub(super) async fn state(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    order(&asks, DrainOrder::Look).await
}

pub(super) async fn end(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    tracing::info!("clients are let in again");
    order(&asks, DrainOrder::End).await
}

async fn order(asks: &Asks, order: DrainOrder) -> Result<Json<Value>, Problem> {
    let mut all = DrainState::default();
    for answer in asks.ask_all(&Request::Drain(order)).await? {
        let Answer::Drain(state) = answer else { return Err(wrong_answer()) };
        all.is_draining |= state.is_draining;
        all.ended += state.ended;
        all.connections += state.connections;
    }
    let DrainState { is_draining, ended, connections } = all;
    Ok(Json(json!({ "draining": is_draining, "ended": ended, "connections": connections })))
}
