//! Every filter that somebody subscribes to, with its subscribers, groups and shards.

use crate::chance::Chance;
use crate::keys::SessionKey;
use crate::routing::group::{Group, Member};
use crate::routing::trie::Trie;
use crate::routing::{Standing, Subscriber};
use crate::{ShardId, SharePolicy};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use weir_wire::topic::TopicFilter;

/// A filter of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterId(u32);

/// A session's own note of one subscription: where it stands in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionRecord {
    filter: FilterId,
    /// Index into the filter's groups, for a shared subscription.
    is_shared: bool,
    /// Names the group among the filter's.
    group: u32,
    /// Place among the subscribers or members.
    position: u32,
}

/// One filter.
#[derive(Debug)]
pub(crate) struct Filter {
    text: Box<str>,
    pub(crate) subscribers: Vec<Subscriber>,
    groups: Slab<Group>,
    /// Other shards with a subscription to it.
    pub(crate) shards: Vec<ShardId>,
}

impl Filter {
    fn has_local(&self) -> bool {
        !self.subscribers.is_empty() || !self.groups.is_empty()
    }
}

/// What [`Filters::subscribe`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    /// The session had no such subscription.
    pub(crate) is_new: bool,
    /// The shard had no subscription to this filter: others want to know.
    pub(crate) is_first: bool,
}

/// The index. Exact filters are found by hash, wildcard filters by a tree of levels.
#[derive(Debug)]
pub(crate) struct Filters {
    filters: Slab<Filter>,
    by_text: HashTable<FilterId>,
    wildcards: Trie,
    hasher: FixedState,
    share: SharePolicy,
    chance: Chance,
}

impl Filters {
    /// The index of shard `id`. Shards share `seed`, but not their chances.
    pub(crate) fn new(id: ShardId, seed: u64, share: SharePolicy) -> Self {
        Self {
            filters: Slab::new(),
            by_text: HashTable::new(),
            wildcards: Trie::new(seed),
            hasher: FixedState::with_seed(seed),
            share,
            chance: Chance::new(seed.wrapping_add(u64::from(id.0))),
        }
    }

    /// Appends the filters that match `topic`: exact first.
    pub(crate) fn find(&self, topic: &str, found: &mut Vec<FilterId>) {
        // A topic name holds no wildcard, so it can equal an exact filter only.
        found.extend(self.id(topic));
        self.wildcards.find(topic, found);
    }

    pub(crate) fn get(&self, id: FilterId) -> &Filter {
        &self.filters[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: FilterId) -> &mut Filter {
        &mut self.filters[id.0 as usize]
    }

    /// Chooses a member of each group of the filter for a message on `topic` from `client_id`.
    pub(crate) fn pick(
        &mut self,
        id: FilterId,
        topic: &str,
        client_id: Option<&str>,
        standing: impl Fn(&Subscriber) -> Standing,
        picked: &mut Vec<Subscriber>,
    ) {
        let Self { filters, hasher, chance, .. } = self;
        for (_, group) in &mut filters[id.0 as usize].groups {
            let key = group.key(topic, client_id, hasher);
            picked.extend(group.pick(key, chance, &standing));
        }
    }

    fn id(&self, text: &str) -> Option<FilterId> {
        let hash = self.hasher.hash_one(text);
        let same = |id: &FilterId| *self.filters[id.0 as usize].text == *text;
        self.by_text.find(hash, same).copied()
    }

    fn id_or_insert(&mut self, filter: TopicFilter<'_>) -> FilterId {
        if let Some(id) = self.id(filter.filter) {
            return id;
        }
        let key = self.filters.insert(Filter {
            text: filter.filter.into(),
            subscribers: Vec::new(),
            groups: Slab::new(),
            shards: Vec::new(),
        });
        let id = FilterId(key as u32);
        let hash = self.hasher.hash_one(filter.filter);
        let Self { filters, by_text, hasher, .. } = self;
        by_text.insert_unique(hash, id, |id| hasher.hash_one(&*filters[id.0 as usize].text));
        if filter.has_wildcard() {
            self.wildcards.insert(filter.filter, id);
        }
        id
    }

    /// Forgets a filter that nobody wants.
    fn drop_if_unused(&mut self, id: FilterId) {
        let filter = &self.filters[id.0 as usize];
        if filter.has_local() || !filter.shards.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(&*filter.text);
        if let Ok(entry) = self.by_text.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        if filter.text.contains(['+', '#']) {
            self.wildcards.remove(&filter.text);
        }
        self.filters.remove(id.0 as usize);
    }

    /// Adds or replaces a subscription of `client_id`; `records` are the session's own.
    pub(crate) fn subscribe(
        &mut self,
        filter: TopicFilter<'_>,
        client_id: &str,
        subscriber: Subscriber,
        records: &mut Vec<SubscriptionRecord>,
    ) -> Subscribed {
        let id = self.id_or_insert(filter);
        let Self { filters, hasher, share, .. } = self;
        let entry = &mut filters[id.0 as usize];
        let is_first = !entry.has_local();
        let group = filter.group.map(|name| entry.group_or_insert(name, share));
        let old = records.iter().find(|record| {
            record.filter == id
                && record.is_shared == group.is_some()
                && group.is_none_or(|group| record.group == group)
        });
        if let Some(record) = old {
            *entry.subscriber_mut(*record) = subscriber;
            return Subscribed { is_new: false, is_first: false };
        }
        let position = match group {
            None => push(&mut entry.subscribers, subscriber),
            Some(group) => {
                let member = Member { id: hasher.hash_one(client_id), subscriber };
                push(&mut entry.groups[group as usize].members, member)
            }
        };
        records.push(SubscriptionRecord {
            filter: id,
            is_shared: group.is_some(),
            group: group.unwrap_or(0),
            position,
        });
        Subscribed { is_new: true, is_first }
    }

    /// Finds the session's subscription to `filter`: its place in `records`.
    pub(crate) fn position(
        &self,
        filter: TopicFilter<'_>,
        records: &[SubscriptionRecord],
    ) -> Option<usize> {
        let id = self.id(filter.filter)?;
        let entry = &self.filters[id.0 as usize];
        records.iter().position(|record| {
            record.filter == id
                && match filter.group {
                    None => !record.is_shared,
                    Some(name) => {
                        record.is_shared && *entry.groups[record.group as usize].name == *name
                    }
                }
        })
    }

    /// Takes out the subscription of `record`. Returns the session whose record moved into its
    /// place, for [`Filters::moved`], and the filter's text if the shard has no subscription to
    /// it any more.
    pub(crate) fn unsubscribe(
        &mut self,
        record: SubscriptionRecord,
    ) -> (Option<SessionKey>, Option<Box<str>>) {
        let entry = &mut self.filters[record.filter.0 as usize];
        let at = record.position as usize;
        let moved = if record.is_shared {
            let members = &mut entry.groups[record.group as usize].members;
            members.swap_remove(at);
            let moved = members.get(at).map(|member| member.subscriber.session);
            if members.is_empty() {
                entry.groups.remove(record.group as usize);
            }
            moved
        } else {
            entry.subscribers.swap_remove(at);
            entry.subscribers.get(at).map(|subscriber| subscriber.session)
        };
        let gone = (!entry.has_local()).then(|| entry.text.clone());
        self.drop_if_unused(record.filter);
        (moved, gone)
    }

    /// Corrects the records of a session one of whose subscriptions moved into `record`'s place.
    pub(crate) fn moved(record: SubscriptionRecord, records: &mut [SubscriptionRecord]) {
        let same_list = |other: &&mut SubscriptionRecord| {
            other.filter == record.filter
                && other.is_shared == record.is_shared
                && other.group == record.group
        };
        if let Some(other) = records.iter_mut().find(same_list) {
            other.position = record.position;
        }
    }

    /// Another shard has its first subscription to `filter`.
    pub(crate) fn add_shard(&mut self, filter: &str, shard: ShardId) {
        let id = self.id_or_insert(TopicFilter { group: None, filter });
        let shards = &mut self.filters[id.0 as usize].shards;
        if !shards.contains(&shard) {
            shards.push(shard);
        }
    }

    /// Another shard has no subscription to `filter` any more.
    pub(crate) fn remove_shard(&mut self, filter: &str, shard: ShardId) {
        let Some(id) = self.id(filter) else { return };
        self.filters[id.0 as usize].shards.retain(|&other| other != shard);
        self.drop_if_unused(id);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }
}

impl Filter {
    fn group_or_insert(&mut self, name: &str, share: &SharePolicy) -> u32 {
        let found = self.groups.iter().find(|(_, group)| *group.name == *name);
        let key = match found {
            Some((key, _)) => key,
            None => self.groups.insert(Group::new(name, share.strategy(name))),
        };
        key as u32
    }

    fn subscriber_mut(&mut self, record: SubscriptionRecord) -> &mut Subscriber {
        let at = record.position as usize;
        if record.is_shared {
            &mut self.groups[record.group as usize].members[at].subscriber
        } else {
            &mut self.subscribers[at]
        }
    }
}

/// Appends; says where.
fn push<T>(list: &mut Vec<T>, entry: T) -> u32 {
    list.push(entry);
    (list.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use weir_wire::packet::SubscriptionOptions;

    const SESSIONS: usize = 4;

    fn level() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "", "$s", "+"])
    }

    fn filter() -> impl Strategy<Value = String> {
        let ends = prop::sample::select(vec!["", "#"]);
        (prop::collection::vec(level(), 1..4), ends).prop_map(|(mut levels, end)| {
            if !end.is_empty() {
                levels.push(end);
            }
            levels.join("/")
        })
    }

    fn topic() -> impl Strategy<Value = String> {
        let names = prop::sample::select(vec!["a", "b", "", "$s"]);
        prop::collection::vec(names, 1..5).prop_map(|levels| levels.join("/"))
    }

    proptest! {
        /// Random subscriptions come and go; what is found is what the standard's words match, and
        /// in the end nothing is left.
        #[test]
        fn the_index_agrees_with_a_naive_matcher(
            steps in prop::collection::vec((0..SESSIONS, filter(), any::<bool>()), 1..40),
            topics in prop::collection::vec(topic(), 1..20),
        ) {
            let mut filters = Filters::new(ShardId(0), 7, SharePolicy::default());
            let mut records: Vec<Vec<SubscriptionRecord>> = vec![Vec::new(); SESSIONS];
            let mut model: BTreeSet<(usize, String)> = BTreeSet::new();
            for (session, text, is_subscribe) in steps {
                let Some(parsed) = TopicFilter::parse(&text) else { continue };
                if is_subscribe {
                    let options = SubscriptionOptions::default();
                    let key = SessionKey(session as u32);
                    let subscriber = Subscriber::new(key, options, None);
                    let done = filters.subscribe(parsed, "", subscriber, &mut records[session]);
                    prop_assert_eq!(done.is_new, model.insert((session, text)));
                } else if let Some(at) = filters.position(parsed, &records[session]) {
                    remove(&mut filters, &mut records, session, at);
                    prop_assert!(model.remove(&(session, text)));
                } else {
                    prop_assert!(!model.contains(&(session, text)));
                }
            }
            for topic in topics {
                let mut found = Vec::new();
                filters.find(&topic, &mut found);
                let mut sessions: Vec<u32> = found
                    .iter()
                    .flat_map(|&id| filters.get_mut(id).subscribers.clone())
                    .map(|subscriber| subscriber.session.0)
                    .collect();
                sessions.sort_unstable();
                let is_match = |text: &str| {
                    TopicFilter::parse(text).is_some_and(|filter| filter.matches(&topic))
                };
                let matching = model.iter().filter(|(_, text)| is_match(text));
                let mut expected: Vec<u32> = matching.map(|(session, _)| *session as u32).collect();
                expected.sort_unstable();
                prop_assert_eq!(sessions, expected, "{}", topic);
            }
            for session in 0..SESSIONS {
                while let Some(last) = records[session].len().checked_sub(1) {
                    remove(&mut filters, &mut records, session, last);
                }
            }
            prop_assert_eq!(filters.len(), 0);
            prop_assert!(filters.wildcards.is_empty(), "nodes are left");
        }
    }

    fn remove(
        filters: &mut Filters,
        records: &mut [Vec<SubscriptionRecord>],
        session: usize,
        at: usize,
    ) {
        let record = records[session].swap_remove(at);
        let (moved, _) = filters.unsubscribe(record);
        if let Some(moved) = moved {
            Filters::moved(record, &mut records[moved.0 as usize]);
        }
    }
}
