//! `/api/v1/reload` and `/api/v1/config`: the configuration and its files, read again while the
//! broker runs, shown and replaced.

use super::Problem;
use super::operation::Text;
use crate::asks::Asks;
use crate::keeper::{ConfigSection, Keeper, PutConfig, Reloaded};
use crate::tokens::{Role, Token};
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigQuery {
    /// Whether it is the text of the file, with its comments, and not what runs; for an admin.
    #[serde(default)]
    file: bool,
}

/// What runs, or the file.
pub(super) async fn config(
    State(asks): State<Arc<Asks>>,
    token: Option<Extension<Token>>,
    query: Result<Query<ConfigQuery>, QueryRejection>,
) -> Result<Text, Problem> {
    let Query(ConfigQuery { file }) = query?;
    // Comments are nobody's to look for secrets in.
    if file && token.is_some_and(|Extension(token)| token.role < Role::Admin) {
        let text = "this token is a viewer's: the configuration file is shown to admins";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    let text = match file {
        true => asks.keep(<dyn Keeper>::config_file).await??,
        false => asks.keep(<dyn Keeper>::config).await?,
    };
    Ok(Text { kind: "application/toml", text })
}

/// The parts of a configuration.
#[derive(Serialize, JsonSchema)]
pub(super) struct SectionList {
    sections: Vec<ConfigSection>,
    /// Whether the configuration may be replaced over TCP.
    may_write: bool,
}

pub(super) async fn sections(State(asks): State<Arc<Asks>>) -> Result<Json<SectionList>, Problem> {
    let (sections, may_write) =
        asks.keep(|keeper| (keeper.sections(), keeper.may_guests_write())).await?;
    Ok(Json(SectionList { sections, may_write }))
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
