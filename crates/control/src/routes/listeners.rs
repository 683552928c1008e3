//! `/api/v1/listeners`: where clients come in.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::keeper::{Keeper, ListenerPlace};
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// A place where clients come in.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownListener {
    #[serde(flatten)]
    place: ListenerPlace,
    /// How many have come by it and are still there.
    connections: u64,
}

/// All of them.
#[derive(Serialize, JsonSchema)]
pub(super) struct ListenerList {
    listeners: Vec<ShownListener>,
}

/// Each with how many connections have come by it and are still there.
pub(super) async fn list(State(asks): State<Arc<Asks>>) -> Result<Json<ListenerList>, Problem> {
    let mut counts: Vec<u64> = Vec::new();
    for answer in asks.ask_all(&Request::Listeners).await? {
        let Answer::Listeners(of_shard) = answer else { return Err(wrong_answer()) };
        counts.resize(counts.len().max(of_shard.len()), 0);
        counts.iter_mut().zip(of_shard).for_each(|(count, of_shard)| *count += of_shard);
    }
    let listeners = asks.keep(<dyn Keeper>::listeners).await?;
    let shown = listeners.into_iter().map(|place| {
        let connections = counts.get(usize::from(place.id)).copied().unwrap_or(0);
        ShownListener { place, connections }
    });
    Ok(Json(ListenerList { listeners: shown.collect() }))
}
