//! UNSUBACK (section 3.11).

use super::reasons;
use crate::primitive::{Reader, put_packet, put_u16};
use crate::property::Place;
use crate::{Frame, PacketId, PacketKind, Properties, Version, WireError};

/// The answer to UNSUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// One reason code a filter, in order; empty before 5.0.
    pub codes: &'a [u8],
}

impl<'a> UnsubAck<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        if !version.is_v5() {
            reader.finish()?;
            return Ok(Self { packet_id, properties: Properties::EMPTY, codes: &[] });
        }
        let place = Place::Packet(PacketKind::UnsubAck);
        let properties = Properties::decode(version, place, &mut reader)?;
        let codes = reader.rest();
        if codes.is_empty() {
            return Err(WireError::ProtocolError("UNSUBACK without a code"));
        }
        for &code in codes {
            reasons::decode(PacketKind::UnsubAck, code)?;
        }
        Ok(Self { packet_id, properties, codes })
    }

    /// Appends the whole packet. Before 5.0 properties and codes are left out.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::UnsubAck.first_byte(), |out| {
            put_u16(out, self.packet_id.value());
            if version.is_v5() {
                self.properties.encode(version, out);
                out.extend_from_slice(self.codes);
            }
        });
    }
}
