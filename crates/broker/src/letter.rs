//! What the shards' threads get from other threads.
//!
//! Other threads that are no shards will have a kind of their own: `Verdict` for the answer of an
//! authentication service, with the generation of the connection that it is for, and `Durable` for
//! the position up to which a log is committed. What such a thread gets is a type of its own, as
//! the control thread's is.

use crate::gate::Pass;
use std::os::fd::OwnedFd;
use weir_control::Request;
use weir_core::Mail;

#[derive(Debug)]
pub(crate) enum Letter {
    /// From shard to shard.
    Mail(Mail),
    /// A connection whose client the receiver owns.
    Connection(Passed),
    /// The control thread wants to know or to have done something.
    Ask(Request),
}

/// A connection on its way.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) fd: OwnedFd,
    /// Read and not consumed: its CONNECT, and what came behind it.
    pub(crate) bytes: Vec<u8>,
    /// Its count among all, if it is still held.
    pub(crate) pass: Option<Pass>,
}
