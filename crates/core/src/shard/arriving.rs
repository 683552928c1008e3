//! Clients whose CONNACK waits until the log has what it says of their sessions.
//!
//! Such a client's connection has its session, keep alive and will, and ends as any other. But
//! nothing is sent to it before the CONNACK, and nothing more is read from it. For whoever
//! publishes it is still absent: what comes at QoS 1 and 2 waits in its queue.

use super::Shard;
use crate::answers::Reply;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::session::Attachment;
use crate::sink::Sink;

/// Steps of a delivery that is sent with its CONNACK.
const DELIVERY_STEPS: u64 = 4;

impl Shard {
    /// Says CONNACK, now or when all that the CONNECT has recorded outlives a crash.
    pub(super) fn greet(
        &mut self,
        session: SessionKey,
        attachment: Attachment,
        connack: Vec<u8>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if self.log.logged().is_none() {
            return self.greet_now(session, attachment, &connack, now, sink);
        }
        let conn = attachment.conn;
        self.arriving.insert(session, attachment);
        let ticket = self.insert_answer(Some(conn), Reply::ConnAck(connack.into()), 0, now);
        self.hold(conn, ticket);
        if let Some(live) = self.connections.live_mut(conn) {
            live.cold().is_paused = true;
        }
    }

    /// The CONNACK that waited leaves.
    pub(super) fn greet_arrived(
        &mut self,
        conn: ConnKey,
        connack: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(session) = self.connections.session(conn) else { return };
        let Some(attachment) = self.arriving.remove(&session) else { return };
        // What came meanwhile came in its absence.
        self.clients[session].note_absence();
        self.greet_now(session, attachment, connack, now, sink);
        // One commit can free many, each with all that its window takes.
        let sent = self.clients[session].window.open();
        self.slices.add(u64::from(sent) * DELIVERY_STEPS);
    }

    fn greet_now(
        &mut self,
        session: SessionKey,
        attachment: Attachment,
        connack: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.clients[session].attachment = Some(attachment);
        self.tell_presence(session, sink);
        sink.write(attachment.conn, connack);
        self.pump(session, now, sink);
    }

    /// The connection of a session, whether its CONNACK has left or waits.
    pub(super) fn connection_of(&self, session: SessionKey) -> Option<ConnKey> {
        let attachment = self.clients[session].attachment.as_ref();
        attachment.or_else(|| self.arriving.get(&session)).map(|attachment| attachment.conn)
    }
}
