//! `/api/v1/clients/{id}/subscriptions`: what a client wants.

use super::clients::no_client;
use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, Request, Subscription};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Subscriptions of an answer, where the request does not say, and the most it may ask for.
const SUBSCRIPTIONS_MAX: u16 = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Subscriptions of the answer: 1,000 if it is not given.
    #[schemars(range(min = 1, max = SUBSCRIPTIONS_MAX))]
    limit: Option<u16>,
    /// Where the answer before said that the list goes on.
    cursor: Option<u32>,
}

/// Some subscriptions.
#[derive(Serialize, JsonSchema)]
pub(super) struct SubscriptionList {
    subscriptions: Vec<Subscription>,
    /// Where the list goes on; null is its end.
    cursor: Option<u32>,
}

pub(super) async fn subscriptions(
    State(asks): State<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<SubscriptionList>, Problem> {
    let (Path(id), Query(ListQuery { limit, cursor })) = (id?, query?);
    let subscriptions_max = super::limit(limit, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_MAX)?;
    let (client_id, from) = (id.as_str().into(), cursor.unwrap_or(0));
    let request = Request::Subscriptions { client_id, from, subscriptions_max };
    let Answer::Subscriptions(page) = asks.ask(asks.owner(&id), request).await? else {
        return Err(wrong_answer());
    };
    let page = page.ok_or_else(|| no_client(&id))?;
    Ok(Json(SubscriptionList { subscriptions: page.subscriptions, cursor: page.next }))
}
