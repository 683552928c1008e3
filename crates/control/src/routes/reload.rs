//! `/api/v1/reload`: files that are read again while the broker runs.

use crate::asks::Asks;
use crate::port::Reread;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// What was read again.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReadAgain {
    /// What stays as it was, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    read: Vec<Reread>,
}

/// Has users, rights, bans and certificates read again, as SIGHUP does. What cannot be used stays
/// as it was: then the answer is 409, and the list says why.
pub(super) async fn reload(State(asks): State<Arc<Asks>>) -> (StatusCode, Json<ReadAgain>) {
    let reread = asks.reload();
    let faults: Vec<_> = reread
        .iter()
        .filter_map(|one| Some(format!("{}: {}", one.what, one.error.as_ref()?)))
        .collect();
    if faults.is_empty() {
        return (StatusCode::OK, Json(ReadAgain { error: None, read: reread }));
    }
    let error = Some(faults.join("; "));
    (StatusCode::CONFLICT, Json(ReadAgain { error, read: reread }))
}
