//! The slots of a cluster's nodes.

use serde::{Deserialize, Serialize};

/// Nodes of a cluster at most: each has a connection with each.
pub const SLOTS: u8 = 16;

/// The place of a node, from 0 to [`SLOTS`] less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u8);

impl Slot {
    /// Each of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(Self)
    }

    /// For lists with an entry per slot.
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    /// Whether there is such a place.
    pub(crate) fn is_one(self) -> bool {
        self.0 < SLOTS
    }
}
