//! What a node says of itself, and the times of its lease.

use crate::records::{FORMER_MAX, Incarnation, are_shards, is_address, is_name};
use crate::slot::Slot;
use weir_core::Micros;

/// What a node is to be in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersSettings {
    /// The cluster's name, which its keys have.
    pub cluster: String,
    /// The node's name, which no other node of the cluster has.
    pub name: String,
    /// Where other nodes connect to it.
    pub address: String,
    /// How many shards it has.
    pub shards: u16,
    /// What its shards number is higher, and higher than what they numbered before: that is what
    /// nodes of before began with, the microseconds since 1970.
    pub number_min: u64,
    /// The highest version of letters that it speaks.
    pub letters: u16,
    /// The lowest.
    pub letters_min: u16,
    /// Where the node is that runs this one, if this is a stand-in: it serves the sessions of the
    /// node of this name from the copy of that one's log, for a short time.
    pub keeper: Option<Slot>,
    /// Memberships of this node before it was started, whose copies of others' logs its disk has.
    pub former: Vec<Incarnation>,
    /// The times of its lease, the same on all nodes.
    pub times: Times,
}

/// The times of a lease. They are safe while clocks run within 10 % of each other's rate: 5 s of
/// the slowest are over before 6 s of the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a lease lasts without a renewal, in seconds, by the agreement's clock.
    pub ttl_s: u32,
    /// From one renewal to the next, and from one look at all records to the next.
    pub renewal: Micros,
    /// How long a node may act after it has sent a renewal that was answered.
    pub fence: Micros,
    /// How long after a lease has ended its partitions stay where they are: the time that a node
    /// may take between looking whether it may act, and having acted.
    pub wait: Micros,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            ttl_s: 6,
            renewal: Micros::from_secs(1),
            fence: Micros::from_secs(5),
            wait: Micros::from_secs(1),
        }
    }
}

/// Why there can be no such node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The name of a node or a cluster.
    #[error("{0:?} is no name: 1 to 64 letters, digits, '.', '_' and '-'")]
    Name(String),
    /// The address.
    #[error("{0:?} is no address: 1 to 256 characters without spaces, such as 10.0.0.1:7883")]
    Address(String),
    /// Its earlier memberships.
    #[error("a node names {FORMER_MAX} of its earlier memberships at most, not {0}")]
    Former(usize),
    /// The shards.
    #[error("a node of a cluster has 1 to 256 shards, not {0}")]
    Shards(u16),
}

impl MembersSettings {
    pub(crate) fn check(&self) -> Result<(), BadSettings> {
        for name in [&self.cluster, &self.name] {
            if !is_name(name) {
                return Err(BadSettings::Name(name.clone()));
            }
        }
        if self.former.len() > FORMER_MAX {
            return Err(BadSettings::Former(self.former.len()));
        }
        if !is_address(&self.address) {
            return Err(BadSettings::Address(self.address.clone()));
        }
        if are_shards(self.shards) { Ok(()) } else { Err(BadSettings::Shards(self.shards)) }
    }
}
