//! `/api/v1/drops`: what was dropped and refused lately.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::drops::{Drop, DropKind, DropQuery};
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Drops of an answer, where the request does not say.
const DROPS_DEFAULT: u16 = 100;

/// The most it may ask for.
const DROPS_MAX: u16 = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those of this client.
    client: Option<Box<str>>,
    /// Only those of topics that match this filter.
    topic: Option<Box<str>>,
    /// Only those of this kind.
    kind: Option<DropKind>,
    /// Drops of the answer: 100 if it is not given.
    #[schemars(range(min = 1, max = DROPS_MAX))]
    limit: Option<u16>,
}

/// Some drops.
#[derive(Serialize, JsonSchema)]
pub(super) struct DropList {
    /// The newest first.
    drops: Vec<Drop>,
}

pub(super) async fn list(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<DropList>, Problem> {
    let Query(ListQuery { client, topic, kind, limit }) = query?;
    let drops_max = super::limit(limit, DROPS_DEFAULT, DROPS_MAX)?;
    let query = DropQuery { client_id: client, topic, kind, drops_max };
    let drops = all(&asks, &query).await?;
    Ok(Json(DropList { drops }))
}

/// Those of all shards, the newest first.
pub(super) async fn all(asks: &Asks, query: &DropQuery) -> Result<Vec<Drop>, Problem> {
    let mut all = Vec::new();
    for answer in asks.ask_all(&Request::Drops(query.clone())).await? {
        let Answer::Drops(drops) = answer else { return Err(wrong_answer()) };
        all.extend(drops);
    }
    // Times of one form sort as texts do.
    all.sort_by(|one, other| other.at.cmp(&one.at));
    all.truncate(query.drops_max.into());
    Ok(all)
}
