//! PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7): one shape, four kinds.
use crate::{PacketId, Properties, ReasonCode};

/// An acknowledgement of one step of a QoS 1 or QoS 2 delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// `Success` before 5.0.
    pub reason: ReasonCode,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl Ack<'static> {
    /// The acknowledgement that all went well, without properties.
    pub const fn success(packet_id: PacketId) -> Self {
        Self { packet_id, reason: ReasonCode::Success, properties: Properties::EMPTY }
    }
}

impl<'a> Ack<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, kind: crate::PacketKind, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
