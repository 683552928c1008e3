//! What a topic's message goes to on one shard, in memory that is kept from message to message.

use super::{FilterId, Filters, Subscriber};
use crate::message::Delivery;
use crate::shard_set::ShardSet;

/// The filters that a topic matches, and their subscribers.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    pub(crate) filters: Vec<FilterId>,
    pub(crate) subscribers: Vec<Subscriber>,
    /// Other shards that may have clients for it, beside shared subscriptions.
    pub(crate) shards: ShardSet,
    /// Only several lists can bring one session twice.
    pub(crate) is_one_list: bool,
    /// There may be groups, or lists with a condition.
    pub(crate) has_lists_beside: bool,
}

impl Matched {
    /// Looks for the filters of a topic, and for other shards that want it. Those that have not
    /// said what they want may do.
    pub(crate) fn find_everywhere(&mut self, filters: &Filters, topic: &str) {
        self.filters.clear();
        self.shards = filters.unlisted;
        filters.find_everywhere(topic, &mut self.filters, &mut self.shards);
    }

    /// Looks for the filters of a topic.
    #[inline]
    pub(crate) fn find(&mut self, filters: &Filters, topic: &str) {
        self.filters.clear();
        filters.find(topic, &mut self.filters);
    }

    /// Gathers the subscribers of the filters found, those with a condition if it holds.
    #[inline]
    pub(crate) fn collect(&mut self, filters: &mut Filters, delivery: &Delivery<'_>) {
        self.subscribers.clear();
        self.has_lists_beside = false;
        for &id in &self.filters {
            let filter = filters.get(id);
            self.subscribers.extend_from_slice(&filter.subscribers);
            self.has_lists_beside |= filter.has_lists_beside();
        }
        let mut lists = self.filters.len();
        // What has no condition pays nothing for those that have.
        if self.has_lists_beside && !filters.conditions.is_empty() {
            lists = filters.add_filtered(&self.filters, &delivery.content(), &mut self.subscribers);
        }
        self.is_one_list = lists == 1;
    }

    /// Steps of having looked for them, and of serving them.
    pub(crate) fn steps(&self, filters: &Filters) -> u64 {
        (filters.shapes() + self.filters.len() + self.subscribers.len()) as u64
    }
}
