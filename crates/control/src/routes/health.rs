//! Whether the broker is there, and whether it serves: for whoever watches it.

use super::Problem;
use crate::asks::Asks;
use crate::port::{Answer, DrainOrder, Request};
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

/// Every shard turns, and clients are let in.
pub(super) async fn ready(State(asks): State<Arc<Asks>>) -> Result<&'static str, Problem> {
    if let Some(why) = asks.is_shut() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    for shard in 0..asks.shards() {
        let look = Request::Drain(DrainOrder::Look);
        let text = match tokio::time::timeout(TURN_MAX, asks.ask(shard, look)).await {
            Ok(Ok(Answer::Drain(state))) if !state.is_draining => continue,
            Ok(Ok(Answer::Drain(_))) => "draining: clients are sent to another server".to_owned(),
            _ => format!("shard {shard} does not answer"),
        };
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    Ok("ready\n")
}
