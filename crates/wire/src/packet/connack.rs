//! CONNACK (section 3.2).

use super::reasons;
use crate::primitive::{Reader, put_packet};
use crate::property::Place;
use crate::{Frame, PacketKind, Properties, ReasonCode, Version, WireError};

/// The answer to CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server has a session for the client.
    pub session_present: bool,
    /// Older versions encode [`ReasonCode::connect_return_code`].
    pub reason: ReasonCode,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        let (flags, code) = (reader.u8()?, reader.u8()?);
        // 3.1 reserves the byte and says nothing about its value.
        if flags & !SESSION_PRESENT != 0 && version != Version::V31 {
            return Err(WireError::Malformed("reserved flags in CONNACK"));
        }
        let session_present = flags & SESSION_PRESENT != 0 && version != Version::V31;
        let reason = decode_reason(version, code, reader)?;
        // [MQTT-3.2.2-4] of 3.1.1, [MQTT-3.2.2-6] of 5.0
        if session_present && reason != ReasonCode::Success {
            return Err(WireError::ProtocolError("session present in a refusal"));
        }
        let properties = if is_refusal_of_5(code, reader) {
            Properties::EMPTY
        } else {
            let place = Place::Packet(PacketKind::ConnAck);
            Properties::decode(version, place, &mut reader)?
        };
        reader.finish()?;
        Ok(Self { session_present, reason, properties })
    }

    /// Appends the whole packet. Before 5.0 the reason becomes the nearest return code.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let has_flags = version != Version::V31;
        let flags = if self.session_present && has_flags { SESSION_PRESENT } else { 0 };
        let code =
            if version.is_v5() { self.reason as u8 } else { self.reason.connect_return_code() };
        put_packet(out, PacketKind::ConnAck.first_byte(), |out| {
            out.extend_from_slice(&[flags, code]);
            self.properties.encode(version, out);
        });
    }
}

const SESSION_PRESENT: u8 = 1;

fn decode_reason(version: Version, code: u8, rest: Reader<'_>) -> Result<ReasonCode, WireError> {
    if version.is_v5() && !is_refusal_of_5(code, rest) {
        return reasons::decode(PacketKind::ConnAck, code);
    }
    ReasonCode::from_connect_return_code(code)
        .ok_or(WireError::ProtocolError("return code that CONNACK may not have"))
}

/// Whether a server that knows no 5.0 refuses it in the form of 3.1.1, as that standard has it
/// do \[MQTT-3.1.2-2\]: return code 1 and no properties.
const fn is_refusal_of_5(code: u8, rest: Reader<'_>) -> bool {
    code == 1 && rest.is_empty()
}
