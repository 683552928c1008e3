//! What the nodes of a cluster say to each other, as values: no I/O, clock, thread or lock.

mod frame;
mod link;
mod slot;

pub use frame::{Entries, Frame, FrameError, Hello, NAME_BYTES_MAX, State, slot_of};
pub use link::{Inbox, Link, LinkCounts, LinkError, LinkSettings, Peer, Pushed};
pub use slot::{SLOTS, Slot};
