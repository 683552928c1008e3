//! Which of two retained messages of a topic is the newer one, where several nodes keep each.
//!
//! Every node keeps all retained messages, and what a client publishes is kept by its own node
//! first, which gives it the next version of the topic that this node knows. So what is published
//! once an older one was acknowledged, on whatever node, is newer; of two that nobody knew of each
//! other every node keeps the same.

use crate::keys::Version;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Topics that were cleared and are remembered, so that an older message from a node that was away
/// does not bring them back.
const CLEARED_MAX: usize = 65_536;

/// Topics that were cleared last, which a node that comes is told of: another may tell it of the
/// message that was there before, as it has not heard of that yet.
const LATELY_MAX: usize = 1_024;

/// The versions of all topics, by a hash that all nodes share.
#[derive(Debug)]
pub(crate) struct Versions {
    node: u16,
    /// New ones have a higher count: than those of before this node was started, of which it knows
    /// nothing where topics were cleared.
    floor: u64,
    by_topic: HashMap<u64, Version, FixedState>,
    hasher: FixedState,
    /// Those that were cleared, the oldest first.
    cleared: VecDeque<(u64, Version)>,
    /// The names of the last of them.
    lately: VecDeque<Box<str>>,
    /// How many are not in `lately` any more.
    passed: u64,
}

impl Versions {
    pub(crate) fn new(node: u16, seed: u64, floor: u64) -> Self {
        let (by_topic, hasher) = (HashMap::default(), FixedState::with_seed(seed));
        let (cleared, lately) = (VecDeque::new(), VecDeque::new());
        Self { node, floor, by_topic, hasher, cleared, lately, passed: 0 }
    }

    /// That of the message that is kept.
    pub(crate) fn of(&self, topic: &str) -> Version {
        let known = self.by_topic.get(&self.hasher.hash_one(topic));
        known.copied().unwrap_or(Version { count: 0, node: self.node })
    }

    /// A client of this node has published one, or has cleared the topic.
    pub(crate) fn next(&mut self, topic: &str, is_cleared: bool) -> Version {
        let count = self.of(topic).count.max(self.floor) + 1;
        let version = Version { count, node: self.node };
        self.set(topic, version, is_cleared);
        version
    }

    /// Another node's has come. Says whether it is newer than what is known here.
    pub(crate) fn take(&mut self, topic: &str, version: Version, is_cleared: bool) -> bool {
        let known = self.by_topic.get(&self.hasher.hash_one(topic));
        let is_newer = known.is_none_or(|known| *known < version);
        if is_newer {
            self.set(topic, version, is_cleared);
        }
        is_newer
    }

    /// Its message has expired here, as it has on all nodes.
    pub(crate) fn expired(&mut self, topic: &str) {
        self.set(topic, self.of(topic), true);
    }

    /// The next topic that was cleared lately, from the first on at 0.
    pub(crate) fn next_cleared(&self, at: &mut u64) -> Option<&str> {
        let behind = at.saturating_sub(self.passed);
        *at = self.passed + behind + 1;
        self.lately.get(behind as usize).map(|topic| &**topic)
    }

    fn set(&mut self, topic: &str, version: Version, is_cleared: bool) {
        let hash = self.hasher.hash_one(topic);
        self.by_topic.insert(hash, version);
        if !is_cleared {
            return;
        }
        self.lately.push_back(topic.into());
        if self.lately.len() > LATELY_MAX {
            self.lately.pop_front();
            self.passed += 1;
        }
        self.cleared.push_back((hash, version));
        if self.cleared.len() > CLEARED_MAX
            && let Some((oldest, version)) = self.cleared.pop_front()
            && self.by_topic.get(&oldest) == Some(&version)
        {
            self.by_topic.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_after_another_is_newer_on_every_node() {
        let [mut one, mut other] = [0, 4].map(|node| Versions::new(node, 7, 0));
        let first = one.next("t", false);
        assert!(other.take("t", first, false));
        let second = other.next("t", true);
        assert!(second > first && one.take("t", second, true));
        assert!(!one.take("t", first, false), "a message comes back that was cleared");
    }

    #[test]
    fn of_two_that_nobody_knew_of_each_other_every_node_keeps_the_same() {
        let [mut one, mut other] = [0, 4].map(|node| Versions::new(node, 7, 0));
        let (of_one, of_other) = (one.next("t", false), other.next("t", false));
        assert!(one.take("t", of_other, false));
        assert!(!other.take("t", of_one, false));
        assert_eq!(one.of("t"), other.of("t"));
    }

    #[test]
    fn a_node_that_was_started_anew_has_newer_ones_than_those_it_never_heard_of() {
        let [mut one, mut other] =
            [(4, 100), (0, 200)].map(|(node, floor)| Versions::new(node, 7, floor));
        one.next("t", true);
        let again = other.next("t", false);
        assert!(one.take("t", again, false));
    }

    #[test]
    fn what_was_cleared_last_is_known_by_name() {
        let mut versions = Versions::new(0, 7, 0);
        let mut at = 0;
        assert_eq!(versions.next_cleared(&mut at), None);
        for number in 0..LATELY_MAX + 10 {
            versions.next(&number.to_string(), true);
        }
        let mut at = 0;
        let first = versions.next_cleared(&mut at).map(str::to_owned);
        assert_eq!(first.as_deref(), Some("10"));
        let mut count = 1;
        while versions.next_cleared(&mut at).is_some() {
            count += 1;
        }
        assert_eq!(count, LATELY_MAX);
    }

    #[test]
    fn topics_whose_messages_have_expired_are_forgotten_some_time() {
        let mut versions = Versions::new(0, 1, 0);
        for topic in 0..CLEARED_MAX + 10 {
            versions.next(&topic.to_string(), false);
            versions.expired(&topic.to_string());
        }
        assert_eq!(versions.by_topic.len(), CLEARED_MAX);
    }

    #[test]
    fn as_many_cleared_topics_are_remembered_as_there_is_room_for() {
        let mut versions = Versions::new(0, 7, 0);
        for at in 0..CLEARED_MAX + 10 {
            versions.next(&at.to_string(), true);
        }
        assert_eq!(versions.by_topic.len(), CLEARED_MAX);
        versions.next(&(CLEARED_MAX + 9).to_string(), false);
        assert_eq!(versions.of(&(CLEARED_MAX + 9).to_string()).count, 2);
    }
}
