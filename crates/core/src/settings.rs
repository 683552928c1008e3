//! Everything a shard is told when it is made.

use crate::{Features, Limits, SharePolicy};

/// The settings of a broker; all its shards have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its bounds.
    pub limits: Limits,
    /// What it offers.
    pub features: Features,
    /// How its shared subscriptions choose a member.
    pub share: SharePolicy,
}

impl From<Limits> for Settings {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}
