//! `/api/v1/clients`: who is there, and the end of one.

use super::{Problem, limit, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, Client, Kicked, PAGE_CLIENTS_MAX, Request};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State as Site};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Clients of an answer, where the request does not say.
const CLIENTS_DEFAULT: usize = 100;

/// The most it may ask for.
const CLIENTS_MAX: usize = 1_000;

/// Requests to shards that one answer may take: as a shard rests between two, this bounds its time.
/// An answer is short of clients then, and has a cursor.
const ASKED_MAX: u32 = 256;

/// Bytes of names, as JSON has them, that an answer ends at, short of clients.
const NAME_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn no_client(id: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no client {id:?}"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Clients of the answer: 100 if it is not given.
    #[schemars(range(min = 1, max = CLIENTS_MAX))]
    limit: Option<usize>,
    /// Where the answer before said that the list goes on.
    #[schemars(regex(pattern = r"^[0-9]+-[0-9]+$"))]
    cursor: Option<String>,
    /// Only those whose client identifiers have this part.
    id: Option<String>,
    /// Only those of this user.
    user: Option<String>,
    /// Only those for whom at least so many messages wait.
    waiting: Option<u64>,
    /// Only those that are connected, or that are not.
    state: Option<State>,
}

/// Whether a client is there.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    Connected,
    Absent,
}

impl ListQuery {
    /// Whether it takes some clients only.
    fn is_choosy(&self) -> bool {
        let Self { id, user, waiting, state, .. } = self;
        id.is_some() || user.is_some() || waiting.is_some() || state.is_some()
    }

    fn takes(&self, client: &Client) -> bool {
        let state = if client.connection.is_some() { State::Connected } else { State::Absent };
        self.id.as_ref().is_none_or(|part| client.client_id.contains(part))
            && self.user.as_ref().is_none_or(|user| client.user.as_ref() == Some(user))
            && self.waiting.is_none_or(|least| client.queued_messages >= least)
            && self.state.is_none_or(|wanted| wanted == state)
    }
}

/// Where a list goes on: `SHARD-PLACE`.
struct Cursor {
    shard: u16,
    place: u32,
}

impl Cursor {
    fn parse(text: &str, shards: u16) -> Option<Self> {
        let (shard, place) = text.split_once('-')?;
        let (shard, place) = (shard.parse().ok()?, place.parse().ok()?);
        (shard < shards).then_some(Self { shard, place })
    }

    fn text(&self) -> String {
        format!("{}-{}", self.shard, self.place)
    }
}

/// Some clients.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClientList {
    clients: Vec<Client>,
    /// Where the list goes on; null is its end.
    cursor: Option<String>,
}

/// Clients of one shard after the other.
pub(super) async fn clients(
    Site(asks): Site<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ClientList>, Problem> {
    let Query(query) = query?;
    let limit = limit(query.limit, CLIENTS_DEFAULT, CLIENTS_MAX)?;
    let mut at = match &query.cursor {
        None => Cursor { shard: 0, place: 0 },
        Some(text) => Cursor::parse(text, asks.shards()).ok_or_else(|| {
            Problem::bad_request("cursor must be one that an answer of this list said")
        })?,
    };
    let (mut clients, mut name_bytes, mut asked): (Vec<Client>, _, _) = (Vec::new(), 0, 0);
    while at.shard < asks.shards()
        && clients.len() < limit
        && name_bytes < NAME_BYTES_MAX
        && asked < ASKED_MAX
    {
        // Of those that a shard has, few may be taken: it is asked for as many as it gives.
        let left = limit - clients.len();
        let wanted = if query.is_choosy() { usize::MAX } else { left };
        let clients_max = wanted.min(PAGE_CLIENTS_MAX.into()) as u16;
        let request = Request::Clients { from: at.place, clients_max };
        let Answer::Clients(page) = asks.ask(at.shard, request).await? else {
            return Err(wrong_answer());
        };
        asked += 1;
        let all = page.clients.into_iter().zip(page.behind);
        let mut taken = all.filter(|(client, _)| query.takes(client));
        let mut last = None;
        for (client, behind) in taken.by_ref().take(left) {
            name_bytes += client.name_bytes();
            clients.push(client);
            last = Some(behind);
            if name_bytes >= NAME_BYTES_MAX {
                break;
            }
        }
        // Those that have no room any more begin the next answer.
        let next = if taken.next().is_some() { last } else { page.next };
        at = match next {
            Some(place) => Cursor { place, ..at },
            None => Cursor { shard: at.shard + 1, place: 0 },
        };
    }
    let cursor = (at.shard < asks.shards()).then(|| at.text());
    Ok(Json(ClientList { clients, cursor }))
}

pub(super) async fn client(
    Site(asks): Site<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Client>, Problem> {
    let Path(id) = id?;
    let answer = asks.ask(asks.owner(&id), Request::Client(id.as_str().into())).await?;
    let Answer::Client(client) = answer else { return Err(wrong_answer()) };
    client.map(Json).ok_or_else(|| no_client(&id))
}

pub(super) async fn kick(
    Site(asks): Site<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(id) = id?;
    let answer = asks.ask(asks.owner(&id), Request::Kick(id.as_str().into())).await?;
    let Answer::Kicked(kicked) = answer else { return Err(wrong_answer()) };
    match kicked {
        Kicked::Ended => Ok(NoContent),
        Kicked::Unknown => Err(no_client(&id)),
        Kicked::Absent => {
            let text = format!("the client {id:?} is not connected; its session is kept");
            Err(Problem::new(StatusCode::NOT_FOUND, text))
        }
    }
}

/// Ends a client's session, and with it the connection.
pub(super) async fn end(
    Site(asks): Site<Arc<Asks>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(id) = id?;
    let answer = asks.ask(asks.owner(&id), Request::EndClient(id.as_str().into())).await?;
    match answer {
        Answer::ClientEnded(true) => Ok(NoContent),
        Answer::ClientEnded(false) => Err(no_client(&id)),
        _ => Err(wrong_answer()),
    }
}

#[cfg(test)]
mod tests;
