//! The retained messages that a new subscription is still to get.
//!
//! They stay in their owners' stores until the session can take them: owners are asked for a page
//! at a time. Meanwhile the subscriber gets new messages as they are published. So that it gets
//! each message once, and no old one after a newer one:
//!
//! - No page is older than what its subscriber's shard has seen: the owner answers when it has
//!   received all that the asking shard knew of ([`crate::retained::Stamps::needed`]). When every
//!   shard has noted a subscription, it says as well what it has sent to owners by then. So what
//!   was published too early to come live is on a page.
//! - What was published after all shards had noted it comes live: its number is higher than what
//!   was seen by then, and it is left out of the page. What came live while they were noting it is
//!   remembered, and left out as well.
//! - What comes live while a page is on its way, and had not come to the owner when it answered,
//!   is newer than the page: its topic is left out.

use crate::name::Name;
use crate::retained::Stamp;
use std::collections::VecDeque;
use weir_wire::topic::TopicFilter;

/// A session's replays in turn; boxed there, as few sessions have any.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    pub(crate) in_turn: VecDeque<Replay>,
}

/// One subscription's way through the stores.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Names it in answers that may come too late; never given again.
    pub(crate) id: u64,
    /// Its topic filter. What QoS and identifier it has is looked up when a page comes: it may
    /// have been subscribed to again, or not at all any more.
    pub(crate) filter: Box<str>,
    /// The condition in its name, as it is encoded there.
    encoded: Option<Box<str>>,
    pub(crate) step: Step,
    /// The number of owners whose stores are through.
    pub(crate) owners_done: u16,
    /// The last topic that is through in the present owner's store.
    pub(crate) after: Option<Box<str>>,
    /// What was seen of each shard when all had noted the subscription.
    seen: Box<[u64]>,
    /// What came live before that.
    early: Vec<Stamp>,
}

/// Where a replay stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The other shards are told of the subscription.
    Telling,
    /// Goes on when the session has room.
    Ready,
    /// An owner has been asked for a page.
    Asked,
}

impl Replay {
    /// For a subscription that is not shared.
    pub(crate) fn new(id: u64, name: Name<'_>) -> Self {
        Self {
            id,
            filter: name.topic.filter.into(),
            encoded: name.encoded.map(Into::into),
            step: Step::Telling,
            owners_done: 0,
            after: None,
            seen: Box::default(),
            early: Vec::new(),
        }
    }

    /// What the subscription is called.
    pub(crate) fn name(&self) -> Name<'_> {
        let topic = TopicFilter { group: None, filter: &self.filter };
        Name { topic, encoded: self.encoded.as_deref() }
    }

    /// All shards have noted the subscription.
    pub(crate) fn begin(&mut self, seen: Box<[u64]>, early: Vec<Stamp>) {
        self.step = Step::Ready;
        self.seen = seen;
        self.early = early;
    }

    /// Whether the subscriber has not had this message live, and will not have it.
    pub(crate) fn is_due(&self, stamp: Stamp) -> bool {
        let seen = self.seen.get(usize::from(stamp.shard.0));
        seen.is_some_and(|&seen| stamp.number <= seen) && !self.early.contains(&stamp)
    }
}
