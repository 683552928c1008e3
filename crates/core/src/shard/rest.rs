//! The rest of a SUBSCRIBE or UNSUBSCRIBE that is handled in slices, and what its properties say.

use crate::keys::Ticket;
use weir_wire::packet::Subscribe;
use weir_wire::{PacketId, Property, ReasonCode};

/// The user property of a SUBSCRIBE that holds a condition for its filters.
const CONDITION_PROPERTY: &str = "filter";

/// The rest of a packet. Its answer waits for it, among other things.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) ticket: Ticket,
    pub(super) rest: Rest,
    pub(super) packet: ParkedPacket,
}

/// Which packet it is.
#[derive(Debug)]
pub(super) enum ParkedPacket {
    Subscribe {
        /// What its properties say.
        common: Common,
    },
    Unsubscribe {
        packet_id: PacketId,
        codes: Vec<u8>,
    },
}

impl Parked {
    /// Of a packet whose filters have been checked.
    pub(super) fn new(ticket: Ticket, rest: &[u8], packet: ParkedPacket) -> Box<Self> {
        let rest = Rest { encoded: rest.into(), checked: rest.len(), count: 0, done: 0 };
        Box::new(Self { ticket, rest, packet })
    }

    /// Of one whose filters have not.
    pub(super) fn unchecked(ticket: Ticket, rest: &[u8], packet: ParkedPacket) -> Box<Self> {
        let rest = Rest { encoded: rest.into(), checked: 0, count: 0, done: 0 };
        Box::new(Self { ticket, rest, packet })
    }
}

/// Filters that are still to be handled.
#[derive(Debug)]
pub(super) struct Rest {
    encoded: Box<[u8]>,
    /// Bytes of it that are known to be well formed: all, before any is done.
    checked: usize,
    /// Filters that were found there.
    count: usize,
    /// Bytes of it that are done.
    done: usize,
}

impl Rest {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.encoded[self.done..]
    }

    pub(super) fn unchecked_bytes(&self) -> &[u8] {
        &self.encoded[self.checked..]
    }

    pub(super) fn is_checked(&self) -> bool {
        self.checked == self.encoded.len()
    }

    /// So many more filters have been checked, and all but so many bytes.
    pub(super) fn note_checked(&mut self, filters: usize, rest_bytes: usize) {
        self.count += filters;
        self.checked = self.encoded.len() - rest_bytes;
    }

    /// Filters of a packet that came in unchecked, once they are checked.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Says whether there are more.
    pub(super) fn keep(&mut self, rest_bytes: usize) -> bool {
        self.done = self.encoded.len() - rest_bytes;
        rest_bytes > 0
    }
}

/// Steps of one filter of a SUBSCRIBE or UNSUBSCRIBE.
pub(super) fn filter_steps(text: &str) -> u64 {
    16 + text.len() as u64 / 32
}

/// What the properties of a SUBSCRIBE say of all its filters.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) subscription_id: Option<u32>,
    pub(super) condition: Option<Box<str>>,
    /// Why it cannot be used.
    pub(super) unfit: Option<NotGranted>,
    /// More conditions than one.
    pub(super) has_several: bool,
}

impl Common {
    pub(super) fn of(subscribe: &Subscribe<'_>) -> Self {
        let mut common = Self::default();
        for property in subscribe.properties.iter() {
            match property {
                Property::SubscriptionIdentifier(id) => common.subscription_id = Some(id),
                Property::UserProperty(CONDITION_PROPERTY, text) => {
                    common.has_several = common.condition.replace(text.into()).is_some();
                }
                _ => {}
            }
        }
        common
    }
}

/// Why a filter is refused.
#[derive(Clone, Debug)]
pub(super) struct NotGranted {
    pub(super) reason: ReasonCode,
    /// In words, where it is about a condition.
    pub(super) detail: Box<str>,
}

impl From<ReasonCode> for NotGranted {
    fn from(reason: ReasonCode) -> Self {
        Self { reason, detail: Box::default() }
    }
}
