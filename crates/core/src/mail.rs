//! What shards of one broker say to each other.

mod log;
mod sessions;

pub use log::LogMail;
pub use sessions::{SessionMail, SessionPart};

use crate::keys::Version;
use crate::partitions::{Partition, PartitionSet};
use crate::{Lsn, Message, ShardId, Ticket};
use smallvec::SmallVec;
use std::sync::Arc;

/// One letter. Letters between two shards keep their order.
///
/// A letter that an answer to a client waits for has a number: a SUBACK goes out when every shard
/// has noted its filters, a PUBACK when the message is with every shard that it is for. The
/// receiver answers all letters up to a number with one [`Mail::Receipt`], which excepts those that
/// wait for its log, or for a third shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mail {
    /// The sender has its first subscription to `filter` beside shared ones.
    Interest {
        /// A topic filter without `$share`.
        filter: Arc<str>,
        /// Comes back in [`Mail::Receipt`].
        number: u64,
    },
    /// The sender has no subscription to `filter` any more beside shared ones.
    InterestGone {
        /// As in [`Mail::Interest`].
        filter: Arc<str>,
    },
    /// The sender has a member of a shared subscription.
    Joined {
        /// The whole topic filter, `$share/{name}/{filter}`.
        share: Arc<str>,
        /// A hash of the member's client identifier.
        member: u64,
        /// Bytes of a packet that it takes; nothing while it is absent.
        packet_bytes_max: Option<u32>,
        /// Comes back in [`Mail::Receipt`].
        number: u64,
    },
    /// The member of a shared subscription came back, or is absent with a session that is kept.
    Presence {
        /// As in [`Mail::Joined`].
        share: Arc<str>,
        /// As in [`Mail::Joined`].
        member: u64,
        /// As in [`Mail::Joined`].
        packet_bytes_max: Option<u32>,
    },
    /// The sender has this member no more.
    Left {
        /// As in [`Mail::Joined`].
        share: Arc<str>,
        /// As in [`Mail::Joined`].
        member: u64,
    },
    /// What letters up to this number said is in force at the sender, but for those that are
    /// pending.
    Receipt {
        /// The last number that came.
        number: u64,
        /// Letters that came since the last receipt and wait for something, in their order. A later
        /// receipt says that they are done.
        pending: Box<[u64]>,
        /// Letters that were pending, and are in force by now.
        done: Box<[u64]>,
        /// The last number that the sender gave a message for each shard to retain, in the order
        /// of shards, see [`crate::Stamp`]; empty where that is not wanted.
        retains: Box<[u64]>,
        /// Memory is short at the sender: it may refuse messages.
        is_short: bool,
    },
    /// A message: one letter a message and shard, however many receivers it has there.
    Publish {
        /// The message.
        message: Arc<Message>,
        /// Whether it is for the receiver's subscribers, beside those of shared subscriptions.
        to_subscribers: bool,
        /// The members of shared subscriptions that the sender chose at the receiver. Whoever
        /// routes a message chooses for every group, so the receiver serves no other.
        picks: SmallVec<[GroupPick; 1]>,
        /// Comes back in [`Mail::Receipt`], if the publisher waits for an acknowledgement, or if it
        /// is mailed to another node.
        number: Option<u64>,
        /// Its name in the sender's log, if that has it and whom it is for: then it is taken
        /// whatever memory there is. Within a node [`Mail::Kept`] follows.
        mailed: Option<Lsn>,
    },
    /// All messages that the receiver mailed to the sender up to this one outlive a crash there.
    Kept {
        /// As in [`Mail::Publish`].
        number: Lsn,
    },
    /// The sender had no room for a message whose publisher waits for an acknowledgement: nobody
    /// got it there. It comes before the receipt.
    Refused {
        /// Of the message.
        topic: Box<str>,
        /// As in [`Mail::Publish`].
        number: u64,
        /// What there was no room for, as a part of a sentence.
        detail: &'static str,
    },
    /// A message for a topic that the receiver owns, to be retained; one without payload clears.
    /// The sender mails it before any other letter that the message takes.
    Retain {
        /// The message; it has a [`crate::Stamp`].
        message: Arc<Message>,
        /// Comes back in [`Mail::Retained`], if the publisher waits for an acknowledgement.
        ticket: Option<Ticket>,
    },
    /// What became of it.
    Retained {
        /// As in [`Mail::Retain`].
        ticket: Ticket,
        /// Why it is not kept, if it is not.
        refused: Option<NotRetained>,
    },
    /// The sender wants retained messages of topics that the receiver owns.
    RetainedQuery(RetainedQuery),
    /// The answer.
    RetainedPage(RetainedPage),
    /// The sender takes no input of connections and is at rest: all that it mailed before has left.
    /// Who gets one does as the sender, see `shard/freeze.rs`.
    Marker {
        /// From 1 in each freeze.
        round: u32,
    },
    /// To the shard that leads the freeze: the sender has the markers of all others.
    Rested {
        /// Whether it had work since its own marker.
        is_busy: bool,
    },
    /// No letter is on its way: a partition goes from the shard that holds it to another.
    Move {
        /// Which.
        partition: Partition,
        /// The shard that holds it from now on.
        to: ShardId,
    },
    /// Retained messages of a partition that moves to the receiver.
    MovedRetained {
        /// They have been retained by the sender.
        messages: Vec<Arc<Message>>,
    },
    /// A retained message that the sender's node keeps, for the receiver's to keep as well; one
    /// without payload clears the topic.
    Copy {
        /// The message.
        message: Arc<Message>,
        /// Of it among the topic's.
        version: Version,
        /// Comes back in [`Mail::Receipt`], if the publisher waits for an acknowledgement.
        number: Option<u64>,
    },
    /// The sender begins to tell the receiver, which is of another node, of all that there is.
    Listing {
        /// Messages that it publishes as retained from now on have higher numbers.
        number: u64,
    },
    /// It has told all of it.
    Listed {
        /// The number of the last message of each shard that had come to the sender: whatever of
        /// them is retained has been copied.
        received: Box<[u64]>,
    },
    /// About a client's session, to or from another node.
    Session(SessionMail),
    /// About the copy of a log at another node. It is for whoever has the disks, and no shard takes
    /// it.
    Log(LogMail),
    /// The partition has moved: input is taken again.
    Thaw,
    /// It is.
    Thawed,
}

impl Mail {
    /// Whether it is about what clients do, or a partition that moves; not about the freeze itself.
    pub(crate) fn is_work(&self) -> bool {
        let is_about_freeze =
            matches!(self, Self::Marker { .. } | Self::Rested { .. } | Self::Thaw | Self::Thawed);
        // What a receipt is for is waited for before a shard is at rest.
        !is_about_freeze && !matches!(self, Self::Receipt { .. })
    }

    /// The lowest version of letters ([`Mail::VERSION`]) that knows of it.
    pub fn version(&self) -> u8 {
        match self {
            Self::Log(_) | Self::Session(SessionMail::Closing | SessionMail::Stays { .. }) => 3,
            _ => Self::VERSION_MIN,
        }
    }

    /// Bytes that it holds, or that its receiver will keep of it, but for a few of its own.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Interest { filter, .. } | Self::InterestGone { filter } => filter.len(),
            Self::Joined { share, .. } => share.len(),
            Self::Refused { topic, .. } => topic.len(),
            Self::Publish { message, .. }
            | Self::Retain { message, .. }
            | Self::Copy { message, .. } => {
                message.bytes() as usize
            }
            Self::RetainedQuery(query) => query.filter.len(),
            Self::Session(mail) => mail.bytes(),
            Self::Log(mail) => mail.bytes(),
            Self::RetainedPage(page) => {
                page.messages.iter().map(|message| message.bytes() as usize).sum()
            }
            Self::Presence { .. }
            | Self::Left { .. }
            | Self::Receipt { .. }
            | Self::Retained { .. }
            | Self::Kept { .. }
            | Self::Listing { .. }
            | Self::Listed { .. }
            // What moves was there before.
            | Self::Marker { .. }
            | Self::Rested { .. }
            | Self::Move { .. }
            | Self::MovedRetained { .. }
            | Self::Thaw
            | Self::Thawed => 0,
        }
    }
}

/// Why a message is not retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRetained {
    /// There is no room for anybody's.
    Full,
    /// Its publisher has its share of all that may be retained.
    ShareTaken,
}

impl NotRetained {
    /// In words.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Full => "the retained store is full",
            Self::ShareTaken => "this client, or its address, has its share of the retained store",
        }
    }
}

/// Which retained messages are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedQuery {
    /// A topic filter without `$share`.
    pub filter: Box<str>,
    /// Only topics behind this one.
    pub after: Option<Box<str>>,
    /// Only topics of these partitions; nothing is all that the receiver holds.
    pub partitions: Option<Box<PartitionSet>>,
    /// So many messages at most.
    pub messages_max: u32,
    /// The number of the last message of each shard that has to have come to the receiver before
    /// it answers: the sender has seen, or been told of, these.
    pub needed: Box<[u64]>,
    /// Comes back in the answer.
    pub ticket: Ticket,
}

/// Some retained messages, in the order of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedPage {
    /// They match the filter.
    pub messages: Vec<Arc<Message>>,
    /// The topic to ask on behind; nothing if that was all.
    pub next: Option<Box<str>>,
    /// The number of the last message of each shard that had come to the sender.
    pub received: Box<[u64]>,
    /// As in [`RetainedQuery`].
    pub ticket: Ticket,
}

/// The member that a message is for, one of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPick {
    /// As in [`Mail::Joined`].
    pub share: Arc<str>,
    /// As in [`Mail::Joined`].
    pub member: u64,
    /// What a sticky choice hangs on, in case it has to be made again.
    pub key: u64,
    /// How often it was made again.
    pub hops: u8,
}
