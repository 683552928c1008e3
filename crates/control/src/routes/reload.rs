//! `/api/v1/reload`: files that are read again while the broker runs.

use crate::asks::Asks;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

/// Has users, rights, bans and certificates read again, as SIGHUP does. What cannot be used stays
/// as it was: then the answer is 409, and the list says why.
pub(super) async fn reload(State(asks): State<Arc<Asks>>) -> (StatusCode, Json<Value>) {
    let reread = asks.reload();
    let faults: Vec<_> = reread
        .iter()
        .filter_map(|one| Some(format!("{}: {}", one.what, one.error.as_ref()?)))
        .collect();
    if faults.is_empty() {
        return (StatusCode::OK, Json(json!({ "read": reread })));
    }
    let error = faults.join("; ");
    (StatusCode::CONFLICT, Json(json!({ "error": error, "read": reread })))
}
