//! Content-filtered subscriptions to one topic filter: those of one condition stand together, so
//! that a message is checked once for all of them, and passes them by at once.

use super::Subscriber;
use super::filters::{Filter, Filters};
use super::group::Group;
use super::lists::{FilterId, Filtered, List, SubscriptionRecord};
use crate::conditions::{Charges, ConditionId, Holder};
use crate::content::Content;
use crate::few::Few;
use crate::mail::GroupPick;
use crate::name::FILTER_PREFIX;
use smallvec::SmallVec;

impl Filter {
    fn filtered_or_insert(&mut self, condition: ConditionId, encoded: Option<&str>) -> usize {
        let lists = &mut self.cold().filtered;
        let is_same =
            |list: &Filtered| list.condition == condition && list.encoded.as_deref() == encoded;
        if let Some((at, _)) = lists.iter().find(|(_, list)| is_same(list)) {
            return at;
        }
        let encoded = encoded.map(Into::into);
        lists.insert(Filtered { condition, encoded, subscribers: Few::default() })
    }

    /// Adds everybody who has one of its conditions.
    fn charge(&self, charges: &mut Charges) {
        for list in self.filtered() {
            for subscriber in &*list.subscribers {
                charges.add(Holder::Here(subscriber.session), list.condition);
            }
        }
        self.groups().for_each(|group| group.charge(charges));
    }
}

impl Filters {
    /// The list of a new subscription to the filter that is not shared. What it does not need of
    /// `condition` is given back.
    pub(super) fn list_for(
        &mut self,
        id: FilterId,
        condition: Option<ConditionId>,
        encoded: Option<&str>,
    ) -> List {
        let Some(condition) = condition else { return List::Plain };
        let entry = self.get_mut(id);
        let at = entry.filtered_or_insert(condition, encoded);
        if !entry.cold().filtered[at].subscribers.is_empty() {
            self.conditions.release(condition);
        }
        List::Filtered(at)
    }

    /// Gives a group its condition, unless it has it. It may have been known from other shards,
    /// while there was no room for its condition here.
    pub(super) fn give_condition(
        &mut self,
        id: FilterId,
        group: usize,
        condition: Option<ConditionId>,
    ) {
        let Some(condition) = condition else { return };
        let group = self.get_mut(id).group_mut(group);
        if group.condition.is_some() {
            self.conditions.release(condition);
        } else {
            group.condition = Some(condition);
        }
    }

    /// Forgets a list without subscribers.
    pub(super) fn drop_filtered_if_empty(&mut self, id: FilterId, at: usize) {
        let entry = self.get_mut(id);
        let list = &entry.cold().filtered[at];
        if list.subscribers.is_empty() {
            let condition = list.condition;
            entry.change_cold(|cold| drop(cold.filtered.remove(at)));
            self.conditions.release(condition);
        }
    }

    /// Appends the subscribers of the `found` filters whose condition holds. Says how many lists
    /// of subscribers there are, those without a condition among them. Conditions of groups are
    /// asked for as well.
    pub(crate) fn add_filtered(
        &mut self,
        found: &[FilterId],
        content: &Content<'_>,
        targets: &mut Vec<Subscriber>,
    ) -> usize {
        let Self { filters, conditions, .. } = self;
        for id in found {
            let filter = &filters[id.at()];
            filter.filtered().for_each(|list| conditions.want(list.condition));
            filter.groups().filter_map(|group| group.condition).for_each(|id| conditions.want(id));
        }
        conditions.ask(content, |charges| {
            found.iter().for_each(|id| filters[id.at()].charge(charges));
        });
        let mut lists = 0;
        for id in found {
            let filter = &filters[id.at()];
            lists += usize::from(!filter.subscribers.is_empty());
            for list in filter.filtered() {
                if conditions.holds(list.condition) {
                    targets.extend_from_slice(&list.subscribers);
                    lists += 1;
                }
            }
        }
        lists
    }

    /// Asks for the conditions of groups that another shard chose members of, all at once.
    pub(crate) fn ask_picks(&mut self, picks: &[GroupPick], content: &Content<'_>) {
        if self.conditions.is_empty() {
            return;
        }
        let groups: SmallVec<[(FilterId, usize); 8]> =
            picks.iter().filter_map(|pick| self.group_of(&pick.share)).collect();
        let Self { filters, conditions, .. } = self;
        let group = |&(id, at): &(FilterId, usize)| filters[id.at()].group(at);
        groups.iter().filter_map(|key| group(key).condition).for_each(|id| conditions.want(id));
        conditions.ask(content, |charges| groups.iter().for_each(|key| group(key).charge(charges)));
    }

    /// The filter's groups that want the message, as far as their conditions are known here; they
    /// have been asked for.
    pub(crate) fn groups_wanting(&self, id: FilterId) -> impl Iterator<Item = &Group> {
        let wants = |group: &&Group| group.condition.is_none_or(|id| self.conditions.holds(id));
        self.get(id).groups().filter(wants)
    }

    /// The topics that the subscription of `record` is for.
    pub(crate) fn filter_of(&self, record: SubscriptionRecord) -> &str {
        &self.get(record.filter()).text
    }

    /// What the subscription of `record` is called, and the condition that came beside its name.
    pub(crate) fn named(&self, record: SubscriptionRecord) -> (Box<str>, Option<Box<str>>) {
        let entry = self.get(record.filter());
        let text = &*entry.text;
        match record.list() {
            List::Plain => (text.into(), None),
            List::Group(at) => ((*entry.group(at).share).into(), None),
            List::Filtered(at) => {
                let Filtered { condition, encoded, .. } = entry.filtered_at(at);
                match encoded {
                    Some(encoded) => (format!("{FILTER_PREFIX}{encoded}/{text}").into(), None),
                    None => (text.into(), Some(self.conditions.text(*condition).into())),
                }
            }
        }
    }

    /// Whether a session with these subscriptions may have one more with this condition: it has
    /// fewer than `max` distinct ones, or this one already.
    pub(crate) fn has_condition_for(
        &self,
        condition: ConditionId,
        records: &[SubscriptionRecord],
        max: usize,
    ) -> bool {
        if records.len() < max {
            return true;
        }
        let of = |&record: &SubscriptionRecord| self.any_condition(record);
        let mut known: Vec<ConditionId> = records.iter().filter_map(of).collect();
        known.sort_unstable();
        known.dedup();
        known.len() < max || known.binary_search(&condition).is_ok()
    }

    /// How often a message was not held against the one of these subscriptions' conditions that
    /// fared worst.
    pub(crate) fn left_out_of(&self, records: &[SubscriptionRecord]) -> u64 {
        let conditions = records.iter().filter_map(|&record| self.any_condition(record));
        conditions.map(|id| self.conditions.left_out_of(id)).max().unwrap_or(0)
    }

    /// The condition of `record`'s subscription, shared or not.
    fn any_condition(&self, record: SubscriptionRecord) -> Option<ConditionId> {
        match record.list() {
            List::Group(at) => self.get(record.filter()).group(at).condition,
            List::Plain | List::Filtered(_) => self.condition(record),
        }
    }

    /// The condition of `record`'s subscription, if it is not shared and has one.
    pub(crate) fn condition(&self, record: SubscriptionRecord) -> Option<ConditionId> {
        match record.list() {
            List::Filtered(at) => Some(self.get(record.filter()).filtered_at(at).condition),
            List::Plain | List::Group(_) => None,
        }
    }
}
