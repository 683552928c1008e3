//! The retained messages of the topics that one shard owns, in the order of the topics.

use super::seek::{Look, look};
use crate::bounds::Bounds;
use crate::keys::Origin;
use crate::own::is_brokers_own;
use crate::shares::Shares;
use crate::{Message, Micros, NotRetained};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// Messages of a page, so that one letter is not long.
pub(crate) const PAGE_MESSAGES_MAX: usize = 256;

/// Bytes of a page; the message that passes this is its last.
const PAGE_BYTES_MAX: u64 = 1024 * 1024;

/// Steps of looking at topics for a page, so that no turn is long for a filter that few match.
const PAGE_SCAN_MAX: usize = 1024;

/// Bytes of a topic and a filter that are compared in a step.
const COMPARED_BYTES: usize = 1024;

/// A search for a topic costs as much as looking at so many.
const SEEK_STEPS: usize = 4;

/// At most one message a topic. A filter's literal beginning narrows the search.
#[derive(Debug, Default)]
pub(super) struct Store {
    messages: BTreeMap<Box<str>, Arc<Message>>,
    /// How many of them are the broker's own: no bound counts these.
    own: usize,
    /// Of the others.
    bytes: u64,
    /// What is whose: a topic's message counts for whoever published it last.
    shares: Shares,
}

/// A part of what a filter matches.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) messages: Vec<Arc<Message>>,
    /// The topic to go on behind; nothing if that was all.
    pub(crate) next: Option<Box<str>>,
    /// Steps of looking at topics for it: one for each that is not long.
    pub(crate) looked_at: usize,
    /// Topics whose messages had expired, and are dropped.
    pub(crate) expired: Vec<Box<str>>,
}

impl Page {
    /// Of all its messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.bytes()).sum()
    }
}

/// What it costs to compare so many bytes of a topic.
fn steps(bytes: usize) -> usize {
    1 + bytes / COMPARED_BYTES
}

/// Whom a message of clients counts for.
fn origin(message: &Message) -> Option<Origin> {
    message.stamp.map(|stamp| stamp.origin)
}

impl Store {
    /// How many there are of clients.
    pub(super) fn len(&self) -> usize {
        self.messages.len() - self.own
    }

    /// Keeps `message` in the place of an older one \[MQTT-3.3.1-5\], if a bound allows it.
    pub(super) fn set(
        &mut self,
        message: Arc<Message>,
        bounds: &Bounds,
    ) -> Result<(), NotRetained> {
        if is_brokers_own(&message.topic) {
            self.put(message);
            return Ok(());
        }
        let (count_max, bytes_max) =
            (u64::from(bounds.limits.retained_messages_max), bounds.limits.retained_bytes_max);
        let old = self.messages.get(&*message.topic);
        let old_bytes = old.map_or(0, |old| old.bytes());
        let count = self.len() as u64 + u64::from(old.is_none());
        let bytes = self.bytes - old_bytes + message.bytes();
        let is_over = count > count_max || bytes > bytes_max;
        if is_over || (bytes > self.bytes && bounds.is_pressed) {
            return Err(NotRetained::Full);
        }
        if let Some(origin) = origin(&message) {
            let is_own = old.is_some_and(|old| self::origin(old) == Some(origin));
            let (mut has, more) = (self.shares.of(origin), message.bytes());
            if is_own {
                has.count -= 1;
                has.bytes -= old_bytes;
            }
            let (messages, total) = (self.len() as u64, self.bytes);
            let has_room = bounds.may_take(has.count, 1, messages, count_max)
                && bounds.may_take(has.bytes, more, total, bytes_max);
            // What it has may be replaced by what is no more.
            let is_no_more = is_own && more <= old_bytes;
            if !has_room && !is_no_more {
                return Err(NotRetained::ShareTaken);
            }
        }
        self.put(message);
        Ok(())
    }

    /// Keeps `message` in the place of an older one, whatever the bounds say.
    pub(super) fn put(&mut self, message: Arc<Message>) {
        if is_brokers_own(&message.topic) {
            self.own += 1;
        } else {
            self.bytes += message.bytes();
            if let Some(origin) = origin(&message) {
                self.shares.add(origin, message.bytes());
            }
        }
        let old = self.messages.insert(message.topic.as_str().into(), message);
        self.forget(old);
    }

    /// It is in the store no more.
    fn forget(&mut self, old: Option<Arc<Message>>) {
        let Some(old) = old else { return };
        if is_brokers_own(&old.topic) {
            self.own -= 1;
            return;
        }
        self.bytes -= old.bytes();
        if let Some(origin) = origin(&old) {
            self.shares.remove(origin, old.bytes());
        }
    }

    /// Takes out those that `is_wanted`, of the next `count` topics behind `after`. Returns where
    /// to go on, if there are more.
    pub(super) fn take_some(
        &mut self,
        after: Option<&str>,
        count: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> (Vec<Arc<Message>>, Option<Box<str>>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut in_reach = self.messages.range::<str, _>((start, Bound::Unbounded));
        let looked_at: Vec<_> = in_reach.by_ref().take(count).collect();
        let wanted = looked_at.iter().filter(|(topic, _)| is_wanted(topic));
        let taken: Vec<_> = wanted.map(|(_, message)| Arc::clone(message)).collect();
        let last = looked_at.last().map(|&(topic, _)| topic.clone());
        let next = last.filter(|_| in_reach.next().is_some());
        for message in &taken {
            self.clear(&message.topic);
        }
        (taken, next)
    }

    /// Forgets the topic's message \[MQTT-3.3.1-6\]. Says whether there was one.
    pub(super) fn clear(&mut self, topic: &str) -> bool {
        let old = self.messages.remove(topic);
        let is_there = old.is_some();
        self.forget(old);
        is_there
    }

    pub(super) fn has(&self, topic: &str) -> bool {
        self.messages.contains_key(topic)
    }

    pub(super) fn of(&self, topic: &str) -> Option<&Arc<Message>> {
        self.messages.get(topic)
    }

    /// The first message behind the topic `after`.
    pub(super) fn next(&self, after: Option<&str>) -> Option<&Arc<Message>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.messages.range::<str, _>((start, Bound::Unbounded)).next().map(|(_, message)| message)
    }

    /// Matching messages in the order of topics, `messages_max` or fewer, from behind the topic
    /// `after`, but for those that `is_other` leaves out. Expired ones it comes by are dropped.
    pub(super) fn page(
        &mut self,
        filter: TopicFilter<'_>,
        after: Option<&str>,
        is_other: impl Fn(&str) -> bool,
        messages_max: usize,
        now: Micros,
    ) -> Page {
        let Some(wildcard_at) = filter.filter.find(['+', '#']) else {
            return self.page_of_one(filter.filter, after, now);
        };
        // `a/#` matches `a` too: the separator before the wildcard is not part of the prefix.
        let prefix = filter.filter[..wildcard_at].trim_end_matches('/');
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let mut in_reach = self.messages.range::<str, _>((start, Bound::Unbounded));
        let (mut messages, mut bytes, mut expired) = (Vec::new(), 0, Vec::new());
        let from_bytes = after.unwrap_or(prefix).len();
        let (mut last, mut looked_at) = (None, from_bytes / COMPARED_BYTES * SEEK_STEPS);
        let (mut from, mut is_whole) = (String::new(), false);
        while looked_at < PAGE_SCAN_MAX && messages.len() < messages_max && bytes <= PAGE_BYTES_MAX
        {
            let Some((topic, message)) = in_reach.next() else { break };
            last = Some(topic);
            looked_at += steps(topic.len() + filter.filter.len());
            match look(filter.filter, topic, &mut from) {
                _ if message.is_expired(now) => expired.push(topic.clone()),
                Look::Match if is_other(topic) => {}
                Look::Match => {
                    bytes += message.bytes();
                    messages.push(Arc::clone(message));
                }
                Look::Next => {}
                Look::From => {
                    // A search costs as much as looking at a few; often the next one is behind.
                    if in_reach.clone().next().is_some_and(|(next, _)| **next < *from) {
                        looked_at += SEEK_STEPS * steps(from.len());
                        in_reach = self
                            .messages
                            .range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded));
                    }
                }
                Look::End => {
                    is_whole = true;
                    break;
                }
            }
        }
        let has_more =
            !is_whole && in_reach.next().is_some_and(|(topic, _)| topic.starts_with(prefix));
        // Nothing between the last that was looked at and where to look on matches.
        let next = last.filter(|_| has_more).cloned();
        for topic in &expired {
            self.clear(topic);
        }
        Page { messages, next, looked_at, expired }
    }

    /// The page of a filter without wildcards: its own name is the only topic it matches.
    fn page_of_one(&mut self, topic: &str, after: Option<&str>, now: Micros) -> Page {
        let found = self.messages.get(topic).filter(|_| after.is_none());
        let messages: Vec<_> = found.cloned().into_iter().collect();
        if messages.iter().any(|message| message.is_expired(now)) {
            self.clear(topic);
            let (looked_at, expired) = (steps(topic.len()), vec![topic.into()]);
            return Page { looked_at, expired, ..Page::default() };
        }
        Page { messages, looked_at: steps(topic.len()), ..Page::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, Limits};
    use weir_wire::{PropertiesBuf, QoS};

    fn store(topics: impl Iterator<Item = String>, payload_bytes: usize) -> Store {
        let mut store = Store::default();
        let bounds = Bounds::new(Limits::default(), Features::default());
        for topic in topics {
            let message = Message {
                topic,
                payload: vec![0; payload_bytes],
                properties: PropertiesBuf::new(),
                qos: QoS::AtMostOnce,
                retain: true,
                expires_at: None,
                stamp: None,
            };
            store.set(Arc::new(message), &bounds).unwrap();
        }
        store
    }

    /// The number of messages of each page.
    fn pages(store: &mut Store, filter: &str, messages_max: usize) -> Vec<usize> {
        let filter = TopicFilter::parse(filter).unwrap();
        let (mut counts, mut after) = (Vec::new(), None);
        loop {
            let page = store.page(filter, after.as_deref(), |_| false, messages_max, Micros(0));
            counts.push(page.messages.len());
            after = page.next;
            if after.is_none() {
                return counts;
            }
        }
    }

    #[test]
    fn pages_are_bounded_by_messages_by_bytes_and_by_what_is_looked_at() {
        let mut small = store((0..10).map(|at| format!("t/{at}")), 1);
        assert_eq!(pages(&mut small, "t/+", 4), [4, 4, 2]);
        assert_eq!(pages(&mut small, "t/+", 5), [5, 5]);
        assert_eq!(pages(&mut small, "t/+", 10), [10]);
        assert_eq!(pages(&mut small, "t/7", 10), [1]);
        assert_eq!(pages(&mut small, "none/#", 10), [0]);
        let mut large = store((0..10).map(|at| format!("t/{at}")), 400_000);
        assert_eq!(pages(&mut large, "t/+", 100), [3, 3, 3, 1]);
        // Two with topics of three bytes reach the bound, and the third passes it.
        let half = PAGE_BYTES_MAX as usize / 2 - 3;
        let mut halves = store((0..10).map(|at| format!("t/{at}")), half);
        assert_eq!(pages(&mut halves, "t/+", 100), [3, 3, 3, 1]);
        let hit = |at: usize| if at.is_multiple_of(1500) { "hit" } else { "miss" };
        let mut wide = store((0..3000).map(|at| format!("{at:05}/{}", hit(at))), 1);
        assert_eq!(pages(&mut wide, "+/hit", 100), [1, 1, 0]);
    }

    #[test]
    fn long_topics_and_long_filters_make_pages_shorter() {
        let long = "x".repeat(60_000);
        let mut deep = store((0..100).map(|at| format!("{at:03}/{long}")), 1);
        let mut flat = store((0..100).map(|at| format!("{at:03}/a")), 1);
        assert_eq!(pages(&mut flat, "+/+/none", 100), [0]);
        // 18 topics, of 59 steps each, pass the bound; 14 on pages that begin behind such a one.
        assert_eq!(pages(&mut deep, "+/+/none", 100), [0; 7]);
        assert_eq!(pages(&mut flat, &format!("+/{long}/none"), 100), [0; 6]);
        assert!(pages(&mut deep, &format!("+/{long}/none"), 100).len() > 7);
        let one = store(["a".to_owned(), long.clone()].into_iter(), 1);
        let looked_at = |topic: &str| {
            let filter = TopicFilter::parse(topic).unwrap();
            let mut store = Store { messages: one.messages.clone(), ..Store::default() };
            store.page(filter, None, |_| false, 100, Micros(0)).looked_at
        };
        assert_eq!([looked_at("a"), looked_at(&long)], [1, 59]);
    }

    #[test]
    fn a_filter_finds_its_parent_level_and_no_longer_name() {
        let topics = ["a", "a/b", "ab", "a/b/c", "b"];
        let mut store = store(topics.into_iter().map(String::from), 1);
        for (filter, count) in [("a/#", 3), ("a", 1), ("a/b", 1), ("a/+", 1), ("#", 5), ("+", 3)] {
            assert_eq!(pages(&mut store, filter, 100), [count], "{filter}");
        }
    }
}
