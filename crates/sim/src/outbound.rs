//! Packets that a shard wrote: checked, and entered into the books.

use crate::check;
use crate::finding::Checker;
use crate::message::Message;
use crate::model::{Copy, Model};
use crate::names::ConnNo;
use crate::topics;
use weir_wire::packet::{Packet, Publish};
use weir_wire::{PacketId, PacketKind, Property};

impl Model {
    /// A shard wrote a packet to a client.
    pub fn wrote(&mut self, conn: ConnNo, packet: &Packet<'_>) {
        self.tick();
        check::lifetime::wrote(self, conn, packet);
        match packet {
            Packet::ConnAck(connack) => {
                check::session::connack(self, conn, connack);
                self.promise_session(conn);
            }
            Packet::Publish(publish) => self.publish_out(conn, publish),
            Packet::PubRel(ack) => {
                check::answers::pubrel(self, conn, ack.packet_id.value());
                check::in_flight::pubrel(self, conn, ack.packet_id.value());
            }
            Packet::PubAck(ack) => self.acked(conn, PacketKind::PubAck, ack),
            Packet::PubRec(ack) => self.acked(conn, PacketKind::PubRec, ack),
            Packet::PubComp(ack) => {
                check::answers::answered(self, conn, PacketKind::PubComp, ack.packet_id.value());
            }
            Packet::SubAck(suback) => {
                let packet_id = suback.packet_id.value();
                check::answers::answered(self, conn, PacketKind::SubAck, packet_id);
                let places = self.conns[conn.0].subscribes.remove(&packet_id).unwrap_or_default();
                check::answers::codes(self, &places, suback.codes);
                let at = self.tick();
                places.into_iter().for_each(|place| self.effective(place, at));
            }
            Packet::UnsubAck(unsuback) => {
                let packet_id = unsuback.packet_id.value();
                check::answers::answered(self, conn, PacketKind::UnsubAck, packet_id);
            }
            Packet::PingResp => {
                check::answers::ponged(self, conn);
            }
            Packet::Disconnect(_) => {}
            other => {
                let what = format!("a server does not send {other:?}");
                self.fail(Checker::Answers, what);
            }
        }
    }

    /// PUBACK or PUBREC: the broker has the message, or says why not.
    fn acked(&mut self, conn: ConnNo, kind: PacketKind, ack: &weir_wire::packet::Ack<'_>) {
        let packet_id = ack.packet_id.value();
        if ack.reason.is_error() {
            if let Some(intake) = check::answers::refused(self, conn, kind, packet_id) {
                self.refuse(conn, packet_id, intake);
            }
            return;
        }
        if let Some(Some(intake)) = check::answers::answered(self, conn, kind, packet_id) {
            let at = self.tick();
            let intake = &mut self.recent.intakes[intake];
            (intake.is_acked, intake.acked_at) = (true, Some(at));
        }
    }

    fn publish_out(&mut self, conn: ConnNo, publish: &Publish<'_>) {
        let Some(session) = self.conns[conn.0].session else { return };
        let topic = self.topic_of(conn, publish);
        let message = Message::number(publish.payload);
        if message.is_none() && !publish.payload.is_empty() {
            let text = String::from_utf8_lossy(publish.payload);
            self.fail(Checker::Duplication, format!("nobody published {text:?}"));
        }
        if let Some(number) = message {
            let known = self.message(number);
            if topic != Some(known.topic) || publish.qos > known.qos {
                let what = format!("m{} came as {publish:?}", number.0);
                self.fail(Checker::Duplication, what);
            }
        }
        check::in_flight::publish(self, conn, session, message, publish);
        let Some(message) = message else { return };
        let packet_id = publish.packet_id.map_or(0, PacketId::value);
        // One that waited for the log may be sent for the first time as if again.
        let is_new = self.sent.insert((session, packet_id, message));
        if publish.dup && !is_new {
            return;
        }
        check::expiry::copy(self, conn, message, publish);
        let (retain, qos, at) = (publish.retain, publish.qos, self.at);
        self.recent.copies.push(Copy { session, message, retain, qos, at });
    }

    /// The topic, by name or alias.
    fn topic_of(&mut self, conn: ConnNo, publish: &Publish<'_>) -> Option<&'static str> {
        let alias = publish.properties.find(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        });
        let topic = topics::topic(publish.topic);
        let maximum = self.conns[conn.0].aliases_max;
        if alias.is_some_and(|alias| alias == 0 || alias > maximum) {
            // [MQTT-3.3.2-8], [MQTT-3.1.2-26]
            let what = format!("connection {}: topic alias {alias:?} of {maximum}", conn.0);
            self.fail(Checker::InFlight, what);
        }
        let aliases = &mut self.conns[conn.0].aliases;
        match (alias, topic) {
            (None, topic) => topic,
            (Some(alias), Some(topic)) => {
                aliases.insert(alias, topic);
                Some(topic)
            }
            (Some(alias), None) => aliases.get(&alias).copied(),
        }
    }
}
