//! What other shards want, and what they are told of this one.

use crate::keys::{Origin, SessionKey, ShardId};
use crate::mail::Mail;
use crate::name::Name;
use crate::routing::filters::{Filters, News};
use crate::routing::group::Member;
use crate::routing::lists::FilterId;
use crate::shares::Part;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

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

    /// Nobody of the shards that are gone gets what the filter at a place finds.
    pub(crate) fn forget_at(&mut self, at: usize) {
        let id = FilterId(at as u32);
        if self.filters.get(at).is_none_or(|filter| filter.cold.is_none()) {
            return;
        }
        self.leave_gone(id);
        let cold = self.filters[at].cold.as_ref();
        let groups: Vec<usize> =
            cold.into_iter().flat_map(|cold| &cold.groups).map(|(group, _)| group).collect();
        for group in groups {
            self.drop_group_if_empty(id, group);
        }
        self.drop_if_unused(id);
    }

    /// The same for whoever is about to choose among the members of its groups.
    pub(crate) fn leave_gone(&mut self, id: FilterId) {
        let Self { filters, gone, .. } = self;
        if gone.is_empty() {
            return;
        }
        filters[id.at()].change_cold(|cold| {
            cold.shards.retain(|&shard| !gone.contains(shard));
            cold.groups.iter_mut().for_each(|(_, group)| group.leave_all(gone));
        });
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
        let id = self.id_or_insert(TopicFilter { group: None, filter }, Some(Origin::OTHER_SHARDS));
        let shards = &mut self.filters[id.0 as usize].cold().shards;
        if !shards.contains(&shard) {
            shards.push(shard);
        }
    }

    /// Another shard has no subscription to `filter` any more.
    pub(crate) fn remove_shard(&mut self, filter: &str, shard: ShardId) {
        let Some(id) = self.id(filter) else { return };
        let entry = &mut self.filters[id.0 as usize];
        entry.change_cold(|cold| cold.shards.retain(|&other| other != shard));
        self.drop_if_unused(id);
    }
}
