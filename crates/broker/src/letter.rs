//! What the shards' threads get from other threads.
//!
//! Other threads that are no shards will have a kind of their own: `Verdict` for the answer of an
//! authentication service, with the generation of the connection that it is for, and `Durable` for
//! the position up to which a log is committed. What such a thread gets is a type of its own, as
//! the control thread's is.

use crate::admission::Pass;
use weir_control::Request;
use weir_core::Mail;
use weir_reactor::Moved;

impl Letter {
    /// Bytes that it holds, or that its receiver will keep of it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Mail(mail) => mail.bytes(),
            Self::Connection { moved, .. } => moved.bytes(),
            Self::Ask(_) => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Letter {
    /// From shard to shard.
    Mail(Mail),
    /// A connection whose client the receiver owns. Its CONNECT is unread, with what came behind.
    Connection {
        moved: Moved,
        /// Its count among all, if it is still held.
        pass: Option<Pass>,
    },
    /// The control thread wants to know or to have done something.
    Ask(Request),
}
