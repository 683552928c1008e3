//! `/api/v1/listeners`: where clients come in.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::keeper::Keeper;
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;

/// Each with how many connections have come by it and are still there.
pub(super) async fn list(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    let mut counts: Vec<u64> = Vec::new();
    for answer in asks.ask_all(&Request::Listeners).await? {
        let Answer::Listeners(of_shard) = answer else { return Err(wrong_answer()) };
        counts.resize(counts.len().max(of_shard.len()), 0);
        counts.iter_mut().zip(of_shard).for_each(|(count, of_shard)| *count += of_shard);
    }
    let listeners = asks.keep(<dyn Keeper>::listeners).await?;
    let shown = listeners.iter().map(|listener| {
        let connections = counts.get(usize::from(listener.id)).copied().unwrap_or(0);
        json!({
            "address": listener.address,
            "speaks": listener.speaks,
            "certificate": listener.certificate,
            "connections": connections,
        })
    });
    Ok(Json(json!({ "listeners": shown.collect::<Vec<_>>() })))
}
