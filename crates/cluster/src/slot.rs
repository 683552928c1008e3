//! The places that nodes have in a cluster.

/// Nodes of a cluster at most: each has a connection with each.
pub const SLOTS: usize = 16;

/// The place of a node, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// That of this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < SLOTS { Some(Self(number)) } else { None }
    }
}
