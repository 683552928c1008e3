//! What waits for a session.

use crate::message::Queued;
use std::collections::VecDeque;

/// Deliveries that wait for the window, the socket or the client.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) deliveries: VecDeque<Queued>,
    pub(crate) bytes: u64,
    /// Whether the client was absent since the queue was last empty.
    pub(crate) is_from_absence: bool,
}
