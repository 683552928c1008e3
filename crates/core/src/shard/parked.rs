//! A SUBSCRIBE or UNSUBSCRIBE with more filters than one input may handle: the rest waits in its
//! connection, and what the client sent behind it waits unread.

use super::Shard;
use super::connection::Connection;
use super::rest::{Parked, ParkedPacket};
use super::slices::Work;
use super::unsubscribe::unsuback;
use crate::answers::Reply;
use crate::keys::Ticket;
use crate::keys::{ConnKey, Micros};
use crate::sink::Sink;
use weir_wire::packet::{SubscribeFilters, UnsubscribeFilters};

impl Shard {
    /// The rest of the packet waits for its turn.
    pub(super) fn park(&mut self, conn: ConnKey, parked: Box<Parked>, now: Micros) {
        let Self { connections, slices, .. } = self;
        let connection = connections.get_mut(conn);
        if let Some(live) = connection.and_then(Connection::live_mut) {
            slices.put_off(Work::Filters(parked.ticket), now);
            live.cold().parked = Some(parked);
        }
    }

    /// The turn of a packet's filters has come.
    pub(super) fn go_on_with_filters(&mut self, ticket: Ticket, now: Micros, sink: &mut impl Sink) {
        let Some(conn) = self.answers.get(ticket).and_then(|answer| answer.conn) else { return };
        let Some(session) = self.connections.session(conn) else { return };
        let Some(connection) = self.connections.get_mut(conn) else { return };
        // It would be heard of, were it read.
        connection.heard(now);
        let Some(mut parked) = connection.take_parked() else { return };
        let version = self.clients[session].version();
        let Parked { rest, packet, .. } = &mut *parked;
        let has_more = match packet {
            ParkedPacket::Subscribe { common } => {
                let mut filters = SubscribeFilters::new(version, rest.bytes());
                self.subscribe_more(session, ticket, &mut filters, common, sink);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
            ParkedPacket::Unsubscribe { codes, .. } => {
                let mut filters = UnsubscribeFilters::new(rest.bytes());
                self.unsubscribe_some(session, &mut filters, codes, sink);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
        };
        if has_more {
            return self.park(conn, parked, now);
        }
        if let ParkedPacket::Unsubscribe { packet_id, codes } = &parked.packet
            && let Some(Reply::Packet(bytes)) = self.answers.reply_mut(ticket)
        {
            *bytes = unsuback(version, *packet_id, codes).into();
        }
        self.met(ticket, now, sink);
        if self.connections.get_mut(conn).is_some() {
            sink.resume(conn);
        }
    }
}
