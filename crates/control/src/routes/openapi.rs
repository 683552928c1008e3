//! `/api/v1/openapi.json`: what this API has, made of the same operations as its routes.

use super::operation::{Description, Operation};
use super::operations;
use axum::Json;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const ABOUT: &str = "What a running broker is asked, and told to do. A viewer's token looks (GET) \
                     and changes nothing; an admin's does everything.";

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&operations()));

/// What any request may be answered: 401 where a token is asked for, 403 where it has to be an
/// admin's, and 408 where a body is taken.
const EVERYWHERE: &[(u16, &str)] = &[
    (401, "The request has no token that the broker knows."),
    (403, "The token is a viewer's, and this is for admins."),
    (408, "The body took too long to come."),
    (413, "A body that is too long, or one where none is taken."),
    (429, "Too many requests in this second, or at a time."),
    (503, "The broker takes no request now; try again."),
    (504, "The broker did not answer in time."),
];

/// The same for everybody, and nothing of the broker: it needs no token.
pub(super) async fn openapi() -> Json<Value> {
    Json(DOCUMENT.clone())
}

/// Whether a path is answered without a token.
pub(super) fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/api/v1/openapi.json")
}

/// What viewers are not shown: who could be guessed at and what for, and what clients send.
pub(super) fn is_for_admins(path: &str) -> bool {
    ["/api/v1/users", "/api/v1/acl", "/api/v1/traces"].iter().any(|it| path.starts_with(it))
}

/// OpenAPI 3.1.
fn document(operations: &[Operation]) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for operation in operations {
        let mut description = Description::new();
        let shown = shown(operation, &mut description);
        for (name, schema) in description.schemas() {
            let known = schemas.insert(name.clone(), schema);
            let is_one = known.is_none_or(|known| known == schemas[&name]);
            debug_assert!(is_one, "two types of the API are called {name}");
        }
        let path = operation.path.replace("{*", "{");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method] = shown;
    }
    schemas.sort_keys();
    let mut everywhere = Description::new();
    for &(status, what) in EVERYWHERE {
        everywhere.fails(StatusCode::from_u16(status).unwrap_or_default(), what);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir broker",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": listed(everywhere.answers),
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "As `weir token` makes one. The unix socket needs none.",
            } },
        },
    })
}

fn shown(operation: &Operation, description: &mut Description) -> Value {
    let Operation { path, method, summary, faults, takes_body, describe, .. } = *operation;
    describe(description);
    for &(status, what) in faults {
        description.fails(StatusCode::from_u16(status).unwrap_or_default(), what);
    }
    let is_met = |status: u16| match status {
        401 => !is_open(path),
        403 => method != "get" || is_for_admins(path),
        408 => takes_body,
        _ => true,
    };
    for (status, ..) in EVERYWHERE.iter().filter(|fault| is_met(fault.0)) {
        let answer = json!({ "$ref": format!("#/components/responses/{status}") });
        // What a route says of it is more.
        description.answers.entry(*status).or_insert(answer);
    }
    let (segments, names): (Vec<_>, Vec<_>) =
        path.trim_start_matches("/api/v1").split('/').skip(1).partition(|it| !it.starts_with('{'));
    let name = |text: &str| text.trim_matches(['{', '}', '*']).to_owned();
    let mut names = names.into_iter().map(name);
    for parameter in &mut description.parameters {
        if parameter["in"] == "path" {
            parameter["name"] = names.next().into();
        }
    }
    let parts = path.trim_start_matches("/api/v1").split('/').skip(1).map(name);
    let id = [method.to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join("_");
    let mut shown =
        json!({ "operationId": id.replace('.', "_"), "summary": summary, "tags": [segments[0]] });
    if !description.parameters.is_empty() {
        shown["parameters"] = std::mem::take(&mut description.parameters).into();
    }
    if let Some(body) = description.body.take() {
        shown["requestBody"] = body;
    }
    if is_open(path) {
        shown["security"] = json!([]);
    }
    shown["responses"] = listed(std::mem::take(&mut description.answers));
    shown
}

/// Answers under their statuses.
fn listed(answers: BTreeMap<u16, Value>) -> Value {
    answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect()
}

#[cfg(test)]
mod tests;
