//! `/api/v1/partitions`: what each shard holds, and how it goes to another.

use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, NotMoved, Partitions, Request};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What each shard holds.
#[derive(Serialize, JsonSchema)]
pub(super) struct Held {
    shards: Vec<Partitions>,
}

/// What each shard holds.
pub(super) async fn partitions(State(asks): State<Arc<Asks>>) -> Result<Json<Held>, Problem> {
    let mut shards = Vec::new();
    for answer in asks.ask_all(&Request::Partitions).await? {
        let Answer::Partitions(partitions) = answer else { return Err(wrong_answer()) };
        shards.push(partitions);
    }
    Ok(Json(Held { shards }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveQuery {
    /// The one that gets it.
    shard: u16,
}

/// Moves a partition to a shard. It goes on if nobody waits any more.
pub(super) async fn move_partition(
    State(asks): State<Arc<Asks>>,
    partition: Result<Path<String>, PathRejection>,
    query: Result<Query<MoveQuery>, QueryRejection>,
) -> Result<NoContent, Problem> {
    let (Path(text), Query(MoveQuery { shard: to })) = (partition?, query?);
    let partition: u8 =
        text.parse().map_err(|_| Problem::bad_request("a partition is a number from 0 to 255"))?;
    let conflict = |text| Err(Problem::new(StatusCode::CONFLICT, text));
    if asks.shards() == 1 {
        return conflict("the broker has one shard, which holds all partitions".to_owned());
    }
    let Answer::Moved(moved) = asks.ask(0, Request::Move { partition, to }).await? else {
        return Err(wrong_answer());
    };
    match moved {
        Ok(()) => Ok(NoContent),
        Err(NotMoved::UnderWay) => conflict("another partition is being moved".to_owned()),
        Err(NotMoved::Logged) => {
            conflict("partitions do not move while sessions are kept on disk".to_owned())
        }
        Err(NotMoved::Clustered) => conflict("partitions do not move in a cluster".to_owned()),
        Err(NotMoved::IsThere) => conflict(format!("shard {to} holds partition {partition}")),
        Err(NotMoved::UnknownShard) => {
            let text = format!("there is no shard {to}: they are 0 to {}", asks.shards() - 1);
            Err(Problem::bad_request(text))
        }
    }
}
