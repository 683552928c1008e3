//! `/api/v1/clients/{id}/subscriptions`: what a client wants.

use super::clients::no_client;
use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};
use std::sync::Arc;

/// Subscriptions of an answer, where the request does not say, and the most it may ask for.
const SUBSCRIPTIONS_MAX: u16 = 1_000;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    limit: Option<u16>,
    cursor: Option<u32>,
}

pub(super) async fn subscriptions(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let (Path(id), Query(ListQuery { limit, cursor })) = (id?, query?);
    let subscriptions_max = super::limit(limit, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX)?;
    let (client_id, from) = (id.as_str().into(), cursor.unwrap_or(0));
    let request = Request::Subscriptions { client_id, from, subscriptions_max };
    let Answer::Subscriptions(page) = asks.ask(asks.owner(&id), request).await? else {
        return Err(wrong_answer());
    };
    let page = page.ok_or_else(|| no_client(&id))?;
    Ok(Json(json!({ "subscriptions": page.subscriptions, "cursor": page.next })))
}
