//! A cluster, as one of its nodes shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// What it is called.
    pub name: String,
    /// What this node is called.
    pub node: String,
    /// The version of letters that this node speaks.
    pub letters: u16,
    /// Whether this node may not act, so that it has ended its connections and lets nobody in.
    pub fenced: bool,
    /// Whether it serves clients without a kept session by itself meanwhile, as `cluster.minority`
    /// has it.
    #[serde(default)]
    pub minority: bool,
    /// Milliseconds until this node may not act, unless its lease is renewed before.
    pub lease_ms: u64,
    /// How often this node was fenced.
    pub fences: u64,
    /// How often another node was lost, also by being stopped.
    pub nodes_lost: u64,
    /// Letters of this node that were dropped because no member has the shard that they are for:
    /// some are on their way when a node is lost.
    pub unaddressed: u64,
    /// How the copies of this node's log at other nodes stand: one less than `cluster.replicas`.
    pub copies: Vec<OwnCopy>,
    /// How often one could not go on, since the other node's disk took no more of it, or since it
    /// was silent while another was not.
    pub copies_failed: u64,
    /// What this node has of the logs of others; null if it has no store.
    pub kept: Option<KeptCopies>,
    /// All nodes that have a place, by slot.
    pub nodes: Vec<ClusterNode>,
}

/// A node that has a place in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Its slot.
    pub slot: u8,
    /// The number of its first shard.
    pub first_shard: u16,
    /// How many shards it has.
    pub shards: u16,
    /// How it is.
    pub state: NodeState,
    /// Seconds that it has been so.
    pub state_s: u64,
    /// Where other nodes connect to it, while it is a member.
    pub address: Option<String>,
    /// Why this node cannot connect to it: what the name server said when the address was looked up
    /// last.
    pub unresolved: Option<String>,
    /// Which of its memberships this is, while it is a member.
    pub incarnation: Option<u64>,
    /// The highest version of letters that it speaks, while it is a member.
    pub letters: Option<u16>,
    /// Who has copies of its log; null if it has said nothing of that, as with `cluster.replicas` =
    /// 1.
    pub copy: Option<NodeCopy>,
    /// The link that this node keeps of it, while it is a member.
    pub link: Option<ClusterLink>,
}

/// How a node of a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It is the one that was asked.
    Own,
    /// Letters pass to and from it.
    Up,
    /// It is a member, and no letters pass at present.
    Down,
    /// It is lost, and another node serves its sessions from the copy of its log.
    StandIn,
    /// It is no member, and its place is kept.
    Away,
}

/// Who has copies of a node's log, as is agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeCopy {
    /// The nodes that are there and have all of it. The first serves its sessions if it is lost.
    pub keepers: Vec<String>,
    /// What has become of it.
    pub state: NodeCopyState,
}

/// What has become of the copy of a node's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeCopyState {
    /// It is kept, if somebody keeps it.
    Kept,
    /// The first keeper serves the sessions from it.
    Opened,
    /// The sessions are other nodes' by now: what the node has of them is void.
    Void,
}

/// How a copy of this node's log at another node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnCopy {
    /// How far it is.
    pub state: OwnCopyState,
    /// Seconds that it has been so.
    pub state_s: u64,
    /// The node that it is at, or goes to.
    pub keeper: Option<String>,
    /// Records that are on their way to that node's disk.
    pub waiting_records: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// How far a copy of this node's log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnCopyState {
    /// There is none.
    #[default]
    None,
    /// What there is goes to the other node. Nothing waits for that.
    Filling,
    /// The other node has all, and serves the sessions of this one if it is lost. What is
    /// acknowledged is on its disk.
    Whole,
    /// The other node is lost or silent, or its disk takes no more. What is acknowledged waits
    /// until it is agreed that it is no keeper.
    Ending,
}

/// What this node has of the logs of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptCopies {
    /// Logs of other nodes' shards that it takes copies of.
    pub logs: u64,
    /// What they take on its disk.
    pub disk_bytes: u64,
    /// How often it has opened the copy of a lost node's log, to serve that node's sessions.
    pub opened: u64,
    /// How often it could not serve them.
    pub failed: u64,
}

/// What this node keeps of another, and has counted since the other is a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterLink {
    /// Letters for the other node that it has not acknowledged.
    pub waiting_letters: u64,
    /// Their bytes, with what their keeping takes.
    pub waiting_bytes: u64,
    /// Letters that were kept for the other node.
    pub letters_out: u64,
    /// Letters that came from it.
    pub letters_in: u64,
    /// Bytes that were sent.
    pub bytes_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Letters that were sent again on another connection.
    pub resent: u64,
    /// Letters that came again, and were passed over.
    pub doubles: u64,
    /// Messages at QoS 0 that were dropped because too much waited.
    pub dropped: u64,
    /// Letters that were dropped because they are too long.
    pub too_long: u64,
    /// How often all that waited was dropped because the other node was started anew.
    pub resets: u64,
}

impl Cluster {
    /// How many nodes are members. One whose sessions another serves is not.
    pub fn members(&self) -> usize {
        let is_member = |node: &&ClusterNode| {
            matches!(node.state, NodeState::Own | NodeState::Up | NodeState::Down)
        };
        self.nodes.iter().filter(is_member).count()
    }
}

impl ClusterNode {
    /// Whether letters pass between it and the node that was asked, or it is that one.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, NodeState::Own | NodeState::Up)
    }
}

/// Why the place of a node stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForgotten {
    /// The broker is no node of a cluster.
    NoCluster,
    /// No node of that name has a place.
    Unknown,
    /// It is a member.
    IsMember,
    /// This node cannot write now.
    Busy,
}

/// Who is told what became of it, once.
pub type Forgotten = Box<dyn FnOnce(Result<(), NotForgotten>) + Send>;
