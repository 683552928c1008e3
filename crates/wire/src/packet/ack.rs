//! PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7): one shape, four kinds.

use super::reasons;
use crate::primitive::{Reader, put_packet, put_u16};
use crate::property::Place;
use crate::{Frame, PacketId, PacketKind, Properties, ReasonCode, Version, WireError};

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
    #[inline]
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        if reader.is_empty() {
            return Ok(Ack::success(packet_id));
        }
        if !version.is_v5() {
            reader.finish()?;
        }
        Self::decode_reason(frame.kind, packet_id, reader)
    }

    fn decode_reason(
        kind: PacketKind,
        packet_id: PacketId,
        mut reader: Reader<'a>,
    ) -> Result<Self, WireError> {
        let reason = reasons::decode(kind, reader.u8()?)?;
        // A body of three bytes leaves the property length out.
        let properties = if reader.is_empty() {
            Properties::EMPTY
        } else {
            Properties::decode(Version::V5, Place::Packet(kind), &mut reader)?
        };
        reader.finish()?;
        Ok(Self { packet_id, reason, properties })
    }

    /// Appends the whole packet, in the shortest form that says the same. `kind` is one of the
    /// four acknowledgements. Before 5.0 reason and properties are left out.
    #[inline]
    pub fn encode(&self, kind: PacketKind, version: Version, out: &mut Vec<u8>) {
        let is_plain = self.reason == ReasonCode::Success && self.properties.is_empty();
        if is_plain || !version.is_v5() {
            let [high, low] = self.packet_id.value().to_be_bytes();
            out.extend_from_slice(&[kind.first_byte(), 2, high, low]);
        } else {
            self.encode_reason(kind, out);
        }
    }

    fn encode_reason(&self, kind: PacketKind, out: &mut Vec<u8>) {
        put_packet(out, kind.first_byte(), |out| {
            put_u16(out, self.packet_id.value());
            out.push(self.reason as u8);
            if !self.properties.is_empty() {
                self.properties.encode(Version::V5, out);
            }
        });
    }
}
