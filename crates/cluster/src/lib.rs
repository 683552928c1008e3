//! What the nodes of a cluster agree on and tell each other, as values: input in, output into a
//! sink, `now` given. No socket, clock, thread, lock or source of randomness.
//!
//! [`Members`] is a node's membership: its lease, its place, and which node is home to which
//! partition. It asks an agreement ([`Ask`], [`Said`]): etcd, or [`Store`], which is one in memory.

mod agreement;
mod members;
mod memory;
mod records;
mod table;
mod view;

pub use agreement::{Ask, Cas, Change, Failure, LeaseId, Record, Revision, Said, Ticket};
pub use members::{
    BadSettings, Counts, Event, Members, MembersSettings, MembersSink, NotForgotten, Notice, Times,
};
pub use memory::{Asker, Heard, Store};
pub use records::{Incarnation, Node, Place, SLOTS, Slot};
pub use table::{Home, Table};
