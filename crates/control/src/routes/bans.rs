//! Bans: the list of them, one more, one less.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::bans::{Ban, NewBan, Unchanged, Whom};
use crate::port::{Answer, Request};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bans of an answer, where the request does not say.
const BANS_DEFAULT: usize = 100;

/// The most it may ask for.
const BANS_MAX: usize = 1_000;

/// Bytes of a reason.
const REASON_BYTES_MAX: usize = 256;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Bans of the answer: 100 if it is not given.
    #[schemars(range(min = 1, max = BANS_MAX))]
    limit: Option<usize>,
    /// Where the answer before said that the list goes on.
    cursor: Option<usize>,
}

/// Some bans.
#[derive(Serialize, JsonSchema)]
pub(super) struct BanList {
    bans: Vec<Ban>,
    /// Where the list goes on; null is its end.
    cursor: Option<String>,
}

pub(super) async fn list(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<BanList>, Problem> {
    let Query(ListQuery { limit, cursor }) = query?;
    let bans_max = super::limit(limit, BANS_DEFAULT, BANS_MAX)?;
    let page = asks.bans(cursor.unwrap_or(0), bans_max);
    let cursor = page.next.map(|next| next.to_string());
    Ok(Json(BanList { bans: page.bans, cursor }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddQuery {
    /// `address`, `client` or `user`.
    #[schemars(extend("enum" = ["address", "client", "user"]))]
    kind: String,
    /// An address or a network, a client identifier, a user name.
    #[schemars(length(min = 1))]
    name: String,
    /// How long, in seconds; for ever if it is not given.
    #[schemars(range(min = 1))]
    for_s: Option<u32>,
    /// What it is for; at most 256 bytes.
    #[schemars(length(max = REASON_BYTES_MAX))]
    reason: Option<String>,
}

/// What a ban did.
#[derive(Serialize, JsonSchema)]
pub(super) struct Banned {
    /// Connections that it ended.
    ended: u64,
    /// Why a restart forgets it; null if it does not.
    not_kept: Option<String>,
}

/// Bans somebody, and ends who is connected. The ban holds if nobody waits for the end of that.
pub(super) async fn add(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<AddQuery>, QueryRejection>,
) -> Result<Json<Banned>, Problem> {
    let Query(AddQuery { kind, name, for_s, reason }) = query?;
    if for_s == Some(0) {
        return Err(Problem::bad_request("for_s must be at least 1"));
    }
    if reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        let text = format!("reason must have at most {REASON_BYTES_MAX} bytes");
        return Err(Problem::bad_request(text));
    }
    let whom = Whom { kind, name };
    let changed = asks.ban(NewBan { whom: whom.clone(), for_s, reason })?;
    let mut ended = 0;
    for answer in asks.ask_all(&Request::EndBanned(whom)).await? {
        let Answer::EndedBanned(count) = answer else { return Err(wrong_answer()) };
        ended += count;
    }
    Ok(Json(Banned { ended, not_kept: changed.not_kept }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveQuery {
    /// `address`, `client` or `user`.
    #[schemars(extend("enum" = ["address", "client", "user"]))]
    kind: String,
    /// As it was said when it was added.
    #[schemars(length(min = 1))]
    name: String,
}

pub(super) async fn remove(
    State(asks): State<Arc<Asks>>,
    query: Result<Query<RemoveQuery>, QueryRejection>,
) -> Result<NoContent, Problem> {
    let Query(RemoveQuery { kind, name }) = query?;
    let changed = asks.unban(&Whom { kind, name })?;
    match changed.not_kept {
        None => Ok(NoContent),
        Some(why) => {
            let text = format!("it does not hold any more, but will after a restart: {why}");
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
    }
}

impl From<Unchanged> for Problem {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Malformed(why) => Self::bad_request(why),
            Unchanged::Unknown => Self::new(
                StatusCode::NOT_FOUND,
                "there is no such ban; one of a network is taken back as it was said",
            ),
            Unchanged::InFile => Self::new(
                StatusCode::CONFLICT,
                "the file of bans (auth.bans_file) has it: take the line out, and send SIGHUP",
            ),
            Unchanged::Full(max) => {
                let advice = "put them into a file of bans (auth.bans_file), or take some back";
                let text =
                    format!("{max} bans were added, and there is no room for more: {advice}");
                Self::new(StatusCode::CONFLICT, text)
            }
        }
    }
}
