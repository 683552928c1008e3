//! `/api/v1/why`: whether a message would get to a client, and what is in the way.

use super::{Problem, drops, wrong_answer};
use crate::asks::Asks;
use crate::drops::{Drop, DropKind, DropQuery};
use crate::port::{Answer, Request};
use crate::why::{DROPS_MAX, Why};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyQuery {
    /// The client that would get it.
    client: Box<str>,
    /// The message's topic, without wildcards.
    #[schemars(length(min = 1))]
    topic: Box<str>,
}

pub(super) async fn why(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<WhyQuery>, QueryRejection>,
) -> Result<Json<Why>, Problem> {
    let Query(WhyQuery { client, topic }) = query?;
    if topic.is_empty() || topic.contains(['+', '#', '\0']) {
        return Err(Problem::bad_request("topic must be the name of a topic, without wildcards"));
    }
    let request = Request::Outlook { client_id: client.clone(), topic: topic.clone() };
    let Answer::Outlook(outlook) = asks.ask(asks.owner(&client), request).await? else {
        return Err(wrong_answer());
    };
    // Whoever is not there may have been refused.
    let of_topic = outlook.is_some().then(|| topic.clone());
    let client_id = Some(client.clone());
    let own = DropQuery { client_id, topic: of_topic, kind: None, drops_max: DROPS_MAX };
    let mut drops = drops::all(&asks, &own).await?;
    if outlook.is_some() {
        drops.extend(refused(&asks, &client, &topic).await?);
    }
    Ok(Json(Why::new(&client, &topic, outlook.as_deref(), &drops)))
}

/// What others could not publish to the topic: nobody got that.
async fn refused(asks: &Arc<Asks>, client: &str, topic: &str) -> Result<Vec<Drop>, Problem> {
    let (topic, kind) = (Some(topic.into()), Some(DropKind::PublishRefused));
    let query = DropQuery { client_id: None, topic, kind, drops_max: DROPS_MAX };
    let mut all = drops::all(asks, &query).await?;
    all.retain(|drop| drop.client_id != client);
    Ok(all)
}
