//! What a membership tells, and what it asks.

use crate::agreement::{Ask, Ticket};
use crate::records::{Incarnation, Node};
use crate::slot::Slot;
use weir_core::PartitionSet;

/// Where questions and events go.
pub trait MembersSink {
    /// To the agreement.
    fn ask(&mut self, ticket: Ticket, ask: Ask);

    /// To whom the node is.
    fn tell(&mut self, event: Event);
}

/// All of it, for whoever looks at it afterwards.
#[derive(Debug, Default)]
pub struct Collected {
    /// What was asked.
    pub asks: Vec<(Ticket, Ask)>,
    /// What was told.
    pub events: Vec<Event>,
}

impl MembersSink for Collected {
    fn ask(&mut self, ticket: Ticket, ask: Ask) {
        self.asks.push((ticket, ask));
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node has taken its place. It may act when [`Event::Unfenced`] follows.
    Seated(Node),
    /// Another node is a member.
    Joined(Node),
    /// Another node's lease has ended, or it has a new one.
    Lost {
        /// Its slot.
        slot: Slot,
        /// Which of its memberships has ended.
        incarnation: Incarnation,
    },
    /// These partitions have another home or a new epoch, which `Members::table` has, or none.
    Moved(PartitionSet),
    /// The node is to give these partitions away: once it does not act for them any more, it calls
    /// `Members::released`.
    Release {
        /// Names this event.
        number: u64,
        /// What is given away.
        partitions: PartitionSet,
    },
    /// The node may not act: its lease may end, or has ended.
    Fenced,
    /// The node may act for the partitions it is home to.
    Unfenced,
    /// For a log.
    Notice(Notice),
}

/// Something that an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// Its writer is not of this program, or of another version.
    #[error("the record {key} cannot be read and is ignored; delete it if no node has written it")]
    Garbled {
        /// The key.
        key: String,
    },
    /// It may be this node, before it started again.
    #[error(
        "a node of this name is a member already, at {address}; waiting until its lease has ended"
    )]
    NameTaken {
        /// Where it is.
        address: String,
    },
    /// Another node has opened the copy of this one's log.
    #[error("another node takes this node's sessions over; waiting until it has them")]
    IsServed,
    /// There is no slot, or no range of shard ids, left.
    #[error("no place in the cluster is left; forget nodes that will not come back")]
    Full,
}

/// Counters, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that could not be read.
    pub garbled: u64,
    /// Things said that nobody waited for any more.
    pub late: u64,
    /// Questions without an answer.
    pub unavailable: u64,
    /// Writes that another node's came before.
    pub differed: u64,
}

/// Why a node cannot be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotForgotten {
    /// It is a member.
    #[error("the node is a member of the cluster; stop it first")]
    IsMember,
    /// It has no place.
    #[error("the cluster knows no node of this name")]
    Unknown,
    /// This node is no member, or is writing something else.
    #[error("this node cannot write now; try again")]
    Busy,
}
