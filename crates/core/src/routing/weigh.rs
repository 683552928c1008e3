//! What a session's subscriptions cost others: shapes of filters, and bytes.

use crate::keys::Origin;
use crate::name::Name;
use crate::routing::filters::Filters;
use crate::routing::lists::{List, SubscriptionRecord};
use crate::routing::records::{Records, ShapeKey, Weight};
use crate::routing::shape::is_wildcard;
use weir_wire::topic::TopicFilter;

impl Filters {
    /// Whether a session may have a subscription of this name, with so many shapes at most.
    pub(crate) fn has_shape_for(&self, name: Name<'_>, records: &Records, max: u32) -> bool {
        let TopicFilter { group, filter } = name.topic;
        let Some(key) = self.wildcards.shape_key(filter, group) else { return true };
        records.has_room_for(key, max as usize, |record| self.shape_of(record))
    }

    /// Whether a client from this address may have this filter, whose shape others may have: as
    /// `has_room` says, see [`crate::routing::wildcards::Wildcards::may_bring`].
    pub(crate) fn may_bring(
        &self,
        filter: &str,
        address: Option<Origin>,
        has_room: impl FnOnce(u64, u64) -> bool,
    ) -> bool {
        !is_wildcard(filter) || self.wildcards.may_bring(filter, address, has_room)
    }

    /// Bytes of the names and conditions of a session's subscriptions.
    pub(crate) fn bytes_of(&self, records: &Records) -> usize {
        records.bytes(|record| self.bytes_of_one(record))
    }

    pub(super) fn weigh(&self, record: &SubscriptionRecord) -> Weight {
        Weight { shape: self.shape_of(record), bytes: self.bytes_of_one(record) }
    }

    fn bytes_of_one(&self, record: &SubscriptionRecord) -> usize {
        let entry = self.get(record.filter);
        let beside = match record.list() {
            List::Plain => 0,
            List::Group(at) => entry.group(at).share.len(),
            List::Filtered(at) => self.conditions.text(entry.filtered_at(at).condition).len(),
        };
        entry.text.as_bytes().len() + beside
    }

    fn shape_of(&self, record: &SubscriptionRecord) -> ShapeKey {
        let entry = self.get(record.filter);
        let group = match record.list() {
            List::Group(at) => Some(entry.group(at).name()),
            List::Plain | List::Filtered(_) => None,
        };
        self.wildcards.shape_key(&entry.text, group)
    }
}
