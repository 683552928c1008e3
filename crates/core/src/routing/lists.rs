//! Where a subscription stands in the index: its filter, which of the filter's lists, and its place
//! there.

use super::Subscriber;
use crate::conditions::ConditionId;
use crate::few::Few;

/// A filter of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterId(pub(super) u32);

impl FilterId {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A session's own note of one subscription: where it stands in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionRecord {
    pub(super) filter: FilterId,
    pub(super) list: ListKey,
    /// Place among the subscribers or members.
    pub(super) position: u32,
}

impl SubscriptionRecord {
    pub(super) fn filter(self) -> FilterId {
        self.filter
    }

    pub(super) fn list(self) -> List {
        self.list.list()
    }
}

/// The subscribers of one topic filter with one condition, named in one way.
#[derive(Debug)]
pub(crate) struct Filtered {
    pub(super) condition: ConditionId,
    /// The condition as it stands in the subscription's name; nothing if it came beside it.
    pub(super) encoded: Option<Box<str>>,
    pub(super) subscribers: Few<Subscriber>,
}

/// Which of its filter's lists a subscription is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Plain,
    Group(usize),
    Filtered(usize),
}

/// A [`List`] in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListKey(u32);

impl From<List> for ListKey {
    fn from(list: List) -> Self {
        Self(match list {
            List::Plain => 0,
            List::Group(at) => at as u32 * 2 + 1,
            List::Filtered(at) => at as u32 * 2 + 2,
        })
    }
}

impl ListKey {
    pub(super) fn list(self) -> List {
        match self.0 {
            0 => List::Plain,
            key if key % 2 == 1 => List::Group(key as usize / 2),
            key => List::Filtered(key as usize / 2 - 1),
        }
    }
}
