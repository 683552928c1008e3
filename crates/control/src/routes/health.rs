//! Whether the broker is there, and whether it serves: for whoever watches it.

use super::Problem;
use crate::asks::Asks;
use crate::port::Request;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a shard may take to say that it turns.
const TURN_MAX: Duration = Duration::from_secs(2);

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Every shard turns.
pub(super) async fn ready(State(asks): State<Arc<Asks>>) -> Result<&'static str, Problem> {
    for shard in 0..asks.shards() {
        let answer = tokio::time::timeout(TURN_MAX, asks.ask(shard, Request::Counters)).await;
        if !matches!(answer, Ok(Ok(_))) {
            let text = format!("shard {shard} does not answer");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
    }
    Ok("ready\n")
}
