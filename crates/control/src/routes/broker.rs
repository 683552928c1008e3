//! `/api/v1/broker`: which broker this is.

use crate::asks::Asks;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The broker itself.
#[derive(Serialize, JsonSchema)]
pub(super) struct Broker {
    version: &'static str,
    /// Seconds since it has started.
    uptime_s: u64,
    /// Its threads.
    shards: u16,
}

pub(super) async fn broker(State(asks): State<Arc<Asks>>) -> Json<Broker> {
    let (uptime_s, shards) = (asks.uptime().as_secs(), asks.shards());
    Json(Broker { version: env!("CARGO_PKG_VERSION"), uptime_s, shards })
}
