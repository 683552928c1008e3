//! `/api/v1/retained`: what is kept for topics.

use super::messages::Shown;
use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, Message, NotPublished, Request, RetainedPage};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Messages of an answer, where the request does not say.
const MESSAGES_DEFAULT: usize = 100;

/// The most it may ask for.
const MESSAGES_MAX: usize = 1_000;

/// Messages that one request to a shard may ask for.
const PAGE_MESSAGES_MAX: usize = 256;

/// Bytes of topics and payloads, as JSON has them, that an answer ends at, short of messages.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those of topics that match it.
    #[schemars(length(min = 1))]
    filter: Option<String>,
    /// Messages of the answer: 100 if it is not given.
    #[schemars(range(min = 1, max = MESSAGES_MAX))]
    limit: Option<usize>,
    /// Where the answer before said that the list goes on.
    #[schemars(regex(pattern = r"^[0-9]+-"))]
    cursor: Option<String>,
    /// Whether payloads come along.
    #[serde(default)]
    payload: bool,
}

fn no_filter(filter: &str) -> Problem {
    Problem::bad_request(format!("{filter:?} is no topic filter"))
}

async fn page(
    asks: &Asks,
    shard: u16,
    filter: &str,
    after: Option<&str>,
    messages_max: usize,
) -> Result<RetainedPage, Problem> {
    let (filter_text, after) = (filter.into(), after.map(Into::into));
    let messages_max = messages_max.min(PAGE_MESSAGES_MAX) as u16;
    let request = Request::Retained { filter: filter_text, after, messages_max };
    let Answer::Retained(page) = asks.ask(shard, request).await? else {
        return Err(wrong_answer());
    };
    page.ok_or_else(|| no_filter(filter))
}

/// Some retained messages.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageList {
    messages: Vec<Shown>,
    /// Where the list goes on; null is its end.
    cursor: Option<String>,
}

/// Retained messages of one shard after the other, each in the order of topics. A cursor is
/// `SHARD-TOPIC`: behind that topic.
pub(super) async fn list(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<MessageList>, Problem> {
    let Query(ListQuery { filter, limit, cursor, payload }) = query?;
    let filter = filter.as_deref().unwrap_or("#");
    let limit = super::limit(limit, MESSAGES_DEFAULT, MESSAGES_MAX)?;
    let (mut shard, mut after) = match cursor.as_deref() {
        None => (0, None),
        Some(text) => parse(text, asks.shards()).ok_or_else(|| {
            Problem::bad_request("cursor must be one that an answer of this list said")
        })?,
    };
    let (mut messages, mut bytes): (Vec<Shown>, _) = (Vec::new(), 0);
    while shard < asks.shards() && messages.len() < limit && bytes < BYTES_MAX {
        let wanted = limit - messages.len();
        let page = page(&asks, shard, filter, after.as_deref(), wanted).await?;
        let mut left = page.messages.into_iter();
        for message in left.by_ref() {
            let shown = Shown::new(&message, payload);
            bytes += shown.bytes();
            messages.push(shown);
            if bytes >= BYTES_MAX {
                after = Some(message.topic);
                break;
            }
        }
        // Those that have no room any more begin the next answer.
        if left.len() > 0 {
            break;
        }
        (shard, after) = match page.next {
            Some(topic) => (shard, Some(topic)),
            None => (shard + 1, None),
        };
    }
    let cursor = (shard < asks.shards())
        .then(|| format!("{shard}-{}", after.as_deref().unwrap_or_default()));
    Ok(Json(MessageList { messages, cursor }))
}

fn parse(cursor: &str, shards: u16) -> Option<(u16, Option<String>)> {
    let (shard, topic) = cursor.split_once('-')?;
    let shard = shard.parse().ok().filter(|&shard| shard < shards)?;
    Some((shard, Some(topic.to_owned()).filter(|topic| !topic.is_empty())))
}

async fn find(asks: &Asks, topic: &str) -> Result<Message, Problem> {
    let is_name = !topic.contains(['+', '#']);
    let page = match is_name {
        true => page(asks, asks.owner(topic), topic, None, 1).await?,
        false => RetainedPage::default(),
    };
    let found = page.messages.into_iter().next();
    found.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, format!("nothing is retained for {topic:?}"))
    })
}

/// The message of a topic, with its payload.
pub(super) async fn one(
    State(asks): State<Arc<Asks>>,
    topic: Result<Path<String>, PathRejection>,
) -> Result<Json<Shown>, Problem> {
    let Path(topic) = topic?;
    Ok(Json(Shown::new(&find(&asks, &topic).await?, true)))
}

/// Clears a topic, as an empty message that is retained does: subscribers get that.
pub(super) async fn clear(
    State(asks): State<Arc<Asks>>,
    topic: Result<Path<String>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(topic) = topic?;
    find(&asks, &topic).await?;
    let owner = asks.owner(&topic);
    let message = Message { topic, payload: Vec::new(), qos: 0, retain: true };
    let Answer::Published(published) = asks.ask(owner, Request::Publish(message)).await? else {
        return Err(wrong_answer());
    };
    published.map_err(Problem::from).map(|()| NoContent)
}

impl From<NotPublished> for Problem {
    fn from(why: NotPublished) -> Self {
        match why {
            NotPublished::Refused(detail) => Self::bad_request(detail),
            NotPublished::Busy => {
                let text = "a partition is being moved; try again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        }
    }
}
