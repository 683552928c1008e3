//! The slots of a cluster's nodes.

/// Nodes of a cluster at most: each has a connection with each.
pub const SLOTS: u8 = 16;

/// A node's number among those of its cluster, from 0 to [`SLOTS`] less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);
