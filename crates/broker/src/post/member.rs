//! Another node: what its record says, and the link with it.

use super::search::Search;
use std::ops::Range;
use weir_cluster::{Link, LinkSettings, Node, Place, Slot};

/// A node, as its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) slot: Slot,
    pub(super) name: String,
    pub(super) shards: Range<u16>,
    /// Where its post listens: `HOST:PORT`, if it says what it should.
    pub(super) address: String,
    /// Whom its certificate is for.
    pub(super) host: String,
    /// Which of its memberships it is.
    incarnation: u64,
}

impl Member {
    /// Whatever its address is: others wait for it while it is a member.
    pub(super) fn of(node: &Node) -> Self {
        let Place { name, slot, first_shard, shards } = &node.place;
        let host = node.address.rsplit_once(':').map_or("", |(host, _)| host);
        Self {
            slot: *slot,
            name: name.clone(),
            shards: *first_shard..first_shard.saturating_add(*shards),
            address: node.address.clone(),
            host: host.trim_matches(['[', ']']).to_owned(),
            incarnation: node.incarnation.0,
        }
    }
}

/// A node that letters go to.
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) link: Link,
    /// Where it is, if its address is a name.
    pub(super) search: Search,
    /// The shards have been told of it.
    pub(super) is_here: bool,
    /// It is not read, since the shards have much that waits.
    pub(super) is_paused: bool,
}

impl Peer {
    pub(super) fn new(member: Member, settings: LinkSettings, search: Search) -> Self {
        Self { member, link: Link::new(settings), search, is_here: false, is_paused: false }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weir_cluster::Incarnation;

    /// The node of a slot, which has one shard of the same number.
    pub(in super::super) fn peer(slot: u8, address: &str) -> (Slot, Peer) {
        let name = format!("node-{slot}");
        let place = Place { name, slot: Slot(slot), first_shard: slot.into(), shards: 1 };
        let (incarnation, address) = (Incarnation(1), address.to_owned());
        let node = Node { place, incarnation, address, letters: 1, letters_min: 1 };
        let settings = LinkSettings {
            cluster: "lab".into(),
            own: Slot(9),
            peer: Slot(slot),
            incarnation: 1,
            window_bytes: LinkSettings::WINDOW_BYTES,
            frame_bytes_max: LinkSettings::FRAME_BYTES_MAX,
        };
        let member = Member::of(&node);
        let (search, _) = Search::new(&member.address);
        (Slot(slot), Peer::new(member, settings, search))
    }

    #[test]
    fn a_member_is_a_peer_whatever_its_address_is() {
        for (address, host) in
            [("[::1]:7883", "::1"), ("a.lab:7883", "a.lab"), ("nowhere", ""), (":", "")]
        {
            let (_, Peer { member, .. }) = peer(3, address);
            assert_eq!((&*member.host, member.shards), (host, 3..4), "{address}");
        }
    }
}
