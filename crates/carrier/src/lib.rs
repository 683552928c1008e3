//! What carries frames between the nodes of a cluster, for the one thread of a node that has their
//! links.
//!
//! The thread gives itself to a [`Carrier`], turn by turn, and is told what has come as a [`Post`].
//! A carrier has connections and makes them again when they are lost. It knows no letters, and
//! promises no more than TCP does: what was sent on a connection that is lost may have come or not.
//! `weir-cluster`'s links make letters of it that come once.
//!
//! [`tcp`] has a connection with each node on the thread's own reactor. With the feature `zenoh`
//! there is another over Zenoh.

mod backoff;
mod port;
pub mod tcp;
#[cfg(feature = "zenoh")]
pub mod zenoh;

pub use port::{Carrier, Lost, NodeAddress, Outlet, Post};
