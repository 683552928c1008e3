//! `/api/v1/reload` and `/api/v1/config`: the configuration and its files, read again while the
//! broker runs, shown and replaced.

use super::Problem;
use super::operation::Text;
use crate::asks::Asks;
use crate::keeper::{Keeper, PutConfig, Reloaded};
use crate::tokens::Token;
use axum::extract::rejection::{QueryRejection, StringRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What was read again.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReadAgain {
    /// What cannot be used, if something cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    reloaded: Reloaded,
}

/// Has the configuration, users, rights, bans and certificates read again, as SIGHUP does. If
/// something cannot be used, all stays as it was: then the answer is 409, and the list says why.
pub(super) async fn reload(
    State(asks): State<Arc<Asks>>,
) -> Result<(StatusCode, Json<ReadAgain>), Problem> {
    Ok(outcome(asks.keep(<dyn Keeper>::reload).await?))
}

fn outcome(reloaded: Reloaded) -> (StatusCode, Json<ReadAgain>) {
    let error = reloaded.fault();
    let status = if error.is_none() { StatusCode::OK } else { StatusCode::CONFLICT };
    (status, Json(ReadAgain { error, reloaded }))
}

/// What runs.
pub(super) async fn config(State(asks): State<Arc<Asks>>) -> Result<Text, Problem> {
    let text = asks.keep(<dyn Keeper>::config).await?;
    Ok(Text { kind: "application/toml", text })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutQuery {
    /// Whether nothing changes, and the answer says what would.
    #[serde(default)]
    dry_run: bool,
}

/// Replaces the file, or says what that would change.
pub(super) async fn put_config(
    State(asks): State<Arc<Asks>>,
    token: Option<Extension<Token>>,
    query: Result<Query<PutQuery>, QueryRejection>,
    text: Result<String, StringRejection>,
) -> Result<(StatusCode, Json<ReadAgain>), Problem> {
    let (Query(PutQuery { dry_run }), text) = (query?, text?);
    let how = PutConfig { is_dry_run: dry_run, is_guest: token.is_some() };
    let put = asks.keep(move |keeper| keeper.put_config(&text, how)).await??;
    Ok(outcome(put))
}
