//! `/api/v1/token`: what a token is good for, for whoever was given one.

use crate::tokens::{Role, Token};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

/// Whose token it is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Owner {
    /// Their name; null over the socket.
    name: Option<String>,
    /// What they may do.
    role: Role,
}

/// Whose token came with the request. The socket takes none, and lets its user do everything.
pub(super) async fn token(token: Option<Extension<Token>>) -> Json<Owner> {
    let (name, role) = match token {
        Some(Extension(token)) => (Some(token.name), token.role),
        None => (None, Role::Admin),
    };
    Json(Owner { name, role })
}
