//! What the nodes of a cluster agree on and tell each other, as values: input in, output into a
//! sink, `now` given. No socket, clock, thread, lock or source of randomness.
//!
//! [`Members`] is a node's membership: its lease, its place, and which node is home to which
//! partition. It asks an agreement ([`Ask`], [`Said`]): etcd, or [`Store`], which is one in memory.
//! [`Link`] is what a node keeps of another: letters on their way to it, and how far it has taken
//! what came from there.

mod agreement;
mod frame;
mod link;
mod members;
mod memory;
mod records;
mod slot;
mod table;
mod view;

pub use agreement::{Ask, Cas, Change, Failure, LeaseId, Record, Revision, Said, Ticket};
pub use frame::{Entries, Frame, FrameError, Hello, NAME_BYTES_MAX, State, slot_of};
pub use link::{Inbox, Link, LinkCounts, LinkError, LinkSettings, Peer, Pushed};
pub use members::{
    BadSettings, Busy, Collected, Counts, Event, Members, MembersSettings, MembersSink,
    NotForgotten, NotOpened, Notice, Times,
};
pub use memory::{Asker, Heard, Store};
pub use records::{CopyState, FORMER_MAX, Incarnation, LogCopy, Node, Place, Seat};
pub use slot::{SLOTS, Slot};
pub use table::{Home, Table};
