//! `/api/v1/drain`: clients are sent to another server.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, DrainOrder, DrainState, Request};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Clients that are sent away in a second, where the request does not say.
const PER_SECOND: u32 = 500;

/// The most it may ask for.
const PER_SECOND_MAX: u32 = 1_000_000;

/// Bytes of the name of a server.
const REFERENCE_BYTES_MAX: usize = 1_024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainQuery {
    /// The server that clients are to use: Server Reference.
    #[schemars(length(min = 1, max = REFERENCE_BYTES_MAX))]
    server: Option<String>,
    /// Whether clients are never to come back.
    #[serde(default)]
    moved: bool,
    /// Clients that are sent away in a second: 500 if it is not given.
    #[schemars(range(min = 1, max = PER_SECOND_MAX))]
    rate: Option<u32>,
}

/// How far clients are sent away.
#[derive(Serialize, JsonSchema)]
pub(super) struct Drain {
    /// Whether they are.
    draining: bool,
    /// Clients that were sent away.
    ended: u64,
    /// Connections that are there.
    connections: u64,
}

pub(super) async fn begin(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<DrainQuery>, QueryRejection>,
) -> Result<Json<Drain>, Problem> {
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

pub(super) async fn state(State(asks): State<Arc<Asks>>) -> Result<Json<Drain>, Problem> {
    order(&asks, DrainOrder::Look).await
}

pub(super) async fn end(State(asks): State<Arc<Asks>>) -> Result<Json<Drain>, Problem> {
    tracing::info!("clients are let in again");
    order(&asks, DrainOrder::End).await
}

async fn order(asks: &Asks, order: DrainOrder) -> Result<Json<Drain>, Problem> {
    let mut all = DrainState::default();
    for answer in asks.ask_all(&Request::Drain(order)).await? {
        let Answer::Drain(state) = answer else { return Err(wrong_answer()) };
        all.is_draining |= state.is_draining;
        all.ended += state.ended;
        all.connections += state.connections;
    }
    let DrainState { is_draining, ended, connections } = all;
    Ok(Json(Drain { draining: is_draining, ended, connections }))
}
