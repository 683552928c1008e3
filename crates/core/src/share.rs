//! Which member of a shared subscription's group gets a message.

use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;

/// How the groups of a broker choose, by share name: the first rule whose prefix fits, round robin
/// if none does. A rule with an empty prefix fits every group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharePolicy {
    /// In the order of trial.
    pub rules: Vec<ShareRule>,
}

/// The strategy of the groups whose share name begins alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRule {
    /// Beginning of the share name: `work` for `$share/workers/...`. An empty one fits every group.
    pub prefix: Box<str>,
    /// How these groups choose the member that gets a message.
    pub strategy: ShareStrategy,
}

/// How a group chooses the member that gets a message.
///
/// Round robin and random pass a member over while it cannot take the message at once: it is
/// absent, its queue is not empty, or its window or output is full. If nobody can, a connected
/// member queues it; if nobody is connected, an absent one does. Where a message may be refused,
/// members whose queues have no room for it come last.
///
/// The others choose by the weight of member and key together (rendezvous hashing), so that a
/// member that joins or leaves moves its own share of the keys and no other. Their choice holds
/// while the member is connected, however full its queue. While it is absent with a session that
/// is kept, its keys go to the connected member with the next highest weight each, and come back
/// with it; while nobody is connected, the chosen one queues them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareStrategy {
    /// Each in turn.
    ///
    /// Among members that can always take, the counts of what one shard publishes differ by at most
    /// one.
    #[default]
    RoundRobin,
    /// Any, all with the same chance.
    Random,
    /// All messages of one publisher go to one member.
    ///
    /// The publisher of a will is gone: its topic stands for it.
    StickyClient,
    /// All topics with the same value of level N, counted from 1, go to one member.
    ///
    /// A topic without that level is taken as a whole.
    StickyLevel(NonZeroU16),
    /// All messages of one topic go to one member.
    Hash,
}

impl SharePolicy {
    /// The strategy of `$share/{name}/...`.
    pub(crate) fn strategy(&self, name: &str) -> ShareStrategy {
        let rule = self.rules.iter().find(|rule| name.starts_with(&*rule.prefix));
        rule.map(|rule| rule.strategy).unwrap_or_default()
    }
}
