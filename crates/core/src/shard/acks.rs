//! PUBACK, PUBREC, PUBREL and PUBCOMP from a client.

use super::Shard;
use super::connection::Refusal;
use crate::keys::{Micros, SessionKey};
use crate::record::Record;
use crate::sink::Sink;
use crate::window::{Acked, DeliveryState};
use weir_wire::packet::Ack;
use weir_wire::{PacketId, PacketKind, Properties, ReasonCode};

impl Shard {
    /// An identifier we do not know is a late answer to a session long gone: not an error.
    pub(super) fn on_puback(
        &mut self,
        key: SessionKey,
        ack: &Ack<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.finish(key, ack.packet_id, DeliveryState::AwaitPubAck, now, sink)
    }

    pub(super) fn on_pubrec(
        &mut self,
        key: SessionKey,
        ack: &Ack<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        if ack.reason.is_error() {
            // The receiver refuses: the exchange is over.
            return self.finish(key, ack.packet_id, DeliveryState::AwaitPubRec, now, sink);
        }
        self.begin_answer();
        let is_known = match self.clients[key].window.received(ack.packet_id) {
            Acked::Open => {
                let packet_id = ack.packet_id;
                self.log.append_of(key, |session| Record::Received { session, packet_id }, sink);
                true
            }
            Acked::Unknown => false,
            Acked::OtherKind => return Err(other_kind()),
        };
        self.answer(key, ack.packet_id, PacketKind::PubRel, is_known, now, sink);
        Ok(())
    }

    pub(super) fn on_pubrel(
        &mut self,
        key: SessionKey,
        ack: &Ack<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.begin_answer();
        let packet_id = ack.packet_id;
        let is_known = self.clients[key].release(packet_id);
        if is_known {
            // Otherwise the next message with this identifier would be taken for this one.
            self.log.append_of(key, |session| Record::Released { session, packet_id }, sink);
        }
        self.answer(key, ack.packet_id, PacketKind::PubComp, is_known, now, sink);
    }

    pub(super) fn on_pubcomp(
        &mut self,
        key: SessionKey,
        ack: &Ack<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.finish(key, ack.packet_id, DeliveryState::AwaitPubComp, now, sink)
    }

    /// A delivery is done: what waits for its place in the window may follow.
    #[inline]
    fn finish(
        &mut self,
        key: SessionKey,
        packet_id: PacketId,
        state: DeliveryState,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let session = &mut self.clients[key];
        match session.window.finish(packet_id, state) {
            Acked::Open => {
                self.log.append_of(key, |session| Record::Done { session, packet_id }, sink);
            }
            Acked::Unknown => return Ok(()),
            Acked::OtherKind => return Err(other_kind()),
        }
        let waits = !session.queue_is_empty() || session.has_replays();
        if session.window.is_owing() || waits {
            self.pump(key, now, sink);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        key: SessionKey,
        packet_id: PacketId,
        kind: PacketKind,
        is_known: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let session = &self.clients[key];
        let Some(attachment) = session.attachment else { return };
        if is_known || !attachment.version.is_v5() {
            return self.reply_logged(attachment.conn, &plain_ack(kind, packet_id), now, sink);
        }
        let reason = ReasonCode::PacketIdentifierNotFound;
        let mut bytes = Vec::new();
        let ack = Ack { packet_id, reason, properties: Properties::EMPTY };
        ack.encode(kind, attachment.version, &mut bytes);
        self.reply(attachment.conn, &bytes, now, sink);
    }
}

/// The delivery keeps its place until it is acknowledged as its QoS says (sections 4.3.2 and
/// 4.3.3), so this cannot be left alone.
#[cold]
fn other_kind() -> Refusal {
    Refusal::protocol("an acknowledgement of another kind than the message waits for")
}

/// An acknowledgement without a reason, as all are in good order.
pub(super) fn plain_ack(kind: PacketKind, packet_id: PacketId) -> [u8; 4] {
    let [high, low] = packet_id.value().to_be_bytes();
    [kind.first_byte(), 2, high, low]
}
