//! What waited for the log leaves, see [`super::exact`].

use super::Shard;
use super::outlet::{Outlet, alias_for, alias_sent, drop_notice, send, shape_of};
use crate::encoder::Shape;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::message::Delivery;
use crate::record::Record;
use crate::sink::Sink;
use weir_wire::PacketId;

impl Shard {
    /// The delivery is committed.
    pub(super) fn send_held(
        &mut self,
        conn: ConnKey,
        packet_id: PacketId,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(live) = self.connections.live_mut(conn) else { return };
        live.cold().publishes_held -= 1;
        let session = live.session;
        self.outlet().send_held(session, packet_id, now, sink);
    }
}

impl Outlet<'_> {
    fn send_held(
        &mut self,
        key: SessionKey,
        packet_id: PacketId,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Self { clients, connections, encoder, log, stats, .. } = self;
        let session = &mut clients[key];
        let Some(attachment) = session.attachment else { return };
        // A client that answers what it was not sent has no use for it.
        let Some(queued) = session.window.kept(packet_id).cloned() else { return };
        let mut delivery = Delivery::from_message(&queued.message, None);
        let alias = alias_for(connections, &attachment, delivery.topic);
        let shape = Shape { alias, ..shape_of(&queued, attachment, false) };
        encoder.begin();
        let packet = encoder.encode(&delivery, shape, now);
        if packet.len() > attachment.packet_bytes_max as usize {
            // It was to have an alias that is another topic's by now.
            session.window.give_up(packet_id);
            log.append_of(key, |session| Record::Done { session, packet_id }, sink);
            stats.dropped_too_large += 1;
            return drop_notice(session, &queued.message.topic, "over Maximum Packet Size", sink);
        }
        stats.sent(queued.qos);
        send(packet, Some(packet_id), false, attachment.conn, &mut delivery, sink);
        alias_sent(connections, &attachment, delivery.topic, alias);
    }
}
