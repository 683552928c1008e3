//! Every filter that somebody subscribes to, with its subscribers, groups and shards.

use crate::chance::Chance;
use crate::few::Few;
use crate::keys::SessionKey;
use crate::mail::GroupPick;
use crate::pages::Pages;
use crate::routing::group::{Group, Member, Picked};
use crate::routing::shape::hash;
use crate::routing::wildcards::{SHAPES_MAX, Wildcards};
use crate::routing::{Standing, Subscriber};
use crate::text::Text;
use crate::{ShardId, SharePolicy, shrink};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// A filter of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// For a shared subscription.
    group: Option<GroupKey>,
    /// Place among the subscribers or members.
    position: u32,
}

/// Names a group among its filter's: one more than its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupKey(NonZeroU32);

impl GroupKey {
    fn new(at: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(at as u32))
    }

    fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One filter: 48 bytes, and no memory of its own while it is short, of one subscriber and not
/// shared.
#[derive(Debug)]
pub(crate) struct Filter {
    text: Text,
    pub(crate) subscribers: Few<Subscriber>,
    extra: Option<Box<Extra>>,
}

/// What few filters have.
#[derive(Debug, Default)]
struct Extra {
    groups: Slab<Group>,
    /// Other shards with a subscription to it beside shared ones.
    shards: Vec<ShardId>,
    /// The round of letters that tells them of ours, until all have noted it.
    round: Option<u64>,
}

impl Filter {
    fn is_unused(&self) -> bool {
        self.subscribers.is_empty() && !self.has_groups() && self.shards().is_empty()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.extra.iter().flat_map(|extra| &extra.groups).map(|(_, group)| group)
    }

    pub(crate) fn has_groups(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| !extra.groups.is_empty())
    }

    pub(crate) fn has_shard(&self, shard: ShardId) -> bool {
        self.shards().contains(&shard)
    }

    fn shards(&self) -> &[ShardId] {
        self.extra.as_ref().map_or(&[], |extra| &extra.shards)
    }

    fn is_in_a_round(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.round.is_some())
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Changes the extra, if there is one, and drops it when nothing is left in it.
    fn change_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let Some(extra) = &mut self.extra else { return };
        change(extra);
        if extra.groups.is_empty() && extra.shards.is_empty() && extra.round.is_none() {
            self.extra = None;
        }
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

/// The index. Exact filters are found by the topic's hash, wildcard filters by a hash for each
/// shape that there is.
#[derive(Debug)]
pub(crate) struct Filters {
    filters: Pages<Filter>,
    /// Filters by their text: all but those that `wildcards` finds by it.
    by_text: HashTable<FilterId>,
    wildcards: Wildcards,
    hasher: FixedState,
    /// There are other shards to tell.
    has_others: bool,
    share: SharePolicy,
    chance: Chance,
}

impl Filters {
    /// The index of shard `id` of `shards`. Shards share `seed`, but not their chances.
    pub(crate) fn new(id: ShardId, shards: u16, seed: u64, share: SharePolicy) -> Self {
        Self {
            filters: Pages::default(),
            by_text: HashTable::new(),
            wildcards: Wildcards::new(seed, SHAPES_MAX),
            hasher: FixedState::with_seed(seed),
            has_others: shards > 1,
            share,
            chance: Chance::new(seed.wrapping_add(u64::from(id.0))),
        }
    }

    /// Appends the filters that match `topic`: exact first.
    pub(crate) fn find(&self, topic: &str, found: &mut Vec<FilterId>) {
        // A topic name holds no wildcard, so it can equal an exact filter only.
        if !self.by_text.is_empty() {
            found.extend(self.id_by_text(topic));
        }
        self.wildcards.find(topic, |id| &self.get(id).text, found);
    }

    pub(crate) fn get(&self, id: FilterId) -> &Filter {
        &self.filters[id.0 as usize]
    }

    /// Chooses a member of each group of the filter for a message on `topic` from `client_id`.
    pub(crate) fn pick(
        &mut self,
        id: FilterId,
        topic: &str,
        client_id: Option<&[u8]>,
        standing: impl Fn(&Subscriber) -> Standing,
        picks: &mut Picks,
    ) {
        let Self { filters, hasher, chance, .. } = self;
        let Some(extra) = &mut filters[id.0 as usize].extra else { return };
        for (_, group) in &mut extra.groups {
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
        let group = filters[id.0 as usize].group_of_name(name)?;
        group.pick_again(pick, chance, standing)
    }

    /// The filter of a shared subscription, if it is known, and the group's name.
    fn share<'a>(&self, share: &'a str) -> Option<(FilterId, &'a str)> {
        let TopicFilter { group, filter } = TopicFilter::parse(share)?;
        Some((self.id(filter)?, group?))
    }

    fn id(&self, text: &str) -> Option<FilterId> {
        if is_wildcard(text) && self.wildcards.has_table_for(text) {
            return self.wildcards.id(text, |id| &self.get(id).text);
        }
        self.id_by_text(text)
    }

    fn id_by_text(&self, text: &str) -> Option<FilterId> {
        let hash = hash(&self.hasher, text.as_bytes());
        let same = |id: &FilterId| self.get(*id).text.as_bytes() == text.as_bytes();
        self.by_text.find(hash, same).copied()
    }

    fn id_or_insert(&mut self, filter: TopicFilter<'_>) -> FilterId {
        let text = filter.filter;
        if let Some(id) = self.id(text) {
            return id;
        }
        let subscribers = Few::default();
        let key = self.filters.insert(Filter { text: text.into(), subscribers, extra: None });
        let id = FilterId(key as u32);
        let Self { filters, by_text, wildcards, hasher, .. } = self;
        let text_of = |id: FilterId| &filters[id.0 as usize].text;
        let is_wildcard = is_wildcard(text);
        if !(is_wildcard && wildcards.has_table_for(text)) {
            let hash = |text: &[u8]| hash(hasher, text);
            by_text.insert_unique(hash(text.as_bytes()), id, |&id| hash(text_of(id).as_bytes()));
        }
        if is_wildcard {
            wildcards.insert(text, id, text_of);
        }
        id
    }

    /// Forgets a filter that nobody wants.
    fn drop_if_unused(&mut self, id: FilterId) {
        let Self { filters, by_text, wildcards, hasher, .. } = self;
        if !filters[id.0 as usize].is_unused() {
            return;
        }
        let text_of = |id: FilterId| &filters[id.0 as usize].text;
        let text = &**text_of(id);
        let is_wildcard = is_wildcard(text);
        if !(is_wildcard && wildcards.has_table_for(text)) {
            let hash = |id: FilterId| hash(hasher, text_of(id).as_bytes());
            if let Ok(entry) = by_text.find_entry(hash(id), |other| *other == id) {
                entry.remove();
            }
            shrink::table(by_text, |&id| hash(id));
        }
        if is_wildcard {
            wildcards.remove(text, id, text_of);
        }
        filters.take(id.0 as usize);
    }

    /// Adds or replaces a subscription of `client_id`; `records` are the session's own. If other
    /// shards have to be told, that is `round`, see [`Filters::round_noted`].
    pub(crate) fn subscribe(
        &mut self,
        filter: TopicFilter<'_>,
        client_id: &str,
        subscriber: Subscriber,
        round: u64,
        records: &mut Few<SubscriptionRecord>,
    ) -> Subscribed {
        let id = self.id_or_insert(filter);
        let Self { filters, hasher, share, has_others, .. } = self;
        let entry = &mut filters[id.0 as usize];
        let group = filter.group.map(|name| entry.group_or_insert(name, share));
        let news = match group {
            // Told again if it was told before: the first letter may still be on its way.
            Some(group) => {
                let share = Arc::clone(&entry.group(group).share);
                Some(News::Member(share, hasher.hash_one(client_id)))
            }
            None if entry.subscribers.is_empty() || entry.is_in_a_round() => {
                if *has_others {
                    entry.extra().round = Some(round);
                }
                Some(News::Interest(filter.filter.into()))
            }
            None => None,
        };
        let old = records.iter().find(|record| record.filter == id && record.group == group);
        if let Some(record) = old {
            *entry.subscriber_mut(*record) = subscriber;
            return Subscribed { is_new: false, news };
        }
        let position = match group {
            None => entry.subscribers.push(subscriber),
            Some(group) => {
                let members = &mut entry.group_mut(group).members;
                members.push(Member { id: hasher.hash_one(client_id), subscriber });
                members.len() - 1
            }
        };
        let position = position as u32;
        records.push(SubscriptionRecord { filter: id, group, position });
        Subscribed { is_new: true, news }
    }

    /// Finds the session's subscription to `filter`: its place in `records`.
    pub(crate) fn position(
        &self,
        filter: TopicFilter<'_>,
        records: &[SubscriptionRecord],
    ) -> Option<usize> {
        let id = self.id(filter.filter)?;
        let entry = self.get(id);
        records.iter().position(|record| {
            record.filter == id
                && record.group.map(|group| entry.group(group).name()) == filter.group
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
        let (moved, gone) = if let Some(key) = record.group {
            let group = entry.group_mut(key);
            let left = group.members.swap_remove(at);
            shrink::list(&mut group.members);
            let gone = News::Member(Arc::clone(&group.share), left.id);
            let moved = group.members.get(at).map(|member| member.subscriber.session);
            entry.drop_group_if_empty(key);
            (moved, Some(gone))
        } else {
            entry.subscribers.swap_remove(at);
            let is_last = entry.subscribers.is_empty();
            if is_last {
                entry.change_extra(|extra| extra.round = None);
            }
            let gone = is_last.then(|| News::Interest((*entry.text).into()));
            (entry.subscribers.get(at).map(|subscriber| subscriber.session), gone)
        };
        self.drop_if_unused(record.filter);
        (moved, gone)
    }

    /// Corrects the records of a session one of whose subscriptions moved into `record`'s place.
    pub(crate) fn moved(record: SubscriptionRecord, records: &mut [SubscriptionRecord]) {
        let same_list = |other: &&mut SubscriptionRecord| {
            other.filter == record.filter && other.group == record.group
        };
        if let Some(other) = records.iter_mut().find(same_list) {
            other.position = record.position;
        }
    }

    /// All shards have noted the interest of this round. An older round has not told them of a
    /// subscription that came, went and came again.
    pub(crate) fn round_noted(&mut self, filter: &str, round: u64) {
        if let Some(id) = self.id(filter) {
            let is_older = |current: &u64| *current != round;
            let entry = &mut self.filters[id.0 as usize];
            entry.change_extra(|extra| extra.round = extra.round.filter(is_older));
        }
    }

    /// The subscription of `record`.
    pub(crate) fn subscriber(&self, record: SubscriptionRecord) -> Subscriber {
        let entry = self.get(record.filter);
        let at = record.position as usize;
        match record.group {
            Some(group) => entry.group(group).members[at].subscriber,
            None => entry.subscribers[at],
        }
    }

    /// The shared subscription of `record`, if it is one, and who its session is to other shards.
    pub(crate) fn membership(&self, record: SubscriptionRecord) -> Option<(Arc<str>, u64)> {
        let group = self.get(record.filter).group(record.group?);
        Some((Arc::clone(&group.share), group.members[record.position as usize].id))
    }

    /// Another shard has a member of a shared subscription.
    pub(crate) fn join(&mut self, share: &str, shard: ShardId, member: u64) {
        let Some(parsed) = TopicFilter::parse(share) else { return };
        let Some(name) = parsed.group else { return };
        let id = self.id_or_insert(parsed);
        let entry = &mut self.filters[id.0 as usize];
        let group = entry.group_or_insert(name, &self.share);
        entry.group_mut(group).join(shard, member);
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
        if let Some(group) = self.filters[id.0 as usize].group_of_name(name) {
            group.set_connected(shard, member, is_connected);
        }
    }

    /// Another shard has a member no more.
    pub(crate) fn leave(&mut self, share: &str, shard: ShardId, member: u64) {
        let Some((id, name)) = self.share(share) else { return };
        let entry = &mut self.filters[id.0 as usize];
        if let Some(key) = entry.key_of_name(name) {
            entry.group_mut(key).leave(shard, member);
            entry.drop_group_if_empty(key);
        }
        self.drop_if_unused(id);
    }

    /// Another shard has its first subscription to `filter`.
    pub(crate) fn add_shard(&mut self, filter: &str, shard: ShardId) {
        let id = self.id_or_insert(TopicFilter { group: None, filter });
        let shards = &mut self.filters[id.0 as usize].extra().shards;
        if !shards.contains(&shard) {
            shards.push(shard);
        }
    }

    /// Another shard has no subscription to `filter` any more.
    pub(crate) fn remove_shard(&mut self, filter: &str, shard: ShardId) {
        let Some(id) = self.id(filter) else { return };
        let entry = &mut self.filters[id.0 as usize];
        entry.change_extra(|extra| extra.shards.retain(|&other| other != shard));
        self.drop_if_unused(id);
    }

    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }
}

impl Filter {
    fn group_or_insert(&mut self, name: &str, share: &SharePolicy) -> GroupKey {
        if let Some(key) = self.key_of_name(name) {
            return key;
        }
        let group = Group::new(name, &self.text, share.strategy(name));
        GroupKey::new(self.extra().groups.insert(group))
    }

    fn key_of_name(&self, name: &str) -> Option<GroupKey> {
        let mut groups = self.extra.as_ref()?.groups.iter();
        groups.find(|(_, group)| group.name() == name).map(|(at, _)| GroupKey::new(at))
    }

    fn group_of_name(&mut self, name: &str) -> Option<&mut Group> {
        let key = self.key_of_name(name)?;
        Some(self.group_mut(key))
    }

    fn group(&self, key: GroupKey) -> &Group {
        &self.extra.as_ref().expect("a group that has a key is there").groups[key.at()]
    }

    fn group_mut(&mut self, key: GroupKey) -> &mut Group {
        &mut self.extra().groups[key.at()]
    }

    fn drop_group_if_empty(&mut self, key: GroupKey) {
        if self.group(key).is_empty() {
            self.change_extra(|extra| drop(extra.groups.remove(key.at())));
        }
    }

    fn subscriber_mut(&mut self, record: SubscriptionRecord) -> &mut Subscriber {
        let at = record.position as usize;
        match record.group {
            Some(group) => &mut self.group_mut(group).members[at].subscriber,
            None => &mut self.subscribers[at],
        }
    }
}

fn is_wildcard(filter: &str) -> bool {
    filter.contains(['+', '#'])
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

    #[test]
    fn a_filter_and_a_session_s_record_of_it_are_small() {
        assert_eq!(size_of::<Option<Filter>>(), 48);
        assert_eq!(size_of::<Few<SubscriptionRecord>>(), 16);
    }

    proptest! {
        /// Random subscriptions come and go; what is found is what the standard's words match, and
        /// in the end nothing is left.
        #[test]
        fn the_index_agrees_with_a_naive_matcher(
            steps in prop::collection::vec((0..SESSIONS, filter(), any::<bool>()), 1..40),
            topics in prop::collection::vec(topic(), 1..20),
            shapes_max in prop::sample::select(vec![0, 1, 3, SHAPES_MAX]),
        ) {
            let mut filters = Filters::new(ShardId(0), 1, 7, SharePolicy::default());
            filters.wildcards = Wildcards::new(7, shapes_max);
            let mut records: [Few<SubscriptionRecord>; SESSIONS] = Default::default();
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
                    .flat_map(|&id| filters.get(id).subscribers.to_vec())
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
            prop_assert!(filters.by_text.is_empty(), "an entry is left");
            prop_assert!(filters.wildcards.is_empty(), "shapes or nodes are left");
        }
    }

    /// So many that hashes begin alike.
    #[test]
    fn among_thousands_of_one_shape_each_topic_finds_its_own() {
        let mut filters = Filters::new(ShardId(0), 1, 7, SharePolicy::default());
        let mut records = Few::default();
        for at in 0..3_000 {
            for text in [format!("a/{at}/+"), format!("a/{at}/b/#")] {
                let subscriber =
                    Subscriber::new(SessionKey(at), SubscriptionOptions::default(), None);
                let parsed = TopicFilter::parse(&text).unwrap();
                filters.subscribe(parsed, "", subscriber, 0, &mut records);
            }
        }
        for at in 0..4_000 {
            let mut found = Vec::new();
            filters.find(&format!("a/{at}/b"), &mut found);
            let texts: BTreeSet<&str> = found.iter().map(|&id| &*filters.get(id).text).collect();
            let own = [format!("a/{at}/+"), format!("a/{at}/b/#")];
            let expected: BTreeSet<&str> =
                own.iter().map(|text| &**text).filter(|_| at < 3_000).collect();
            assert_eq!((texts, found.len()), (expected.clone(), expected.len()));
        }
    }

    fn remove(
        filters: &mut Filters,
        records: &mut [Few<SubscriptionRecord>],
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
