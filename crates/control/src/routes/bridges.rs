//! `/api/v1/bridges`: how each bridge is, with what waits for it.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::bridges::Bridge;
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// All bridges.
#[derive(Serialize, JsonSchema)]
pub(super) struct BridgeList {
    bridges: Vec<Bridge>,
}

pub(super) async fn list(State(asks): State<Arc<Asks>>) -> Result<Json<BridgeList>, Problem> {
    Ok(Json(BridgeList { bridges: all(&asks).await? }))
}

/// Each of them, with its queue as the shard has it that owns its session.
pub(super) async fn all(asks: &Asks) -> Result<Vec<Bridge>, Problem> {
    let mut bridges = asks.bridges();
    for bridge in &mut bridges {
        let id = &*bridge.client_id;
        let Answer::Client(client) = asks.ask(asks.owner(id), Request::Client(id.into())).await?
        else {
            return Err(wrong_answer());
        };
        if let Some(client) = client {
            bridge.queued_messages = client.queued_messages + u64::from(client.in_flight);
            bridge.queued_bytes = client.queued_bytes;
        }
    }
    Ok(bridges)
}
