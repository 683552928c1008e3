//! Another node: what its record says, and the link with it.

use super::search::Search;
use std::collections::BTreeSet;
use std::ops::Range;
use weir_cluster::{Link, LinkSettings, Node, Place, Slot};
use weir_core::{Mail, Micros, ShardId};

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
    /// It serves the sessions of the node whose name it has, for a short time.
    pub(super) is_stand_in: bool,
    /// The highest version of letters that it reads.
    pub(super) letters: u16,
    /// Which of its memberships it is.
    pub(super) incarnation: u64,
}

impl Member {
    /// Whatever its address is: others wait for it while it is a member.
    pub(super) fn of(node: &Node) -> Self {
        let Place { name, slot, first_shard, shards, .. } = &node.place;
        let host = node.address.rsplit_once(':').map_or("", |(host, _)| host);
        Self {
            slot: *slot,
            name: name.clone(),
            shards: *first_shard..first_shard.saturating_add(*shards),
            address: node.address.clone(),
            host: host.trim_matches(['[', ']']).to_owned(),
            is_stand_in: node.is_stand_in,
            letters: node.letters,
            incarnation: node.incarnation.0,
        }
    }
}

/// A node that letters go to.
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) link: Link,
    /// Which of all links of this node that is.
    pub(super) made: u64,
    /// Where it is, if its address is a name.
    pub(super) search: Search,
    /// The shards have been told of it.
    pub(super) is_here: bool,
    /// It was away, and the shards wait for what it had: they are to be told that it is there.
    pub(super) is_back: bool,
    /// It is no member, and the shards are told so then, unless it is there again.
    pub(super) missed_until: Option<Micros>,
    /// It is not read, since the shards have much that waits.
    pub(super) is_paused: bool,
    /// The shards of this node that know of it, if they took it for the one before it.
    pub(super) knowing: Option<BTreeSet<ShardId>>,
}

impl Peer {
    pub(super) fn new(member: Member, settings: LinkSettings, search: Search) -> Self {
        Self {
            member,
            link: Link::new(settings),
            made: 0,
            search,
            is_here: false,
            is_back: false,
            missed_until: None,
            is_paused: false,
            knowing: None,
        }
    }

    /// It is in the place of one that was away, of which the shards were not told.
    pub(super) fn set_back(&mut self) {
        (self.is_here, self.is_back, self.knowing) = (true, true, Some(BTreeSet::new()));
    }

    /// Whether a letter is for it, and not for the one before it: a shard that hears of it lists
    /// what there is first.
    pub(super) fn is_for_it(&mut self, from: ShardId, mail: &Mail) -> bool {
        let Some(knowing) = &mut self.knowing else { return true };
        if matches!(mail, Mail::Listing { .. }) {
            knowing.insert(from);
        }
        knowing.contains(&from)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weir_cluster::Incarnation;

    /// The node of a slot, which has one shard of the same number.
    pub(in super::super) fn peer(slot: u8, address: &str) -> (Slot, Peer) {
        let name = format!("node-{slot}");
        let place =
            Place { name, slot: Slot(slot), first_shard: slot.into(), shards: 1, number: 0 };
        let (incarnation, address) = (Incarnation(1), address.to_owned());
        let (is_stand_in, former) = (false, Vec::new());
        let (letters, letters_min) = (2, 2);
        let node = Node { place, incarnation, address, letters, letters_min, is_stand_in, former };
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
