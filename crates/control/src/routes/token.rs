//! `/api/v1/token`: what a token is good for, for whoever was given one.

use crate::tokens::{Role, Token};
use axum::{Extension, Json};
use serde_json::{Value, json};

/// Whose token came with the request. The socket takes none, and lets its user do everything.
pub(super) async fn token(token: Option<Extension<Token>>) -> Json<Value> {
    let (name, role) = match token {
        Some(Extension(token)) => (Some(token.name), token.role),
        None => (None, Role::Admin),
    };
    Json(json!({ "name": name, "role": role }))
}
