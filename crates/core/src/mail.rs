//! What shards of one broker say to each other.

use crate::Message;
use std::sync::Arc;

/// One letter. Letters between two shards keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mail {
    /// The sender has its first subscription to `filter`, and wants to know when that is noted.
    Interest {
        /// A topic filter without `$share`.
        filter: Box<str>,
        /// Comes back in [`Mail::InterestNoted`].
        ticket: u32,
    },
    /// The interest with this ticket is in force at the sender.
    InterestNoted {
        /// As in [`Mail::Interest`].
        ticket: u32,
    },
    /// The sender has no subscription to `filter` any more.
    InterestGone {
        /// As in [`Mail::Interest`].
        filter: Box<str>,
    },
    /// A message for the receiver's own subscribers.
    Publish {
        /// The message.
        message: Arc<Message>,
    },
}
