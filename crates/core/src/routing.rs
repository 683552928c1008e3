//! Which sessions, groups and shards a topic goes to.

mod brought;
mod deep;
mod elsewhere;
mod filtered;
mod filters;
mod group;
mod interests;
mod lists;
mod matched;
mod records;
mod segments;
mod shape;
mod weigh;
mod wildcards;

pub(crate) use filters::{Filters, News, Picks, Subscribed, Who};
pub(crate) use group::{Group, HOPS_MAX, Picked};
pub(crate) use interests::{INTEREST_BYTES, InterestsAt};
pub(crate) use lists::{FilterId, SubscriptionRecord};
pub(crate) use matched::Matched;
pub(crate) use records::{NONE as NO_RECORDS, Records};

use crate::keys::SessionKey;
use weir_wire::QoS;
use weir_wire::packet::SubscriptionOptions;

/// Whether a group's member can take a message: the later, the rather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It takes no packet of this size, or may not read it.
    TooLarge,
    /// It is absent, and the message would be refused.
    AbsentFull,
    /// It is connected, and the message would be refused rather than wait in its queue.
    Full,
    /// Its session waits for it.
    Absent,
    /// The message would have to wait in its queue.
    Busy,
    /// It would be sent at once.
    Ready,
}

impl Standing {
    pub(crate) fn is_connected(self) -> bool {
        !matches!(self, Self::TooLarge | Self::AbsentFull | Self::Absent)
    }
}

/// One subscription, as delivery needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) session: SessionKey,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    /// 0 is none.
    pub(crate) subscription_id: u32,
}

impl Subscriber {
    pub(crate) fn new(
        session: SessionKey,
        options: SubscriptionOptions,
        subscription_id: Option<u32>,
    ) -> Self {
        Self {
            session,
            qos: options.qos,
            no_local: options.no_local,
            retain_as_published: options.retain_as_published,
            subscription_id: subscription_id.unwrap_or(0),
        }
    }
}
