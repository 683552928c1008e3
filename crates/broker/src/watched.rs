//! What a shard looks at of packets while somebody wants to know: traces, and who sends most.
//!
//! The shell has one of these or none, so that one check decides whether it looks at all.

use crate::top::Top;
use crate::trace::Traces;
use weir_core::{ConnKey, Message};

#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) traces: Traces,
    pub(crate) top: Option<Top>,
}

impl Watched {
    /// Whether there is nothing to look for any more.
    pub(crate) fn is_over(&self) -> bool {
        self.top.is_none() && !self.traces.go_on()
    }

    /// A packet, or several, for a client.
    #[cold]
    pub(crate) fn sent(&mut self, conn: ConnKey, bytes: &[u8]) {
        if let Some(top) = &mut self.top {
            top.sent(conn, bytes);
        }
        self.traces.sent(conn, bytes);
    }

    /// A PUBLISH for a client.
    #[cold]
    pub(crate) fn sent_publish(&mut self, conn: ConnKey, bytes: &[u8], topic: &str) {
        if let Some(top) = &mut self.top {
            top.sent_publish(conn, bytes.len());
        }
        self.traces.sent_publish(conn, bytes, 0, topic);
    }

    /// A PUBLISH for a client, of which the payload is that of the message.
    #[cold]
    pub(crate) fn sent_publish_of(&mut self, conn: ConnKey, head: &[u8], message: &Message) {
        if let Some(top) = &mut self.top {
            top.sent_publish(conn, head.len() + message.payload.len());
        }
        self.traces.sent_publish_of(conn, head, message);
    }
}
