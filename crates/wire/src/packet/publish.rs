//! PUBLISH (section 3.3).
use crate::{PacketId, Properties, QoS};

/// An application message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether this may be a redelivery.
    pub dup: bool,
    /// Quality of service of this delivery.
    pub qos: QoS,
    /// Retained, or to be retained.
    pub retain: bool,
    /// A valid topic name; empty only in 5.0 with a topic alias.
    pub topic: &'a str,
    /// Present for QoS 1 and 2 and only then \[MQTT-2.2.1-2\].
    pub packet_id: Option<PacketId>,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// Where in an encoded PUBLISH the parts are that differ between its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishPlaces {
    /// Index of the first byte (kind, DUP, QoS, RETAIN).
    pub flags_at: usize,
    /// Index of the packet identifier's two bytes; `None` at QoS 0.
    pub packet_id_at: Option<usize>,
}

impl<'a> Publish<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) -> PublishPlaces {
        todo!()
    }
}
