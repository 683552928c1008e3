//! Another node: what its record says, and the link with it.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::ops::Range;
use weir_cluster::{Link, LinkSettings, Node, Place, Slot};

/// A node, as its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) shards: Range<u16>,
    /// Where its post listens.
    pub(super) address: SocketAddr,
    /// Whom its certificate is for.
    pub(super) host: String,
    /// Which of its memberships it is.
    incarnation: u64,
}

impl Member {
    /// Nothing if its address is none.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let Place { name, slot, first_shard, shards } = &node.place;
        let host = node.address.rsplit_once(':').map_or("", |(host, _)| host);
        Some(Self {
            slot: *slot,
            name: name.clone(),
            shards: *first_shard..first_shard.checked_add(*shards)?,
            address: node.address.to_socket_addrs().ok()?.next()?,
            host: host.trim_matches(['[', ']']).to_owned(),
            incarnation: node.incarnation.0,
        })
    }
}

/// A node that letters go to.
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) link: Link,
    /// The shards have been told of it.
    pub(super) is_here: bool,
    /// It is not read, since the shards have much that waits.
    pub(super) is_paused: bool,
}

impl Peer {
    pub(super) fn new(member: Member, settings: LinkSettings) -> Self {
        Self { member, link: Link::new(settings), is_here: false, is_paused: false }
    }
}
