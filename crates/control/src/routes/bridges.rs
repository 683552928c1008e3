//! `/api/v1/bridges`: how each bridge is, with what waits for it.

use super::Problem;
use crate::asks::Asks;
use crate::bridges::Bridge;
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
    Ok(Json(BridgeList { bridges: asks.bridges().await? }))
}
