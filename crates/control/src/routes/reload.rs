//! `/api/v1/reload` and `/api/v1/config`: the configuration and its files, read again while the
//! broker runs, shown and replaced.

use super::Problem;
use crate::asks::Asks;
use crate::keeper::{Keeper, PutConfig, Reloaded};
use crate::tokens::Token;
use axum::extract::rejection::{QueryRejection, StringRejection};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use std::sync::Arc;

/// Has the configuration, users, rights, bans and certificates read again, as SIGHUP does. If
/// something cannot be used, all stays as it was: then the answer is 409, and the list says why.
pub(super) async fn reload(
    State(asks): State<Arc<Asks>>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    Ok(outcome(&asks.keep(<dyn Keeper>::reload).await?))
}

fn outcome(reloaded: &Reloaded) -> (StatusCode, Json<Value>) {
    let Reloaded { read, changes } = reloaded;
    match reloaded.fault() {
        None => (StatusCode::OK, Json(json!({ "read": read, "changes": changes }))),
        Some(error) => {
            let said = json!({ "error": error, "read": read, "changes": changes });
            (StatusCode::CONFLICT, Json(said))
        }
    }
}

/// What runs.
pub(super) async fn config(State(asks): State<Arc<Asks>>) -> Result<Response, Problem> {
    let text = asks.keep(<dyn Keeper>::config).await?;
    Ok(([(header::CONTENT_TYPE, "application/toml")], text).into_response())
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutQuery {
    #[serde(default)]
    dry_run: bool,
}

/// Replaces the file, or says what that would change.
pub(super) async fn put_config(
    State(asks): State<Arc<Asks>>,
    token: Option<Extension<Token>>,
    query: Result<Query<PutQuery>, QueryRejection>,
    text: Result<String, StringRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let (Query(PutQuery { dry_run }), text) = (query?, text?);
    let how = PutConfig { is_dry_run: dry_run, is_guest: token.is_some() };
    let put = asks.keep(move |keeper| keeper.put_config(&text, how)).await??;
    Ok(outcome(&put))
}
