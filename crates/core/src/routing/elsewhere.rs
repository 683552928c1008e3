//! What other shards want, and what they are told of this one.

use crate::keys::{Origin, SessionKey, ShardId};
use crate::mail::Mail;
use crate::name::Name;
use crate::routing::deep::{DeepLevels, DeepShape};
use crate::routing::filters::{Filters, News};
use crate::routing::group::Member;
use crate::routing::interests::InterestsAt;
use crate::routing::lists::FilterId;
use crate::routing::segments::Key;
use crate::routing::shape::{Shape, hash, is_wildcard};
use crate::shard_set::ShardSet;
use crate::shares::Part;
use std::ops::Range;
use std::sync::Arc;

impl News {
    /// What another shard is told of what was gained. `packet_bytes_max` is what the member's
    /// client takes, if it is connected.
    pub(crate) fn into_mail(self, packet_bytes_max: Option<u32>, number: u64) -> Mail {
        match self {
            Self::Interest(filter) => Mail::Interest { filter, number },
            Self::Member(share, member) => Mail::Joined { share, member, packet_bytes_max, number },
        }
    }
}

impl Filters {
    /// There may be other shards to tell.
    pub(crate) fn set_others(&mut self) {
        self.has_others = true;
    }

    /// No filter is at such a place, or behind it.
    pub(crate) fn end(&self) -> usize {
        self.filters.end()
    }

    /// The place behind `at` to look at next.
    pub(crate) fn behind(&self, at: usize) -> usize {
        self.filters.skip_empty_page(at)
    }

    /// What another shard is to know of the filter at a place, with the session of each member.
    pub(crate) fn news_at(&self, at: usize) -> Vec<(News, Option<SessionKey>)> {
        let Some(filter) = self.filters.get(at) else { return Vec::new() };
        let interest =
            filter.is_wanted_here().then(|| (News::Interest((*filter.text).into()), None));
        let members = filter.groups().flat_map(|group| {
            let news = |member: &Member| News::Member(Arc::clone(&group.share), member.id);
            group.members.iter().map(move |member| (news(member), Some(member.subscriber.session)))
        });
        interest.into_iter().chain(members).collect()
    }

    /// No member of the shards that are gone gets what the filter at a place finds.
    pub(crate) fn forget_at(&mut self, at: usize) {
        let id = FilterId(at as u32);
        if self.filters.get(at).is_none_or(|filter| filter.cold.is_none()) {
            return;
        }
        self.leave_gone(id);
        self.drop_empty_at(at);
    }

    /// Groups of the filter at a place may have lost their last members.
    fn drop_empty_at(&mut self, at: usize) {
        let id = FilterId(at as u32);
        let cold = self.filters[at].cold.as_ref();
        let groups: Vec<usize> =
            cold.into_iter().flat_map(|cold| &cold.groups).map(|(group, _)| group).collect();
        for group in groups {
            self.drop_group_if_empty(id, group);
        }
        self.drop_if_unused(id);
    }

    /// Forgets what shards that are gone want, in the next piece of all that others want. Says how
    /// many entries it looked at; nothing at the end.
    pub(crate) fn forget_interests_at(&mut self, at: &mut InterestsAt) -> Option<usize> {
        self.interests.forget_at(at, &self.gone)
    }

    /// All has been forgotten of shards that were gone.
    pub(crate) fn have_forgotten(&mut self, node: &Range<u16>) {
        self.gone.remove_all(node);
        if self.gone.is_empty() {
            self.interests.tidy();
        }
    }

    /// As [`Filters::forget_at`], for whoever is about to choose among the members of its groups.
    pub(crate) fn leave_gone(&mut self, id: FilterId) {
        let Self { filters, gone, .. } = self;
        if gone.is_empty() {
            return;
        }
        if let Some(cold) = &mut filters[id.at()].cold {
            cold.groups.iter_mut().for_each(|(_, group)| group.leave_all(gone));
        }
    }

    /// Other shards are in the place of these, and have not said what they want. Members are there
    /// again if their sessions are.
    pub(crate) fn doubt(&mut self, node: &Range<u16>) {
        self.gone.extend(node.clone().map(ShardId));
        let mut at = InterestsAt::default();
        while self.forget_interests_at(&mut at).is_some() {}
        self.have_forgotten(node);
        let mut at = 0;
        while at < self.end() {
            if let Some(cold) = self.filters.get_mut(at).and_then(|it| it.cold.as_mut()) {
                cold.groups.iter_mut().for_each(|(_, group)| group.doubt(node));
            }
            at = self.behind(at);
        }
        self.unlisted.extend(node.clone().map(ShardId));
    }

    /// One of them has said all.
    #[cold]
    pub(crate) fn have_listed(&mut self, shard: ShardId) {
        self.unlisted.remove(shard);
        let mut at = 0;
        while at < self.end() {
            if let Some(cold) = self.filters.get_mut(at).and_then(|it| it.cold.as_mut()) {
                cold.groups.iter_mut().for_each(|(_, group)| group.leave_doubted(shard));
                self.drop_empty_at(at);
            }
            at = self.behind(at);
        }
    }

    /// Another shard has a member of a shared subscription. If its condition is not to be had here,
    /// that shard checks what it is sent.
    pub(crate) fn join(
        &mut self,
        share: &str,
        shard: ShardId,
        (member, packet_bytes_max): (u64, Option<u32>),
        has_room: impl FnOnce(Part, usize) -> bool,
    ) {
        let Some(parsed) = Name::parse(share) else { return };
        let Some(name) = parsed.topic.group else { return };
        // Other shards' clients have a share together.
        let origin = Some(Origin::OTHER_SHARDS);
        let id = self.id_or_insert(parsed.topic, origin);
        let at = self.filters[id.at()].group_or_insert(name, &self.share);
        if self.get(id).group(at).condition.is_none()
            && let Some(Ok(text)) = parsed.condition()
        {
            let condition = self.conditions.acquire(&text, origin, has_room).ok();
            self.give_condition(id, at, condition);
        }
        self.get_mut(id).group_mut(at).join(shard, member, packet_bytes_max);
    }

    /// Another shard's member of a shared subscription came back or is absent.
    pub(crate) fn set_presence(
        &mut self,
        share: &str,
        shard: ShardId,
        member: u64,
        packet_bytes_max: Option<u32>,
    ) {
        let Some((id, name)) = self.share(share) else { return };
        if let Some(group) = self.filters[id.0 as usize].group_of_name(name) {
            group.set_presence(shard, member, packet_bytes_max);
        }
    }

    /// Another shard has a member no more.
    pub(crate) fn leave(&mut self, share: &str, shard: ShardId, member: u64) {
        let Some((id, name)) = self.share(share) else { return };
        let entry = self.get_mut(id);
        if let Some(key) = entry.key_of_name(name) {
            entry.group_mut(key).leave(shard, member);
            self.drop_group_if_empty(id, key);
        }
        self.drop_if_unused(id);
    }

    /// Another shard has its first subscription to `filter`.
    pub(crate) fn add_shard(&mut self, filter: &str, shard: ShardId) {
        let key = Key::of(self.hash_of(filter));
        self.interests.add(filter, key, shard);
    }

    /// Another shard has no subscription to `filter` any more.
    pub(crate) fn remove_shard(&mut self, filter: &str, shard: ShardId) {
        let key = Key::of(self.hash_of(filter));
        let is_walked = !self.gone.is_empty();
        self.interests.remove(filter, (key, shard), is_walked);
    }

    /// The hash by which a filter is found among those with wildcards, or those without.
    pub(super) fn hash_of(&self, filter: &str) -> u64 {
        if is_wildcard(filter) {
            self.wildcards.hasher.hash_filter(filter)
        } else {
            hash(&self.hasher, filter.as_bytes())
        }
    }

    /// Whether another filter is wanted here that other shards cannot tell from this one.
    pub(super) fn is_wanted_by_key(&self, id: FilterId) -> bool {
        let text = &*self.get(id).text;
        let hash = self.hash_of(text);
        let has_same_key = |other: &str| Key::of(self.hash_of(other)) == Key::of(hash);
        let is_wanted_too = |&&other: &&FilterId| {
            let entry = self.get(other);
            other != id && entry.is_wanted_here() && has_same_key(&entry.text)
        };
        if is_wildcard(text) {
            let mut others = self.wildcards.table.iter_hash(hash).filter(is_wanted_too);
            others.any(|&other| has_same_shape(&self.get(other).text, text))
        } else {
            self.by_text.iter_hash(hash).any(|other| is_wanted_too(&other))
        }
    }

    /// As [`Filters::find`]; adds as well the other shards that have a filter which matches, or one
    /// that is not told apart from it.
    pub(crate) fn find_everywhere(
        &self,
        topic: &str,
        found: &mut Vec<FilterId>,
        shards: &mut ShardSet,
    ) {
        let Self { by_text, interests, hasher, .. } = self;
        if !by_text.is_empty() || interests.has_exact() {
            let hash = hash(hasher, topic.as_bytes());
            let same = |&id: &FilterId| self.get(id).text.as_bytes() == topic.as_bytes();
            found.extend(by_text.find(hash, same));
            interests.find_exact(Key::of(hash), shards);
        }
        if self.shapes() > 0 {
            self.find_by_shapes(topic, found, shards);
        }
    }

    /// Reads the levels of the topic once for what is wanted here and elsewhere.
    fn find_by_shapes(&self, topic: &str, found: &mut Vec<FilterId>, shards: &mut ShardSet) {
        let Self { wildcards, interests, .. } = self;
        let text = |id: FilterId| &self.get(id).text;
        let levels = wildcards.hasher.read(topic, wildcards.depth.max(interests.depth()));
        wildcards.probe(topic, &levels, &text, found);
        interests.probe(&wildcards.hasher, &levels, shards);
        if wildcards.has_deep() || interests.has_deep() {
            let Some(levels) = DeepLevels::read(&wildcards.hasher, topic) else { return };
            wildcards.probe_deep(topic, &levels, &text, found);
            interests.probe_deep(&wildcards.hasher, &levels, shards);
        }
    }
}

/// Whether two filters with wildcards have the same shape.
fn has_same_shape(one: &str, other: &str) -> bool {
    match (Shape::of(one), Shape::of(other)) {
        (None, None) => DeepShape::of(one) == DeepShape::of(other),
        (one, other) => one == other,
    }
}
