//! Several nodes of a broker that are one cluster: what its file says of how they are started, and
//! what it promises for the loss of one.

use super::Profile;
use crate::result::Promise;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How several nodes are started as one cluster. Settings for it are changes `with = ["nodes"]`.
/// In braces there are `{node}`, from 1, `{nodes}`, how many there are, and for `{port}` and each
/// `{port_NAME}` that of the first node, `{first_port}` and `{first_port_NAME}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nodes {
    /// At most so many.
    pub(super) max: u32,
    /// Ports of each node beside the broker's.
    #[serde(default)]
    pub(super) ports: Vec<String>,
    /// Of all ports, those that are the same for all nodes.
    #[serde(default)]
    pub(super) shared: Vec<String>,
    /// A text of each node, by the name of the list that they make together: `{NAME}`.
    #[serde(default)]
    pub(super) list: BTreeMap<String, String>,
    /// Environment of each node beside the broker's, or in its place.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// What is started before the nodes and stopped after them.
    #[serde(default)]
    pub(super) service: Vec<Service>,
    /// Run for each node but the first, once all listen, and before any is connected to as a client
    /// would: a node that has seen clients may not join.
    #[serde(default)]
    pub(super) join: Vec<String>,
    /// Version of the real broker that nodes were last started with; absent where they never were.
    pub(super) run_with: Option<String>,
    /// What the broker promises where a node is lost.
    #[serde(default)]
    promise: Vec<Pledge>,
}

/// A promise of some profiles.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pledge {
    /// In which profiles; none is all.
    #[serde(default)]
    profiles: Vec<Profile>,
    /// As in [`Promise`].
    session: String,
    survives: bool,
    says: String,
}

impl Nodes {
    /// What the broker promises in a profile where a node is lost.
    pub(super) fn promises(&self, profile: Profile) -> Vec<Promise> {
        let holds = |of: &&Pledge| of.profiles.is_empty() || of.profiles.contains(&profile);
        let promise = |of: &Pledge| Promise {
            session: of.session.clone(),
            survives: of.survives,
            says: of.says.clone(),
        };
        self.promise.iter().filter(holds).map(promise).collect()
    }
}

/// A program that nodes need beside them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    /// Names it in results.
    pub(super) name: String,
    /// Names of its program, in the order they are looked for.
    pub(super) programs: Vec<String>,
    /// Its ports, `{port_NAME}` for nodes, too. It is there when the first one can be connected to.
    pub(super) ports: Vec<String>,
    /// Its command line. `{data}` is a folder that goes with it.
    pub(super) command: Vec<String>,
    /// For a person: how to have it.
    pub(super) get: String,
}
