//! MQTT by blocking sockets: a client for a test, and the other end of one.

use super::blocking::{Blocking, decode};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use weir_wire::packet::{Ack, ConnAck, Publish, SubAck};
use weir_wire::{
    Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

/// One end of a connection.
pub(crate) struct Peer(Blocking);

/// A message, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: QoS,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    pub(crate) packet_id: u16,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream, version: Version) -> Self {
        Self(Blocking::new(stream, version))
    }

    /// A client that has its CONNACK.
    pub(crate) fn client(address: &str, client_id: &str) -> Self {
        let mut of = Blocking::connect(address, Version::V311).unwrap();
        of.join(client_id, None, &[]).unwrap();
        assert_eq!(of.connack(), Some(ReasonCode::Success));
        Self(of)
    }

    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) {
        assert!(self.0.subscribe(filter, qos).is_some());
    }

    /// The other end of a client that connects to `listener`, once it has subscribed: with its
    /// SUBACK, unless the session was there. `properties` are CONNACK's.
    pub(crate) fn serve(
        listener: &TcpListener,
        session_present: bool,
        properties: &[Property<'_>],
    ) -> Self {
        let mut peer = Self::new(listener.accept().unwrap().0, Version::V5);
        let connect = peer.packet().expect("CONNECT");
        assert_eq!(connect[0] >> 4, PacketKind::Connect as u8);
        let mut buffer = PropertiesBuf::new();
        properties.iter().for_each(|property| buffer.push(*property));
        peer.send(&Packet::ConnAck(ConnAck {
            session_present,
            reason: ReasonCode::Success,
            properties: buffer.as_properties(),
        }));
        if !session_present {
            peer.answer_subscribe(&[1]);
        }
        peer
    }

    /// Answers SUBSCRIBE, which is to come next, with these codes.
    pub(crate) fn answer_subscribe(&mut self, codes: &[u8]) {
        let bytes = self.packet().expect("SUBSCRIBE");
        let Packet::Subscribe(subscribe) = decode(self.0.version, &bytes) else {
            panic!("no SUBSCRIBE: {bytes:?}");
        };
        let packet_id = subscribe.packet_id;
        let properties = Properties::EMPTY;
        self.send(&Packet::SubAck(SubAck { packet_id, properties, codes }));
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        self.0.send(packet).unwrap();
    }

    /// Bytes that may be no packet.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.stream.write_all(bytes).unwrap();
    }

    /// A PUBLISH; of QoS 1 if it has an identifier.
    pub(crate) fn publish(
        &mut self,
        topic: &str,
        payload: &str,
        packet_id: Option<u16>,
        dup: bool,
    ) {
        self.publish_as(topic, payload, packet_id, (dup, false));
    }

    /// A PUBLISH of QoS 1 that is to be retained.
    pub(crate) fn publish_retained(&mut self, topic: &str, payload: &str, packet_id: u16) {
        self.publish_as(topic, payload, Some(packet_id), (false, true));
    }

    fn publish_as(
        &mut self,
        topic: &str,
        payload: &str,
        packet_id: Option<u16>,
        (dup, retain): (bool, bool),
    ) {
        let qos = if packet_id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        self.send(&Packet::Publish(Publish {
            dup,
            qos,
            retain,
            topic,
            packet_id: packet_id.and_then(PacketId::new),
            properties: Properties::EMPTY,
            payload: payload.as_bytes(),
        }));
    }

    pub(crate) fn acknowledge(&mut self, packet_id: u16) {
        self.send(&Packet::PubAck(Ack::success(PacketId::new(packet_id).unwrap())));
    }

    /// The next packet, whole; nothing at the end of the stream.
    pub(crate) fn packet(&mut self) -> Option<Vec<u8>> {
        self.0.next()
    }

    /// The next packet, which must be a PUBLISH.
    pub(crate) fn message(&mut self) -> Message {
        let bytes = self.packet().expect("PUBLISH");
        message(self.0.version, &bytes).unwrap_or_else(|| panic!("no PUBLISH: {bytes:?}"))
    }

    /// The identifier of the next packet, which must be a PUBACK.
    pub(crate) fn acknowledged(&mut self) -> u16 {
        let bytes = self.packet().expect("PUBACK");
        match decode(self.0.version, &bytes) {
            Packet::PubAck(ack) => ack.packet_id.value(),
            packet => panic!("no PUBACK: {packet:?}"),
        }
    }
}

/// The message, if it is one.
pub(crate) fn message(version: Version, bytes: &[u8]) -> Option<Message> {
    let Packet::Publish(publish) = decode(version, bytes) else { return None };
    Some(Message {
        topic: publish.topic.to_owned(),
        payload: String::from_utf8(publish.payload.to_vec()).unwrap(),
        qos: publish.qos,
        dup: publish.dup,
        retain: publish.retain,
        packet_id: publish.packet_id.map_or(0, PacketId::value),
    })
}
