//! `/api/v1/drops`: what was dropped and refused lately.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::drops::{Drop, DropQuery};
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde_json::{Value, json};
use std::sync::Arc;

/// Drops of an answer, where the request does not say.
const DROPS_DEFAULT: u16 = 100;

/// The most it may ask for.
const DROPS_MAX: u16 = 1_000;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    client: Option<Box<str>>,
    topic: Option<Box<str>>,
    limit: Option<u16>,
}

pub(super) async fn list(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(ListQuery { client, topic, limit }) = query?;
    let drops_max = super::limit(limit, DROPS_DEFAULT, DROPS_MAX)?;
    let drops = all(&asks, &DropQuery { client_id: client, topic, drops_max }).await?;
    Ok(Json(json!({ "drops": drops })))
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
