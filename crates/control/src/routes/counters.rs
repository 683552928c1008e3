//! `/api/v1/counters`: everything that is counted, by shard and in sum; and a part of what it was.

use super::Problem;
use super::operation::Text;
use crate::asks::Asks;
use crate::history::Past;
use crate::metrics::{Format, text};
use crate::port::{Counters, Histogram};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// All of it for whoever scrapes it.
pub(super) async fn metrics(
    State(asks): State<Arc<Asks>>,
    headers: HeaderMap,
) -> Result<Text, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let text = text(&asks.measured().await?, format);
    Ok(Text { kind: format.content_type(), text })
}

/// Counts by name, in an order that stays.
type Counts = Map<String, Value>;

/// Everything that one shard has counted, or all have.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct ShardCounts {
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, u64>")]
    counts: Counts,
    /// What was refused, by reason code.
    #[schemars(with = "BTreeMap<String, u64>")]
    refusals: Counts,
}

/// Everything that is counted.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct AllCounts {
    /// Of all shards together.
    sum: ShardCounts,
    /// Of each shard.
    shards: Vec<ShardCounts>,
    /// Of the process.
    #[schemars(with = "BTreeMap<String, u64>")]
    process: Counts,
    /// How long things took, of all shards together.
    histograms: BTreeMap<&'static str, Histogram>,
}

/// The counters of each shard, of all together, and of the process.
pub(super) async fn counters(State(asks): State<Arc<Asks>>) -> Result<Json<AllCounts>, Problem> {
    let mut counts = AllCounts::default();
    for Counters { shard, refusals, process, histograms } in asks.counters().await? {
        add(&mut counts.sum.counts, &shard);
        add(&mut counts.sum.refusals, &refusals);
        counts.shards.push(ShardCounts { counts: named(&shard), refusals: named(&refusals) });
        for own in histograms {
            let all = counts.histograms.entry(own.name);
            all.and_modify(|all| all.add(&own)).or_insert(own);
        }
        // What the first shard says of the process holds for all.
        if counts.process.is_empty() {
            counts.process = named(&process);
        }
    }
    Ok(Json(counts))
}

/// What some of them were in the last hour.
pub(super) async fn history(State(asks): State<Arc<Asks>>) -> Json<Past> {
    Json(asks.history.shown(Instant::now()))
}

fn named(counts: &[(&'static str, u64)]) -> Counts {
    counts.iter().map(|&(name, count)| (name.to_owned(), count.into())).collect()
}

fn add(sum: &mut Counts, counts: &[(&'static str, u64)]) {
    for &(name, count) in counts {
        let so_far = sum.get(name).and_then(Value::as_u64).unwrap_or(0);
        sum.insert(name.to_owned(), (so_far + count).into());
    }
}
