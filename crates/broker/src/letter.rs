//! What threads of the broker send each other.

use crate::gate::Pass;
use std::os::fd::OwnedFd;
use weir_core::Mail;

#[derive(Debug)]
pub(crate) enum Letter {
    /// From shard to shard.
    Mail(Mail),
    /// A connection whose client the receiver owns.
    Connection(Passed),
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
