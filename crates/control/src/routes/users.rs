//! `/api/v1/users` and `/api/v1/acl`: who may come in, and what they may do.

use super::Problem;
use crate::asks::Asks;
use crate::keeper::{Keeper, NotKept};
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, StringRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Users by name.
#[derive(Serialize, JsonSchema)]
pub(super) struct UserList {
    users: Vec<String>,
}

pub(super) async fn list(State(asks): State<Arc<Asks>>) -> Result<Json<UserList>, Problem> {
    let users = asks.keep(<dyn Keeper>::users).await??;
    Ok(Json(UserList { users }))
}

/// A user.
#[derive(Serialize, JsonSchema)]
pub(super) struct User {
    user: String,
}

pub(super) async fn one(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<User>, Problem> {
    let Path(name) = name?;
    let users = asks.keep(<dyn Keeper>::users).await??;
    match users.contains(&name) {
        true => Ok(Json(User { user: name })),
        false => Err(Problem::new(StatusCode::NOT_FOUND, "there is no such user")),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    /// The password from now on.
    password: String,
}

/// What became of a user that was put.
#[derive(Serialize, JsonSchema)]
pub(super) struct PutUser {
    /// Whether there was such a user before.
    was_there: bool,
}

/// Adds a user, or gives it another password.
pub(super) async fn put(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
    user: Result<Json<NewUser>, JsonRejection>,
) -> Result<(StatusCode, Json<PutUser>), Problem> {
    let (Path(name), Json(NewUser { password })) = (name?, user?);
    let put = asks.keep(move |keeper| keeper.put_user(&name, Some(&password))).await??;
    let status = if put { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(PutUser { was_there: put })))
}

pub(super) async fn remove(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(name) = name?;
    asks.keep(move |keeper| keeper.put_user(&name, None)).await??;
    Ok(NoContent)
}

/// The file of rights as it is.
pub(super) async fn acl(State(asks): State<Arc<Asks>>) -> Result<String, Problem> {
    Ok(asks.keep(|keeper| keeper.rights(None)).await??)
}

pub(super) async fn put_acl(
    State(asks): State<Arc<Asks>>,
    text: Result<String, StringRejection>,
) -> Result<NoContent, Problem> {
    let text = text?;
    asks.keep(move |keeper| keeper.put_rights(None, &text)).await??;
    Ok(NoContent)
}

/// The rules of one user.
pub(super) async fn rights(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<String, Problem> {
    let Path(name) = name?;
    Ok(asks.keep(move |keeper| keeper.rights(Some(&name))).await??)
}

pub(super) async fn put_rights(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
    text: Result<String, StringRejection>,
) -> Result<NoContent, Problem> {
    let (Path(name), text) = (name?, text?);
    asks.keep(move |keeper| keeper.put_rights(Some(&name), &text)).await??;
    Ok(NoContent)
}

impl From<NotKept> for Problem {
    fn from(not_kept: NotKept) -> Self {
        let (status, text) = match not_kept {
            NotKept::Malformed(text) => (StatusCode::BAD_REQUEST, text),
            NotKept::Forbidden(text) => (StatusCode::FORBIDDEN, text),
            NotKept::Unknown(text) => (StatusCode::NOT_FOUND, text),
            NotKept::NoFile(text) => (StatusCode::CONFLICT, text),
            NotKept::Failed(text) => (StatusCode::INTERNAL_SERVER_ERROR, text),
        };
        Self::new(status, text)
    }
}
