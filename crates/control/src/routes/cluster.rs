//! `/api/v1/cluster`: the nodes of the cluster, and how one is forgotten.

use super::Problem;
use crate::asks::Asks;
use crate::cluster::{Cluster, NotForgotten};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::NoContent;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The cluster.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownCluster {
    /// Null if the broker is for itself.
    cluster: Option<Cluster>,
}

pub(super) async fn cluster(State(asks): State<Arc<Asks>>) -> Json<ShownCluster> {
    Json(ShownCluster { cluster: asks.cluster() })
}

/// Has the place of a node be free. It goes on if nobody waits any more.
pub(super) async fn forget(
    State(asks): State<Arc<Asks>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<NoContent, Problem> {
    let Path(name) = name?;
    let (status, text) = match asks.forget_node(&name).await {
        Ok(()) => return Ok(NoContent),
        Err(NotForgotten::NoCluster) => {
            (StatusCode::NOT_FOUND, "the broker is no node of a cluster".to_owned())
        }
        Err(NotForgotten::Unknown) => {
            (StatusCode::NOT_FOUND, format!("no node {name} has a place in the cluster"))
        }
        Err(NotForgotten::IsMember) => {
            (StatusCode::CONFLICT, format!("the node {name} is a member of the cluster; stop it"))
        }
        Err(NotForgotten::Busy) => {
            let text = "this node cannot write to etcd now; try again, or ask another node";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
    };
    Err(Problem::new(status, text))
}
