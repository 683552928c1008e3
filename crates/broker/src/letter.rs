//! What the shards' threads get from other threads.
//!
//! Other threads that are no shards have a kind of their own, and what such a thread gets is a type
//! of its own, as the control thread's is.

use crate::admission::Pass;
use crate::auth::access::Answered;
use crate::auth::hasher::Checked;
use crate::journal::{Flushed, Paged, Waiting};
use crate::listener::Certified;
use crate::log::Peer;
use std::ops::Range;
use weir_control::Request;
use weir_core::{LogMail, Mail, Parcel, ShardId};
use weir_reactor::{ListenerId, Moved};

/// A connection between two threads.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) moved: Moved,
    /// Its count among all, if it is still held.
    pub(crate) pass: Option<Pass>,
    /// Where its peer is, if its CONNECT is not answered yet or the system does not know.
    pub(crate) peer: Option<Peer>,
    /// The user that its peer has shown to be, if its CONNECT is not answered yet.
    pub(crate) name: Option<Box<str>>,
    /// What it has shown of certificates.
    pub(crate) certified: Option<Certified>,
    /// The listener that it came in by.
    pub(crate) by: ListenerId,
    /// How many reloads its sender went by.
    pub(crate) reloads: u32,
    /// Whose it is, where events say it when it goes.
    pub(crate) user: Option<Box<str>>,
    /// Whether it is the process itself that connects.
    pub(crate) is_own: bool,
}

impl Carried {
    /// One of the process itself.
    pub(crate) fn own(moved: Moved) -> Self {
        let (pass, peer, name, certified, user) = (None, None, None, None, None);
        let by = ListenerId(0);
        Self { moved, pass, peer, name, certified, by, user, reloads: 0, is_own: true }
    }
}

/// What shards are told of another node, by its shards.
#[derive(Clone, Debug)]
pub(crate) enum NodeNews {
    /// It is there.
    Joined(Range<u16>),
    /// It is there, and serves the sessions of a lost one that these shards have not known.
    StandInJoined(Range<u16>),
    /// It is not there any more.
    Lost(Range<u16>),
    /// It was away, and is there with what it had: itself, or another in its place.
    Replaced(Range<u16>),
    /// This node has become a member, or is one again, and does not know yet what all others have;
    /// or it does.
    Joining(bool),
    /// Some node is away with sessions that nobody serves, and clients wait for these; or none is.
    Absent(bool),
    /// This node is a member again, as another one, and numbers from here on.
    Again(u64),
    /// This node is cut off from its cluster, and serves its own clients.
    CutOff,
    /// It is not, and is to be a member again: what comes next is of other nodes.
    Returning,
    /// Another node serves what this one had of sessions: they are void here.
    Void,
    /// This node serves the sessions of a lost one, which these shards have for the moment: they
    /// are to be this node's own.
    Adopt(Range<u16>),
    /// They are, or nothing more comes of it.
    AdoptNoMore(Range<u16>),
    /// To the shards of a stand-in: this node, which has started it, is to have all sessions.
    Offer(Range<u16>),
    /// The log is to be copied to another node.
    CopyTo(CopyBegun),
    /// There is no copy of this name any more; without one, there is none at all.
    CopyEnds(Option<u64>),
}

/// A copy that begins.
#[derive(Clone, Debug)]
pub(crate) struct CopyBegun {
    /// The shards of the node that keeps it.
    pub(crate) to: Range<u16>,
    /// What names it.
    pub(crate) copy: u64,
    pub(crate) waiting: Waiting,
}

/// What has become of the copy of a shard's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyNews {
    /// All of it is at the other node.
    Whole,
    /// The other's disk takes no more.
    Failed,
}

#[derive(Debug)]
pub(crate) enum Letter {
    /// From shard to shard.
    Mail(Mail),
    /// To a shard of another node: to the post.
    Far(ShardId, Mail),
    /// From a shard of another node: from the post.
    Near(ShardId, Mail),
    /// Of another node: from the post.
    Node(NodeNews),
    /// So many shards of other nodes have told the sender all that they have: to the post.
    Lists(usize),
    /// The sender has so many sessions that outlive their connections: to the post of a stand-in.
    Sessions(usize),
    /// Of the copy of the sender's log that has this name: to the post.
    Copy(u64, CopyNews),
    /// To the shard of another node whose log it is: from the thread that has the copy.
    Kept(ShardId, LogMail),
    /// A connection whose client the receiver owns. Its CONNECT is unread, with what came behind.
    Connection(Carried),
    /// A session whose partition the receiver is to hold, or a client that was let in, with its
    /// connection if there is one.
    Parcel(Box<(Parcel, Option<Carried>)>),
    /// The control thread wants to know or to have done something.
    Ask(Request),
    /// The thread that has the shard's disk has done something.
    Flushed(Box<Flushed>),
    /// The thread that has the pages of queues has done something.
    Paged(Box<Paged>),
    /// The thread that hashes passwords has looked at one.
    Checked(Checked),
    /// A token was checked, or the authentication service has answered.
    Answered(Box<Answered>),
}

impl Letter {
    /// Bytes that it holds, or that its receiver will keep of it. A session on its way was there
    /// before.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Mail(mail) => mail.bytes(),
            Self::Connection(carried) => carried.moved.bytes(),
            // Of those that come from other nodes or go there, the links bound what waits.
            Self::Far(..)
            | Self::Near(..)
            | Self::Parcel(_)
            | Self::Node(_)
            | Self::Lists(_)
            | Self::Sessions(_)
            | Self::Copy(..)
            | Self::Kept(..)
            | Self::Ask(_)
            | Self::Flushed(_)
            | Self::Paged(_)
            | Self::Checked(_)
            | Self::Answered(_) => 0,
        }
    }
}

impl From<Flushed> for Letter {
    fn from(flushed: Flushed) -> Self {
        Self::Flushed(Box::new(flushed))
    }
}

impl From<Paged> for Letter {
    fn from(paged: Paged) -> Self {
        Self::Paged(Box::new(paged))
    }
}

impl From<Checked> for Letter {
    fn from(checked: Checked) -> Self {
        Self::Checked(checked)
    }
}

impl From<Answered> for Letter {
    fn from(answered: Answered) -> Self {
        Self::Answered(Box::new(answered))
    }
}
