//! A SUBSCRIBE or UNSUBSCRIBE with more filters than one input may handle: the rest waits in its
//! connection, and what the client sent behind it waits unread.

use super::Shard;
use super::connection::{ConnSerial, Connection};
use super::delivery::version_of;
use super::slices::Work;
use super::subscribe::Common;
use crate::keys::Micros;
use crate::sink::Sink;
use weir_wire::PacketId;
use weir_wire::packet::{SubscribeFilters, UnsubscribeFilters};

/// The rest of a packet.
#[derive(Debug)]
pub(super) enum Parked {
    Subscribe {
        rest: Rest,
        /// What its properties say.
        common: Common,
        /// Which of those that await other shards it is: the answer comes when both are done.
        ticket: u32,
    },
    Unsubscribe {
        rest: Rest,
        packet_id: PacketId,
        codes: Vec<u8>,
    },
}

/// Filters that are still to be handled.
#[derive(Debug)]
pub(super) struct Rest {
    encoded: Box<[u8]>,
    /// Bytes of it that are done.
    done: usize,
}

impl Rest {
    pub(super) fn new(encoded: &[u8]) -> Self {
        Self { encoded: encoded.into(), done: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.encoded[self.done..]
    }

    /// Says whether there are more.
    fn keep(&mut self, rest_bytes: usize) -> bool {
        self.done = self.encoded.len() - rest_bytes;
        rest_bytes > 0
    }
}

/// Steps of one filter of a SUBSCRIBE or UNSUBSCRIBE.
pub(super) fn filter_steps(text: &str) -> u64 {
    16 + text.len() as u64 / 32
}

impl Shard {
    /// The rest of the packet waits for its turn.
    pub(super) fn park(&mut self, conn: ConnSerial, parked: Box<Parked>, now: Micros) {
        let live = self.connection_mut(conn.conn).and_then(Connection::live_mut);
        if let Some(live) = live {
            live.extra().parked = Some(parked);
            self.slices.put_off(Work::Filters(conn), now);
        }
    }

    /// The turn of a connection's filters has come.
    pub(super) fn go_on_with_filters(
        &mut self,
        conn: ConnSerial,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if !self.is_there(conn) {
            return;
        }
        let Some(session) = self.session_of(conn.conn) else { return };
        let Some(connection) = self.connection_mut(conn.conn) else { return };
        // It would be heard of, were it read.
        connection.heard(now);
        let Some(mut parked) = connection.take_parked() else { return };
        let version = version_of(&self.sessions[session.0 as usize]);
        let has_more = match &mut *parked {
            Parked::Subscribe { rest, common, ticket } => {
                let mut filters = SubscribeFilters::new(version, rest.bytes());
                self.subscribe_more(session, *ticket, &mut filters, common, sink);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
            Parked::Unsubscribe { rest, codes, .. } => {
                let mut filters = UnsubscribeFilters::new(rest.bytes());
                self.unsubscribe_some(session, &mut filters, codes, sink);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
        };
        if has_more {
            return self.park(conn, parked, now);
        }
        match *parked {
            Parked::Subscribe { ticket, .. } => self.is_read_to_end(ticket, now, sink),
            Parked::Unsubscribe { packet_id, codes, .. } => {
                self.answer_unsubscribe(conn.conn, version, packet_id, &codes, sink);
            }
        }
        sink.hold(conn.conn, false);
    }

    /// The connection is gone: what is subscribed to is so for good, and the rest is not.
    pub(super) fn unpark(&mut self, parked: &Parked, now: Micros, sink: &mut impl Sink) {
        if let Parked::Subscribe { ticket, .. } = parked {
            self.is_read_to_end(*ticket, now, sink);
        }
    }
}
