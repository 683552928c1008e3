//! SUBACK (section 3.9).

use super::reasons;
use crate::primitive::{Reader, put_packet, put_u16};
use crate::property::Place;
use crate::{Frame, PacketId, PacketKind, Properties, Version, WireError};

/// The answer to SUBSCRIBE: one code a filter, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// 0 to 2 for the granted QoS, else a reason code (0x80 before 5.0).
    pub codes: &'a [u8],
}

impl<'a> SubAck<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let place = Place::Packet(PacketKind::SubAck);
        let properties = Properties::decode(version, place, &mut reader)?;
        let codes = reader.rest();
        if codes.is_empty() {
            return Err(WireError::ProtocolError("SUBACK without a code"));
        }
        for &code in codes {
            if version.is_v5() {
                reasons::decode(PacketKind::SubAck, code)?;
            } else if !matches!(code, 0..=2 | FAILURE) {
                // [MQTT-3.9.3-2] of 3.1.1
                return Err(WireError::ProtocolError("return code that SUBACK may not have"));
            }
        }
        Ok(Self { packet_id, properties, codes })
    }

    /// Appends the whole packet. Before 5.0 properties are left out and every code of failure
    /// becomes 0x80.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::SubAck.first_byte(), |out| {
            put_u16(out, self.packet_id.value());
            self.properties.encode(version, out);
            let code_max = if version.is_v5() { u8::MAX } else { FAILURE };
            out.extend(self.codes.iter().map(|&code| code.min(code_max)));
        });
    }
}

/// The only code of failure before 5.0.
const FAILURE: u8 = 0x80;
