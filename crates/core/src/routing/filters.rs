//! Every filter that somebody subscribes to here, with its subscribers, and all shared groups.

use crate::conditions::{ConditionId, Conditions};
use crate::content::Content;
use crate::few::Few;
use crate::keys::{Origin, SessionKey};
use crate::mail::GroupPick;
use crate::name::Name;
use crate::pages::Pages;
use crate::routing::group::{Group, Member, Picked};
use crate::routing::interests::Interests;
use crate::routing::lists::{FilterId, Filtered, List, ListKey, SubscriptionRecord};
use crate::routing::records::Records;
use crate::routing::shape::{hash, is_wildcard};
use crate::routing::wildcards::Wildcards;
use crate::routing::{Standing, Subscriber};
use crate::shard_set::ShardSet;
use crate::text::Text;
use crate::{ShardId, SharePolicy, shrink};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use std::sync::Arc;
use weir_chance::{Chance, mix};
use weir_wire::topic::TopicFilter;

/// The members chosen for one message, kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Picks {
    pub(crate) here: Vec<Subscriber>,
    pub(crate) there: Vec<(ShardId, GroupPick)>,
    /// Members here that are not to be served yet.
    pub(crate) held: Vec<GroupPick>,
}

impl Picks {
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.there.is_empty() && self.held.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.here.clear();
        self.there.clear();
        self.held.clear();
    }
}

/// One filter: 48 bytes, and no memory of its own while it is short, of one subscriber, not
/// shared and without a condition.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(super) text: Text,
    pub(crate) subscribers: Few<Subscriber>,
    pub(super) cold: Option<Box<ColdFilter>>,
}

/// What few filters have.
#[derive(Debug, Default)]
pub(super) struct ColdFilter {
    pub(super) groups: Slab<Group>,
    /// A list for each condition and way to name it.
    pub(super) filtered: Slab<Filtered>,
    /// The round of letters that tells them of ours, until all have noted it.
    round: Option<u64>,
}

impl Filter {
    fn is_unused(&self) -> bool {
        self.subscribers.is_empty() && !self.has_lists_beside()
    }

    /// Whether this shard has a subscription to it beside shared ones.
    pub(super) fn is_wanted_here(&self) -> bool {
        !self.subscribers.is_empty() || self.filtered().next().is_some()
    }

    /// Whether there are groups or content-filtered subscribers.
    #[inline]
    pub(crate) fn has_lists_beside(&self) -> bool {
        let is_empty = |cold: &ColdFilter| cold.groups.is_empty() && cold.filtered.is_empty();
        self.cold.as_ref().is_some_and(|cold| !is_empty(cold))
    }

    /// The lists of content-filtered subscribers.
    pub(super) fn filtered(&self) -> impl Iterator<Item = &Filtered> {
        self.cold.iter().flat_map(|cold| &cold.filtered).map(|(_, list)| list)
    }

    pub(super) fn filtered_at(&self, at: usize) -> &Filtered {
        &self.cold.as_ref().expect("a list that has a key is there").filtered[at]
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.cold.iter().flat_map(|cold| &cold.groups).map(|(_, group)| group)
    }

    fn is_in_another_round(&self, round: u64) -> bool {
        let current = self.cold.as_ref().and_then(|cold| cold.round);
        current.is_some_and(|current| current != round)
    }

    pub(super) fn cold(&mut self) -> &mut ColdFilter {
        self.cold.get_or_insert_default()
    }

    /// Changes the cold, if there is one, and drops it when nothing is left in it.
    pub(super) fn change_cold(&mut self, change: impl FnOnce(&mut ColdFilter)) {
        let Some(cold) = &mut self.cold else { return };
        change(cold);
        let has_lists = !(cold.groups.is_empty() && cold.filtered.is_empty());
        if !has_lists && cold.round.is_none() {
            self.cold = None;
        }
    }
}

/// Who subscribes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Who<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) address: Option<Origin>,
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
    Interest(Arc<str>),
    /// This member of this shared subscription.
    Member(Arc<str>, u64),
}

/// The index. Exact filters are found by the topic's hash, wildcard filters by a hash for each
/// shape that there is.
#[derive(Debug)]
pub(crate) struct Filters {
    pub(super) filters: Pages<Filter>,
    pub(crate) conditions: Conditions,
    /// Filters without wildcards, by their text.
    pub(super) by_text: HashTable<FilterId>,
    pub(super) wildcards: Wildcards,
    /// What other shards' clients want beside shared subscriptions.
    pub(crate) interests: Interests,
    pub(super) hasher: FixedState,
    /// There are other shards to tell.
    pub(crate) has_others: bool,
    /// Shards that are gone, and whose traces have not all been found yet.
    pub(crate) gone: ShardSet,
    /// Shards of other nodes that want what nobody knows yet: they are in the place of others.
    pub(crate) unlisted: ShardSet,
    /// Rounds of letters so far, see [`Filters::subscribe`].
    rounds: u64,
    /// How groups choose that begin from now on.
    pub(crate) share: SharePolicy,
    chance: Chance,
}

impl Filters {
    /// The index of shard `id` of `shards`. Shards share `seed`, but not their chances.
    pub(crate) fn new(id: ShardId, shards: u16, seed: u64, share: SharePolicy) -> Self {
        Self {
            filters: Pages::default(),
            conditions: Conditions::new(seed),
            by_text: HashTable::new(),
            wildcards: Wildcards::new(seed),
            interests: Interests::default(),
            hasher: FixedState::with_seed(seed),
            has_others: shards > 1,
            gone: ShardSet::default(),
            unlisted: ShardSet::default(),
            rounds: 0,
            share,
            chance: Chance::new(mix(seed.wrapping_add(u64::from(id.0)))),
        }
    }

    /// The next round of letters, of one SUBSCRIBE.
    pub(crate) fn next_round(&mut self) -> u64 {
        self.rounds += 1;
        self.rounds
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
        &self.filters[id.at()]
    }

    pub(super) fn get_mut(&mut self, id: FilterId) -> &mut Filter {
        &mut self.filters[id.at()]
    }

    /// Chooses a member of each group of the filter that wants this message on `topic` from
    /// `client_id`; their conditions have been asked for.
    pub(crate) fn pick(
        &mut self,
        id: FilterId,
        (topic, bytes): (&str, u64),
        client_id: Option<&[u8]>,
        standing: impl Fn(&Subscriber) -> Standing,
        is_held: impl Fn(&Subscriber) -> bool,
        picks: &mut Picks,
    ) {
        self.leave_gone(id);
        let Self { filters, conditions, hasher, chance, .. } = self;
        let Some(cold) = &mut filters[id.at()].cold else { return };
        for (_, group) in &mut cold.groups {
            if group.condition.is_some_and(|condition| !conditions.holds(condition)) {
                continue;
            }
            let key = group.key(topic, client_id, hasher);
            match group.pick(key, bytes, chance, &standing) {
                None | Some(Picked::Unwanted) => {}
                Some(Picked::Here(subscriber)) if is_held(&subscriber) => {
                    let (share, member) =
                        (Arc::clone(&group.share), group.id_of(subscriber.session));
                    picks.held.push(GroupPick { share, member, key, hops: 0 });
                }
                Some(Picked::Here(subscriber)) => picks.here.push(subscriber),
                Some(Picked::There { shard, member }) => {
                    let share = Arc::clone(&group.share);
                    picks.there.push((shard, GroupPick { share, member, key, hops: 0 }));
                }
            }
        }
    }

    /// Serves what another shard chose, see [`Group::pick_again`]; nothing if nobody is left. The
    /// group's condition is asked again: the other shard may not have had room for it.
    pub(crate) fn pick_again(
        &mut self,
        pick: &GroupPick,
        (content, bytes): (&Content<'_>, u64),
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Picked> {
        let (id, name) = self.share(&pick.share)?;
        self.leave_gone(id);
        let Self { filters, conditions, chance, .. } = self;
        let group = filters[id.at()].group_of_name(name)?;
        if let Some(condition) = group.condition
            && !conditions.check(condition, content)
        {
            return Some(Picked::Unwanted);
        }
        group.pick_again(pick, bytes, chance, standing)
    }

    /// The group that a member of was chosen.
    pub(crate) fn group_of_pick(&mut self, pick: &GroupPick) -> Option<&Group> {
        let (id, name) = self.share(&pick.share)?;
        self.filters[id.at()].group_of_name(name).map(|group| &*group)
    }

    /// The filter of a shared subscription, if it is known, and the group's name.
    pub(super) fn share<'a>(&self, share: &'a str) -> Option<(FilterId, &'a str)> {
        let TopicFilter { group, filter } = Name::parse(share)?.topic;
        Some((self.id(filter)?, group?))
    }

    /// As [`Filters::share`], with the group's key.
    pub(super) fn group_of(&self, share: &str) -> Option<(FilterId, usize)> {
        let (id, name) = self.share(share)?;
        Some((id, self.get(id).key_of_name(name)?))
    }

    pub(super) fn id(&self, text: &str) -> Option<FilterId> {
        if is_wildcard(text) {
            return self.wildcards.id(text, |id| &self.get(id).text);
        }
        self.id_by_text(text)
    }

    fn id_by_text(&self, text: &str) -> Option<FilterId> {
        let hash = hash(&self.hasher, text.as_bytes());
        let same = |id: &FilterId| self.get(*id).text.as_bytes() == text.as_bytes();
        self.by_text.find(hash, same).copied()
    }

    pub(super) fn id_or_insert(&mut self, filter: TopicFilter<'_>, by: Option<Origin>) -> FilterId {
        let text = filter.filter;
        if let Some(id) = self.id(text) {
            return id;
        }
        let subscribers = Few::default();
        let key = self.filters.insert(Filter { text: text.into(), subscribers, cold: None });
        let id = FilterId(key as u32);
        let Self { filters, by_text, wildcards, hasher, .. } = self;
        let text_of = |id: FilterId| &filters[id.0 as usize].text;
        if is_wildcard(text) {
            wildcards.insert(text, id, by, text_of);
        } else {
            let hash = |text: &[u8]| hash(hasher, text);
            by_text.insert_unique(hash(text.as_bytes()), id, |&id| hash(text_of(id).as_bytes()));
        }
        id
    }

    /// Forgets a filter that nobody wants.
    pub(super) fn drop_if_unused(&mut self, id: FilterId) {
        let Self { filters, by_text, wildcards, hasher, .. } = self;
        if !filters[id.0 as usize].is_unused() {
            return;
        }
        let text_of = |id: FilterId| &filters[id.0 as usize].text;
        let text = &**text_of(id);
        if is_wildcard(text) {
            wildcards.remove(text, id, text_of);
        } else {
            let hash = |id: FilterId| hash(hasher, text_of(id).as_bytes());
            if let Ok(entry) = by_text.find_entry(hash(id), |other| *other == id) {
                entry.remove();
            }
            shrink::table(by_text, |&id| hash(id));
        }
        filters.take(id.0 as usize);
    }

    /// Adds or replaces a subscription of a client; `records` are the session's own. A name that
    /// its session has with another condition beside it is added: the caller takes out the old.
    /// The index takes over what was acquired as `condition`. If other shards have to be told, that
    /// is `round`, in which they are told once, see [`Filters::round_noted`].
    pub(crate) fn subscribe(
        &mut self,
        Name { topic: filter, encoded }: Name<'_>,
        condition: Option<ConditionId>,
        who: Who<'_>,
        subscriber: Subscriber,
        round: u64,
        records: &mut Records,
    ) -> Subscribed {
        let id = self.id_or_insert(filter, who.address);
        let was_wanted = self.get(id).is_wanted_here();
        let list = match filter.group {
            None => self.list_for(id, condition, encoded),
            Some(name) => {
                let at = self.filters[id.at()].group_or_insert(name, &self.share);
                self.give_condition(id, at, condition);
                List::Group(at)
            }
        };
        let Self { filters, hasher, has_others, .. } = self;
        let entry = &mut filters[id.at()];
        let news = match list {
            // Told again if it was told before: the first letter may still be on its way.
            List::Group(group) => {
                let share = Arc::clone(&entry.group(group).share);
                Some(News::Member(share, hasher.hash_one(who.client_id)))
            }
            _ if !was_wanted || entry.is_in_another_round(round) => {
                if *has_others {
                    entry.cold().round = Some(round);
                }
                Some(News::Interest(filter.filter.into()))
            }
            _ => None,
        };
        let key = ListKey::from(list);
        if let Some(at) = records.find(id, |record| record.list == key) {
            *entry.subscriber_mut(records[at]) = subscriber;
            return Subscribed { is_new: false, news };
        }
        let position = match list {
            List::Plain => entry.subscribers.push(subscriber),
            List::Filtered(at) => entry.cold().filtered[at].subscribers.push(subscriber),
            List::Group(group) => {
                let members = &mut entry.group_mut(group).members;
                members.push(Member { id: hasher.hash_one(who.client_id), subscriber });
                members.len() - 1
            }
        };
        let position = position as u32;
        let record = SubscriptionRecord { filter: id, list: key, position };
        records.push(record, |record| self.weigh(record));
        Subscribed { is_new: true, news }
    }

    /// Finds the session's subscription of this name: its place in `records`.
    pub(crate) fn position(&self, name: Name<'_>, records: &Records) -> Option<usize> {
        let Name { topic: TopicFilter { group, filter }, encoded } = name;
        let id = self.id(filter)?;
        let entry = self.get(id);
        let is_same = |record: &SubscriptionRecord| match record.list() {
            List::Plain => group.is_none() && encoded.is_none(),
            List::Group(at) => group == Some(entry.group(at).name()),
            List::Filtered(at) => {
                group.is_none() && entry.filtered_at(at).encoded.as_deref() == encoded
            }
        };
        records.find(id, is_same)
    }

    /// Takes out the record at `at` of a session's, for [`Filters::unsubscribe`].
    pub(crate) fn take_record(&self, records: &mut Records, at: usize) -> SubscriptionRecord {
        records.swap_remove(at, |record| self.weigh(record))
    }

    /// Takes out the subscription of `record`. Returns the session whose record moved into its
    /// place, for [`Records::moved`], and what the shard has lost with it.
    pub(crate) fn unsubscribe(
        &mut self,
        record: SubscriptionRecord,
    ) -> (Option<SessionKey>, Option<News>) {
        let entry = &mut self.filters[record.filter.at()];
        let at = record.position as usize;
        let (moved, gone) = match record.list() {
            List::Group(key) => {
                let group = entry.group_mut(key);
                let left = group.members.swap_remove(at);
                shrink::list(&mut group.members);
                let gone = News::Member(Arc::clone(&group.share), left.id);
                let moved = group.members.get(at).map(|member| member.subscriber.session);
                self.drop_group_if_empty(record.filter, key);
                (moved, Some(gone))
            }
            list => {
                let subscribers = match list {
                    List::Filtered(key) => &mut entry.cold().filtered[key].subscribers,
                    _ => &mut entry.subscribers,
                };
                subscribers.swap_remove(at);
                let moved = subscribers.get(at).map(|subscriber| subscriber.session);
                if let List::Filtered(key) = list {
                    self.drop_filtered_if_empty(record.filter, key);
                }
                (moved, self.interest_gone(record.filter))
            }
        };
        self.drop_if_unused(record.filter);
        (moved, gone)
    }

    /// What other shards are told if that was the last subscription beside shared ones.
    fn interest_gone(&mut self, id: FilterId) -> Option<News> {
        let entry = self.get_mut(id);
        if entry.is_wanted_here() {
            return None;
        }
        entry.change_cold(|cold| cold.round = None);
        if self.has_others && self.is_wanted_by_key(id) {
            return None;
        }
        Some(News::Interest((*self.get(id).text).into()))
    }

    /// All shards have noted the interest of this round. An older round has not told them of a
    /// subscription that came, went and came again.
    pub(crate) fn round_noted(&mut self, filter: &str, round: u64) {
        if let Some(id) = self.id(filter) {
            let is_older = |current: &u64| *current != round;
            let entry = &mut self.filters[id.0 as usize];
            entry.change_cold(|cold| cold.round = cold.round.filter(is_older));
        }
    }

    /// The subscription of `record`.
    pub(crate) fn subscriber(&self, record: SubscriptionRecord) -> Subscriber {
        let entry = self.get(record.filter);
        let at = record.position as usize;
        match record.list() {
            List::Plain => entry.subscribers[at],
            List::Group(group) => entry.group(group).members[at].subscriber,
            List::Filtered(key) => entry.filtered_at(key).subscribers[at],
        }
    }

    /// The shared subscription of `record`, if it is one, and who its session is to other shards.
    pub(crate) fn membership(&self, record: SubscriptionRecord) -> Option<(Arc<str>, u64)> {
        let List::Group(at) = record.list() else { return None };
        let group = self.get(record.filter).group(at);
        Some((Arc::clone(&group.share), group.members[record.position as usize].id))
    }

    /// How many probes a search takes for filters with wildcards.
    pub(crate) fn shapes(&self) -> usize {
        self.wildcards.shapes() + self.interests.shapes()
    }

    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }

    pub(super) fn drop_group_if_empty(&mut self, id: FilterId, at: usize) {
        let entry = self.get_mut(id);
        let group = entry.group(at);
        if group.is_empty() {
            let condition = group.condition;
            entry.change_cold(|cold| drop(cold.groups.remove(at)));
            if let Some(condition) = condition {
                self.conditions.release(condition);
            }
        }
    }
}

impl Filter {
    pub(super) fn group_or_insert(&mut self, name: &str, share: &SharePolicy) -> usize {
        if let Some(key) = self.key_of_name(name) {
            return key;
        }
        let group = Group::new(name, &self.text, share.strategy(name));
        self.cold().groups.insert(group)
    }

    pub(super) fn key_of_name(&self, name: &str) -> Option<usize> {
        let mut groups = self.cold.as_ref()?.groups.iter();
        groups.find(|(_, group)| group.name() == name).map(|(at, _)| at)
    }

    pub(super) fn group_of_name(&mut self, name: &str) -> Option<&mut Group> {
        let key = self.key_of_name(name)?;
        Some(self.group_mut(key))
    }

    pub(super) fn group(&self, key: usize) -> &Group {
        &self.cold.as_ref().expect("a group that has a key is there").groups[key]
    }

    pub(super) fn group_mut(&mut self, key: usize) -> &mut Group {
        &mut self.cold().groups[key]
    }

    fn subscriber_mut(&mut self, record: SubscriptionRecord) -> &mut Subscriber {
        let at = record.position as usize;
        match record.list() {
            List::Plain => &mut self.subscribers[at],
            List::Group(group) => &mut self.group_mut(group).members[at].subscriber,
            List::Filtered(key) => &mut self.cold().filtered[key].subscribers[at],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::interests::InterestsAt;
    use crate::routing::segments::Key;
    use crate::routing::shape::LEVELS_MAX;
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
        assert_eq!(size_of::<Records>(), 16);
    }

    proptest! {
        /// Random subscriptions come and go; what is found is what the standard's words match, and
        /// in the end nothing is left.
        #[test]
        fn the_index_agrees_with_a_naive_matcher(
            steps in prop::collection::vec((0..SESSIONS, filter(), any::<bool>()), 1..40),
            topics in prop::collection::vec(topic(), 1..20),
            is_deep in any::<bool>(),
        ) {
            let mut filters = Filters::new(ShardId(0), 1, 7, SharePolicy::default());
            // Levels before all others make shapes deep.
            let prefix = if is_deep { "l/".repeat(LEVELS_MAX - 1) } else { String::new() };
            let mut records: [Records; SESSIONS] = Default::default();
            let mut model: BTreeSet<(usize, String)> = BTreeSet::new();
            for (session, text, is_subscribe) in steps {
                let text = format!("{prefix}{text}");
                let Some(parsed) = TopicFilter::parse(&text) else { continue };
                if is_subscribe {
                    let options = SubscriptionOptions::default();
                    let key = SessionKey(session as u32);
                    let subscriber = Subscriber::new(key, options, None);
                    let records = &mut records[session];
                    let done =
                        filters
                            .subscribe(parsed.into(), None, Who::default(), subscriber, 0, records);
                    prop_assert_eq!(done.is_new, model.insert((session, text)));
                } else if let Some(at) = filters.position(parsed.into(), &records[session]) {
                    remove(&mut filters, &mut records, session, at);
                    prop_assert!(model.remove(&(session, text)));
                } else {
                    prop_assert!(!model.contains(&(session, text)));
                }
            }
            for topic in topics {
                let topic = format!("{prefix}{topic}");
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

    proptest! {
        /// What other shards want comes and goes, nodes are lost, and nothing is left in the end.
        #[test]
        fn shards_are_found_as_a_naive_matcher_says(
            steps in prop::collection::vec((1..5_u16, filter(), 0..8_u8), 1..80),
            topics in prop::collection::vec(topic(), 1..20),
            is_deep in any::<bool>(),
        ) {
            let mut filters = Filters::new(ShardId(0), 1, 7, SharePolicy::default());
            let prefix = if is_deep { "l/".repeat(LEVELS_MAX - 1) } else { String::new() };
            let mut model: BTreeSet<(u16, String)> = BTreeSet::new();
            for (shard, text, step) in steps {
                let text = format!("{prefix}{text}");
                if TopicFilter::parse(&text).is_none() {
                    continue;
                }
                match step {
                    0 => {
                        forget(&mut filters, shard, &mut model);
                    }
                    1..6 => {
                        filters.add_shard(&text, ShardId(shard));
                        model.insert((shard, text));
                    }
                    _ => {
                        filters.remove_shard(&text, ShardId(shard));
                        model.remove(&(shard, text));
                    }
                }
                prop_assert_eq!(filters.interests.len(), model.len());
            }
            for topic in topics {
                let topic = format!("{prefix}{topic}");
                let mut shards = ShardSet::default();
                filters.find_everywhere(&topic, &mut Vec::new(), &mut shards);
                let is_match = |text: &str| {
                    TopicFilter::parse(text).is_some_and(|filter| filter.matches(&topic))
                };
                let matching = model.iter().filter(|(_, text)| is_match(text));
                let expected: BTreeSet<u16> = matching.map(|&(shard, _)| shard).collect();
                let found: BTreeSet<u16> = shards.map(|shard| shard.0).collect();
                prop_assert_eq!(found, expected, "{}", topic);
            }
            for (shard, text) in model {
                filters.remove_shard(&text, ShardId(shard));
            }
            prop_assert_eq!((filters.interests.len(), filters.shapes()), (0, 0));
        }
    }

    /// Loses a shard. Between two slices of what is to be forgotten, others want more and less.
    fn forget(filters: &mut Filters, shard: u16, model: &mut BTreeSet<(u16, String)>) {
        let node = shard..shard + 1;
        filters.gone.extend(node.clone().map(ShardId));
        model.retain(|&(other, _)| other != shard);
        let (mut at, mut other) = (InterestsAt::default(), 9);
        while filters.forget_interests_at(&mut at).is_some() {
            other += 1;
            filters.add_shard("b/+/b", ShardId(other));
            filters.remove_shard("b/+/b", ShardId(other));
            if let Some((shard, text)) = model.pop_last() {
                filters.remove_shard(&text, ShardId(shard));
            }
        }
        filters.have_forgotten(&node);
    }

    /// Of two filters that others cannot tell from each other, one stays wanted when the other is
    /// not any more, and that is told when neither is.
    #[test]
    fn what_has_the_key_of_a_filter_that_is_wanted_stays_told() {
        let mut filters = Filters::new(ShardId(0), 2, 7, SharePolicy::default());
        for end in ["", "/+"] {
            let pair = pair_of_one_key(&filters, end);
            let mut records = Records::default();
            for (session, text) in pair.iter().enumerate() {
                let name: Name<'_> = TopicFilter::parse(text).unwrap().into();
                let subscriber = Subscriber::new(
                    SessionKey(session as u32),
                    SubscriptionOptions::default(),
                    None,
                );
                filters.subscribe(name, None, Who::default(), subscriber, 0, &mut records);
            }
            let mut gone = || {
                let record = filters.take_record(&mut records, 0);
                filters.unsubscribe(record).1
            };
            assert_eq!(gone(), None, "{pair:?}");
            assert!(matches!(gone(), Some(News::Interest(_))), "{pair:?}");
        }
    }

    /// Two texts whose keys are the same, which of so many some are. Without wildcards they are not
    /// of one shape.
    fn pair_of_one_key(filters: &Filters, end: &str) -> [String; 2] {
        let levels = |at: u32| if end.is_empty() { 1 + at % 4 } else { 1 };
        let text = |at: u32| format!("{}{at}{end}", "key/".repeat(levels(at) as usize));
        let mut keys: Vec<(Key, u32)> = Vec::with_capacity(1_000_000);
        for at in 0..1_000_000 {
            keys.push((Key::of(filters.hash_of(&text(at))), at));
        }
        keys.sort_unstable();
        let are_same = |pair: &&[(Key, u32)]| {
            let [(key, at), (other_key, other)] = pair[..] else { return false };
            key == other_key && (!end.is_empty() || levels(at) != levels(other))
        };
        let same = keys.windows(2).find(are_same).expect("a pair of one key");
        [text(same[0].1), text(same[1].1)]
    }

    /// So many that hashes begin alike.
    #[test]
    fn among_thousands_of_one_shape_each_topic_finds_its_own() {
        let mut filters = Filters::new(ShardId(0), 1, 7, SharePolicy::default());
        let mut records = Records::default();
        for at in 0..3_000 {
            for text in [format!("a/{at}/+"), format!("a/{at}/b/#")] {
                let subscriber =
                    Subscriber::new(SessionKey(at), SubscriptionOptions::default(), None);
                let parsed = TopicFilter::parse(&text).unwrap();
                filters.subscribe(parsed.into(), None, Who::default(), subscriber, 0, &mut records);
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

    fn remove(filters: &mut Filters, records: &mut [Records], session: usize, at: usize) {
        let record = filters.take_record(&mut records[session], at);
        let (moved, _) = filters.unsubscribe(record);
        if let Some(moved) = moved {
            records[moved.0 as usize].moved(record);
        }
    }
}
