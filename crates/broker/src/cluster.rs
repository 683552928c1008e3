//! Several nodes as one broker: the `[cluster]` table, and a node's membership.

mod membership;

pub use membership::NoPlace;
pub(crate) use membership::{Membership, Seated};
use serde::{Deserialize, Serialize};

/// The `[cluster]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// Addresses of etcd, such as `http://10.0.0.1:2379`: of one server or several of one cluster. With an
    /// empty list this broker is for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<String>,
    /// What the cluster is called: nodes with the same name and the same etcd are one broker.
    pub name: String,
    /// What this node is called, which no other one is; by default the name of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where other nodes connect, `HOST:PORT`.
    pub listen: String,
    /// Where they find it, if that is another address than `listen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            etcd: Vec::new(),
            name: "weir".into(),
            node: None,
            listen: "127.0.0.1:7883".into(),
            advertise: None,
        }
    }
}

impl ClusterConfig {
    pub(crate) fn is_off(&self) -> bool {
        self.etcd.is_empty()
    }

    /// Where other nodes find this one.
    pub(crate) fn address(&self) -> &str {
        self.advertise.as_ref().unwrap_or(&self.listen)
    }

    /// What this node is called.
    pub(crate) fn node(&self) -> String {
        self.node.clone().unwrap_or_else(crate::host::name)
    }
}
