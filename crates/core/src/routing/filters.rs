//! Every filter that somebody subscribes to, with its subscribers, groups and shards.

use crate::chance::Chance;
use crate::keys::SessionKey;
use crate::mail::GroupPick;
use crate::routing::group::{Group, Member, Picked};
use crate::routing::trie::Trie;
use crate::routing::{Standing, Subscriber};
use crate::{ShardId, SharePolicy};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// A filter of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterId(u32);

/// The members chosen for one message, kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Picks {
    pub(crate) here: Vec<Subscriber>,
    pub(crate) there: Vec<(ShardId, GroupPick)>,
}

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
    /// Other shards with a subscription to it beside shared ones.
    shards: Vec<ShardId>,
    /// The round of letters that tells them of ours, until all have noted it.
    round: Option<u64>,
}

impl Filter {
    fn is_unused(&self) -> bool {
        self.subscribers.is_empty() && self.groups.is_empty() && self.shards.is_empty()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|(_, group)| group)
    }

    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(crate) fn has_shard(&self, shard: ShardId) -> bool {
        self.shards.contains(&shard)
    }
}

/// What [`Filters::subscribe`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    /// The session had no such subscription.
    pub(crate) is_new: bool,
    /// What other shards have to note before the subscription is effective.
    pub(crate) news: Option<News>,
}

/// What a shard has gained or lost that others want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A subscription to this filter, beside shared ones.
    Interest(Box<str>),
    /// This member of this shared subscription.
    Member(Arc<str>, u64),
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

    /// Chooses a member of each group of the filter for a message on `topic` from `client_id`.
    pub(crate) fn pick(
        &mut self,
        id: FilterId,
        topic: &str,
        client_id: Option<&str>,
        standing: impl Fn(&Subscriber) -> Standing,
        picks: &mut Picks,
    ) {
        let Self { filters, hasher, chance, .. } = self;
        for (_, group) in &mut filters[id.0 as usize].groups {
            let key = group.key(topic, client_id, hasher);
            match group.pick(key, chance, &standing) {
                None => {}
                Some(Picked::Here(subscriber)) => picks.here.push(subscriber),
                Some(Picked::There { shard, member }) => {
                    let share = Arc::clone(&group.share);
                    picks.there.push((shard, GroupPick { share, member, key, hops: 0 }));
                }
            }
        }
    }

    /// Serves what another shard chose, see [`Group::pick_again`]; nothing if nobody is left.
    pub(crate) fn pick_again(
        &mut self,
        pick: &GroupPick,
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Picked> {
        let (id, name) = self.share(&pick.share)?;
        let Self { filters, chance, .. } = self;
        let key = filters[id.0 as usize].group(name)?;
        filters[id.0 as usize].groups[key].pick_again(pick, chance, standing)
    }

    /// The filter of a shared subscription, if it is known, and the group's name.
    fn share<'a>(&self, share: &'a str) -> Option<(FilterId, &'a str)> {
        let TopicFilter { group, filter } = TopicFilter::parse(share)?;
        Some((self.id(filter)?, group?))
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
            round: None,
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
        if !filter.is_unused() {
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

    /// Adds or replaces a subscription of `client_id`; `records` are the session's own. If other
    /// shards have to be told, that is `round`, see [`Filters::round_noted`].
    pub(crate) fn subscribe(
        &mut self,
        filter: TopicFilter<'_>,
        client_id: &str,
        subscriber: Subscriber,
        round: u64,
        records: &mut Vec<SubscriptionRecord>,
    ) -> Subscribed {
        let id = self.id_or_insert(filter);
        let Self { filters, hasher, share, .. } = self;
        let entry = &mut filters[id.0 as usize];
        let group = filter.group.map(|name| entry.group_or_insert(name, share));
        let news = match group {
            // Told again if it was told before: the first letter may still be on its way.
            Some(group) => {
                let share = Arc::clone(&entry.groups[group as usize].share);
                Some(News::Member(share, hasher.hash_one(client_id)))
            }
            None if entry.subscribers.is_empty() || entry.round.is_some() => {
                entry.round = Some(round);
                Some(News::Interest(entry.text.clone()))
            }
            None => None,
        };
        let old = records.iter().find(|record| {
            record.filter == id
                && record.is_shared == group.is_some()
                && group.is_none_or(|group| record.group == group)
        });
        if let Some(record) = old {
            *entry.subscriber_mut(*record) = subscriber;
            return Subscribed { is_new: false, news };
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
        Subscribed { is_new: true, news }
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
                        record.is_shared && entry.groups[record.group as usize].name() == name
                    }
                }
        })
    }

    /// Takes out the subscription of `record`. Returns the session whose record moved into its
    /// place, for [`Filters::moved`], and what the shard has lost with it.
    pub(crate) fn unsubscribe(
        &mut self,
        record: SubscriptionRecord,
    ) -> (Option<SessionKey>, Option<News>) {
        let entry = &mut self.filters[record.filter.0 as usize];
        let at = record.position as usize;
        let (moved, gone) = if record.is_shared {
            let group = &mut entry.groups[record.group as usize];
            let left = group.members.swap_remove(at);
            let gone = News::Member(Arc::clone(&group.share), left.id);
            let moved = group.members.get(at).map(|member| member.subscriber.session);
            entry.drop_group_if_empty(record.group as usize);
            (moved, Some(gone))
        } else {
            entry.subscribers.swap_remove(at);
            let is_last = entry.subscribers.is_empty();
            if is_last {
                entry.round = None;
            }
            let gone = is_last.then(|| News::Interest(entry.text.clone()));
            (entry.subscribers.get(at).map(|subscriber| subscriber.session), gone)
        };
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

    /// All shards have noted the interest of this round. An older round has not told them of a
    /// subscription that came, went and came again.
    pub(crate) fn round_noted(&mut self, filter: &str, round: u64) {
        if let Some(id) = self.id(filter) {
            let entry = &mut self.filters[id.0 as usize];
            entry.round = entry.round.filter(|&current| current != round);
        }
    }

    /// The subscription of `record`.
    pub(crate) fn subscriber(&self, record: SubscriptionRecord) -> Subscriber {
        let entry = &self.filters[record.filter.0 as usize];
        let at = record.position as usize;
        if record.is_shared {
            entry.groups[record.group as usize].members[at].subscriber
        } else {
            entry.subscribers[at]
        }
    }

    /// The shared subscription of `record`, if it is one, and who its session is to other shards.
    pub(crate) fn membership(&self, record: SubscriptionRecord) -> Option<(Arc<str>, u64)> {
        let group = self.filters[record.filter.0 as usize].groups.get(record.group as usize);
        let group = group.filter(|_| record.is_shared)?;
        Some((Arc::clone(&group.share), group.members[record.position as usize].id))
    }

    /// Another shard has a member of a shared subscription.
    pub(crate) fn join(&mut self, share: &str, shard: ShardId, member: u64) {
        let Some(parsed) = TopicFilter::parse(share) else { return };
        let Some(name) = parsed.group else { return };
        let id = self.id_or_insert(parsed);
        let entry = &mut self.filters[id.0 as usize];
        let group = entry.group_or_insert(name, &self.share);
        entry.groups[group as usize].join(shard, member);
    }

    /// Another shard's member of a shared subscription came back or is absent.
    pub(crate) fn set_connected(
        &mut self,
        share: &str,
        shard: ShardId,
        member: u64,
        is_connected: bool,
    ) {
        let Some((id, name)) = self.share(share) else { return };
        let entry = &mut self.filters[id.0 as usize];
        if let Some(group) = entry.group(name) {
            entry.groups[group].set_connected(shard, member, is_connected);
        }
    }

    /// Another shard has a member no more.
    pub(crate) fn leave(&mut self, share: &str, shard: ShardId, member: u64) {
        let Some((id, name)) = self.share(share) else { return };
        let entry = &mut self.filters[id.0 as usize];
        if let Some(group) = entry.group(name) {
            entry.groups[group].leave(shard, member);
            entry.drop_group_if_empty(group);
        }
        self.drop_if_unused(id);
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

    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }
}

impl Filter {
    fn group_or_insert(&mut self, name: &str, share: &SharePolicy) -> u32 {
        let key = match self.group(name) {
            Some(key) => key,
            None => self.groups.insert(Group::new(name, &self.text, share.strategy(name))),
        };
        key as u32
    }

    fn group(&self, name: &str) -> Option<usize> {
        self.groups.iter().find(|(_, group)| group.name() == name).map(|(key, _)| key)
    }

    fn drop_group_if_empty(&mut self, group: usize) {
        if self.groups[group].is_empty() {
            self.groups.remove(group);
        }
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
                    let done = filters.subscribe(parsed, "", subscriber, 0, &mut records[session]);
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
                    .flat_map(|&id| filters.get(id).subscribers.clone())
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
