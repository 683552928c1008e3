//! Where a shell has its shard say which clients have come and gone.

use super::{Guard, Output};
use weir_core::{ConnKey, NotPublished, Notice, Shard};

impl Guard {
    pub(super) fn events_dropped(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.dropped)
    }

    /// The connection goes to another shard, or is over: whose it was.
    pub(super) fn forget_user(&mut self, conn: ConnKey) -> Option<Box<str>> {
        self.events.as_mut()?.forget(conn)
    }
}

impl Output<'_> {
    /// Keeps a notice for the end of the turn, if it is of a client that has come or gone.
    pub(super) fn note_event(&mut self, notice: &Notice<'_>) {
        let now = self.now();
        let Some(events) = &mut self.guard.events else { return };
        let (Notice::Connected { conn, .. }
        | Notice::Left { conn, .. }
        | Notice::Ended { conn, .. }) = *notice
        else {
            return;
        };
        let (log, io) = (&self.guard.log, &mut *self.io);
        events.note(notice, self.guard.auth.user(conn), || log.peer_of(conn, io), now);
    }

    /// Publishes what was kept.
    pub(super) fn publish_events(&mut self, shard: &mut Shard) {
        while let Some(event) = self.guard.events.as_mut().and_then(|events| events.take()) {
            let payload = event.payload(shard.client(event.client_id()).as_ref());
            let topic = self.guard.events.as_ref().map(|events| events.topic(&event));
            let message = (&*topic.unwrap_or_default(), payload.as_bytes());
            let published = shard.publish_sys(message, false, self.now(), self);
            let Some(events) = &mut self.guard.events else { return };
            match published {
                Ok(()) => {}
                Err(NotPublished::Refused(..)) => events.drop_one(),
                // Until the partition has moved.
                Err(NotPublished::Busy) => return events.put_back(event),
            }
        }
    }
}
