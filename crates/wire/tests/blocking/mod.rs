//! MQTT over a blocking socket, one end of it: what the clients of tests have in common. Tests of
//! several crates use it by its path.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use weir_wire::packet::{Connect, SubscribeBuf, SubscriptionOptions, Will};
use weir_wire::{
    Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

/// A test that waits for longer has failed.
const WAIT: Duration = Duration::from_secs(60);

/// One end of a connection.
pub(crate) struct Blocking {
    pub(crate) stream: TcpStream,
    pub(crate) version: Version,
    bytes: Vec<u8>,
}

impl Blocking {
    pub(crate) fn new(stream: TcpStream, version: Version) -> Self {
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, version, bytes: Vec::new() }
    }

    pub(crate) fn connect(address: impl ToSocketAddrs, version: Version) -> io::Result<Self> {
        Ok(Self::new(TcpStream::connect(address)?, version))
    }

    /// Sends a CONNECT for a new session.
    pub(crate) fn join(
        &mut self,
        client_id: &str,
        will: Option<Will<'_>>,
        properties: &[Property<'_>],
    ) -> io::Result<()> {
        let mut buffer = PropertiesBuf::new();
        properties.iter().for_each(|property| buffer.push(*property));
        self.send(&Packet::Connect(Connect {
            version: self.version,
            clean_start: true,
            keep_alive_s: 0,
            client_id,
            will,
            user_name: None,
            password: None,
            properties: buffer.as_properties(),
        }))
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        packet.encode(self.version, &mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Subscribes to one filter. Returns what the SUBACK says.
    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) -> Option<u8> {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, SubscriptionOptions { qos, ..SubscriptionOptions::default() });
        let subscribe = filters.subscribe(self.version, PacketId::FIRST, Properties::EMPTY);
        self.send(&Packet::Subscribe(subscribe)).unwrap();
        self.packet(|packet| match packet {
            Packet::SubAck(suback) => suback.codes[0],
            other => panic!("no SUBACK: {other:?}"),
        })
    }

    /// The reason of the CONNACK that is to come next; nothing if the connection ends before.
    pub(crate) fn connack(&mut self) -> Option<ReasonCode> {
        self.packet(|packet| match packet {
            Packet::ConnAck(connack) => connack.reason,
            other => panic!("no CONNACK: {other:?}"),
        })
    }

    /// What `look` finds in the next packet; nothing at the end of the stream.
    pub(crate) fn packet<T>(&mut self, look: impl FnOnce(&Packet<'_>) -> T) -> Option<T> {
        let bytes = self.next()?;
        Some(look(&decode(self.version, &bytes)))
    }

    /// The next packet, whole; nothing at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = Frame::check(&self.bytes, u32::MAX).unwrap() {
                let rest = self.bytes.split_off(frame.bytes);
                return Some(std::mem::replace(&mut self.bytes, rest));
            }
            let mut more = [0; 16_384];
            match self.stream.read(&mut more) {
                Ok(0) => return None,
                Ok(read) => self.bytes.extend_from_slice(&more[..read]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }
}

pub(crate) fn decode(version: Version, bytes: &[u8]) -> Packet<'_> {
    Packet::decode(version, Frame::check(bytes, u32::MAX).unwrap().unwrap()).unwrap()
}
