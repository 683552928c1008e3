//! MQTT by blocking sockets: a client for a test, and the other end of one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use weir_wire::packet::{
    Ack, ConnAck, Connect, Publish, SubAck, SubscribeBuf, SubscriptionOptions,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version,
};

/// A test that waits for longer has failed.
const WAIT: Duration = Duration::from_secs(60);

/// One end of a connection.
pub(crate) struct Peer {
    stream: TcpStream,
    bytes: Vec<u8>,
    version: Version,
}

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
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, bytes: Vec::new(), version }
    }

    /// A client that has its CONNACK.
    pub(crate) fn client(address: &str, client_id: &str) -> Self {
        let mut peer = Self::new(TcpStream::connect(address).unwrap(), Version::V311);
        let connect = Connect {
            version: peer.version,
            clean_start: true,
            keep_alive_s: 0,
            client_id,
            will: None,
            user_name: None,
            password: None,
            properties: Properties::EMPTY,
        };
        peer.send(&Packet::Connect(connect));
        assert_eq!(peer.kind(), PacketKind::ConnAck);
        peer
    }

    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, SubscriptionOptions { qos, ..SubscriptionOptions::default() });
        let subscribe = filters.subscribe(self.version, PacketId::FIRST, Properties::EMPTY);
        let mut bytes = Vec::new();
        subscribe.encode(self.version, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
        assert_eq!(self.kind(), PacketKind::SubAck);
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
        let Packet::Subscribe(subscribe) = decode(self.version, &bytes) else {
            panic!("no SUBSCRIBE: {bytes:?}");
        };
        let packet_id = subscribe.packet_id;
        let properties = Properties::EMPTY;
        self.send(&Packet::SubAck(SubAck { packet_id, properties, codes }));
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.version, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// A PUBLISH; of QoS 1 if it has an identifier.
    pub(crate) fn publish(
        &mut self,
        topic: &str,
        payload: &str,
        packet_id: Option<u16>,
        dup: bool,
    ) {
        let qos = if packet_id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        self.send(&Packet::Publish(Publish {
            dup,
            qos,
            retain: false,
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
        loop {
            if let Some(frame) = Frame::check(&self.bytes, u32::MAX).unwrap() {
                let bytes = frame.bytes;
                let rest = self.bytes.split_off(bytes);
                return Some(std::mem::replace(&mut self.bytes, rest));
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(0) => return None,
                Ok(read) => self.bytes.extend_from_slice(&more[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    fn kind(&mut self) -> PacketKind {
        let bytes = self.packet().expect("a packet");
        Frame::check(&bytes, u32::MAX).unwrap().unwrap().kind
    }

    /// The next packet, which must be a PUBLISH.
    pub(crate) fn message(&mut self) -> Message {
        let bytes = self.packet().expect("PUBLISH");
        message(self.version, &bytes).unwrap_or_else(|| panic!("no PUBLISH: {bytes:?}"))
    }

    /// The identifier of the next packet, which must be a PUBACK.
    pub(crate) fn acknowledged(&mut self) -> u16 {
        let bytes = self.packet().expect("PUBACK");
        match decode(self.version, &bytes) {
            Packet::PubAck(ack) => ack.packet_id.value(),
            packet => panic!("no PUBACK: {packet:?}"),
        }
    }
}

pub(crate) fn decode(version: Version, bytes: &[u8]) -> Packet<'_> {
    Packet::decode(version, Frame::check(bytes, u32::MAX).unwrap().unwrap()).unwrap()
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
