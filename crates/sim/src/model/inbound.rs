//! Packets that a shard consumed.

use super::{Model, OutStep, Owed, Unreleased};
use crate::message::Message;
use crate::names::{ConnNo, SessionNo};
use crate::topics;
use weir_wire::packet::{Ack, Packet, Publish};
use weir_wire::{PacketId, PacketKind, Property, QoS, ReasonCode};

impl Model {
    /// A shard consumed a packet of a client.
    pub fn consumed(&mut self, conn: ConnNo, packet: &Packet<'_>) {
        if let Packet::Connect(connect) = packet {
            return self.connect(conn, connect);
        }
        let Some(session) = self.conns[conn.0].session else { return };
        match packet {
            Packet::Publish(publish) => self.publish_in(conn, session, publish),
            Packet::PubAck(ack) => self.done(session, ack),
            Packet::PubRec(ack) => self.pubrec_in(session, ack),
            Packet::PubComp(ack) => self.done(session, ack),
            Packet::PubRel(ack) => {
                let packet_id = ack.packet_id.value();
                let noted = self.sessions[session.0].unreleased.remove(&packet_id);
                self.owe(conn, PacketKind::PubComp, packet_id, noted.is_some());
            }
            Packet::Subscribe(subscribe) => {
                let filters = subscribe
                    .filters()
                    .filter_map(|(text, options)| Some((topics::filter(text)?, options)));
                let places = filters
                    .map(|(text, options)| self.subscribe(conn, session, text, options))
                    .collect();
                let packet_id = subscribe.packet_id.value();
                self.conns[conn.0].subscribes.insert(packet_id, places);
                self.owe(conn, PacketKind::SubAck, packet_id, true);
            }
            Packet::Unsubscribe(unsubscribe) => {
                let before = self.session(session).subscriptions.len();
                unsubscribe.filters().for_each(|text| self.unsubscribe(session, text));
                let is_changed = self.session(session).subscriptions.len() < before;
                self.owe(conn, PacketKind::UnsubAck, unsubscribe.packet_id.value(), is_changed);
            }
            Packet::PingReq => self.owe(conn, PacketKind::PingResp, 0, false),
            Packet::Disconnect(disconnect) => {
                let expiry = disconnect.properties.find(|property| match property {
                    Property::SessionExpiryInterval(seconds) => Some(seconds),
                    _ => None,
                });
                let session = &mut self.sessions[session.0];
                session.expiry_s = expiry.unwrap_or(session.expiry_s);
                self.disconnect(conn, disconnect.reason != ReasonCode::Success);
            }
            _ => {}
        }
    }

    fn owe(&mut self, conn: ConnNo, kind: PacketKind, packet_id: u16, is_changed: bool) {
        let promises = self.change(conn, is_changed);
        self.conns[conn.0].owed.push_back(Owed { kind, packet_id, intake: None, promises });
    }

    /// When a session changed, if the change is to outlive a crash.
    fn change(&mut self, conn: ConnNo, is_changed: bool) -> Option<u64> {
        let at = self.tick();
        let session = self.conns[conn.0].session?;
        (is_changed && self.session(session).expiry_s > 0).then_some(at)
    }

    /// A PUBLISH was not taken: what comes with its identifier is a new message.
    pub(crate) fn refuse(&mut self, conn: ConnNo, packet_id: u16, intake: Option<usize>) {
        if let Some(session) = self.conns[conn.0].session {
            self.sessions[session.0].unreleased.remove(&packet_id);
        }
        if let Some(intake) = intake {
            self.refuse_intake(intake);
        }
    }

    fn publish_in(&mut self, conn: ConnNo, session: SessionNo, publish: &Publish<'_>) {
        let packet_id = publish.packet_id.map_or(0, PacketId::value);
        let is_exact = publish.qos == QoS::ExactlyOnce;
        let noted = self.sessions[session.0].unreleased.get(&packet_id).filter(|_| is_exact);
        let noted = noted.copied();
        let message = Message::number(publish.payload).or_else(|| self.clearing(publish.topic));
        let intake = match (message, noted) {
            // [MQTT-4.3.3-10]: what its answer says, it says of the first time.
            (_, Some(Unreleased { intake, is_doubtful: false })) => intake,
            (Some(message), Some(_)) => {
                let intake = self.take_in(message, Some(session));
                let its = self.retains.iter_mut().filter(|it| it.intake == Some(intake));
                its.for_each(|retain| retain.is_doubtful = true);
                None
            }
            (Some(message), None) => Some(self.take_in(message, Some(session))),
            (None, _) => None,
        };
        if is_exact {
            let unreleased = noted.unwrap_or(Unreleased { intake, is_doubtful: false });
            self.sessions[session.0].unreleased.insert(packet_id, unreleased);
        }
        let owed = match publish.qos {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => PacketKind::PubAck,
            QoS::ExactlyOnce => PacketKind::PubRec,
        };
        let promises = self.change(conn, is_exact && noted.is_none());
        self.conns[conn.0].owed.push_back(Owed { kind: owed, packet_id, intake, promises });
    }

    /// Any message that clears the topic's retained one: all are the same.
    fn clearing(&self, topic: &str) -> Option<crate::names::MessageNo> {
        let is_clearing = |message: &Message| message.is_empty && message.topic == topic;
        self.messages.iter().position(is_clearing).map(crate::names::MessageNo)
    }

    /// PUBACK, PUBCOMP, or PUBREC with an error.
    fn done(&mut self, session: SessionNo, ack: &Ack<'_>) {
        self.sessions[session.0].out.remove(&ack.packet_id.value());
    }

    fn pubrec_in(&mut self, session: SessionNo, ack: &Ack<'_>) {
        if ack.reason.is_error() {
            return self.done(session, ack);
        }
        if let Some(out) = self.sessions[session.0].out.get_mut(&ack.packet_id.value()) {
            out.step = OutStep::PubComp;
        }
    }
}
