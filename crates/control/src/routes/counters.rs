//! `/api/v1/counters`: everything that is counted, by shard and in sum; and a part of what it was.

use super::Problem;
use crate::asks::Asks;
use crate::metrics::{Format, text};
use crate::port::Counters;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// All of it for whoever scrapes it.
pub(super) async fn metrics(
    State(asks): State<Arc<Asks>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let text = text(&asks.counters().await?, format);
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// The counters of each shard, of all together, and of the process.
pub(super) async fn counters(State(asks): State<Arc<Asks>>) -> Result<Json<Value>, Problem> {
    let (mut shards, mut sum, mut process) = (Vec::new(), Map::new(), Map::new());
    for counters in asks.counters().await? {
        add(&mut sum, &counters);
        if process.is_empty() {
            process = object(&counters.process);
        }
        let mut own = object(&counters.shard);
        own.insert("refusals".into(), object(&counters.refusals).into());
        shards.push(own);
    }
    Ok(Json(json!({ "sum": sum, "shards": shards, "process": process })))
}

/// What some of them were in the last hour.
pub(super) async fn history(State(asks): State<Arc<Asks>>) -> Json<Value> {
    Json(asks.history.shown(Instant::now()))
}

fn object(counts: &[(&'static str, u64)]) -> Map<String, Value> {
    counts.iter().map(|&(name, count)| (name.to_owned(), count.into())).collect()
}

fn add(sum: &mut Map<String, Value>, counters: &Counters) {
    add_counts(sum, &counters.shard);
    let refusals = sum.entry("refusals").or_insert_with(|| Map::new().into());
    if let Value::Object(refusals) = refusals {
        add_counts(refusals, &counters.refusals);
    }
}

fn add_counts(sum: &mut Map<String, Value>, counts: &[(&'static str, u64)]) {
    for &(name, count) in counts {
        let so_far = sum.get(name).and_then(Value::as_u64).unwrap_or(0);
        sum.insert(name.to_owned(), (so_far + count).into());
    }
}
