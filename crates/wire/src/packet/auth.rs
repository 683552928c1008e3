//! AUTH (section 3.15), 5.0 only.

use super::reasons;
use crate::primitive::{Reader, put_packet};
use crate::property::Place;
use crate::{Frame, PacketKind, Properties, Property, ReasonCode, Version, WireError};

/// A step of enhanced authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Success, ContinueAuthentication or ReAuthenticate.
    pub reason: ReasonCode,
    /// Properties.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        if !version.is_v5() {
            return Err(WireError::Malformed("packet type 15 before MQTT 5.0"));
        }
        let mut reader = Reader::new(frame.body);
        // Section 3.15.2.1 allows this form, although 3.15.2.2.2 asks for a method in any.
        if reader.is_empty() {
            return Ok(Self { reason: ReasonCode::Success, properties: Properties::EMPTY });
        }
        let reason = reasons::decode(PacketKind::Auth, reader.u8()?)?;
        let place = Place::Packet(PacketKind::Auth);
        let properties = Properties::decode(version, place, &mut reader)?;
        reader.finish()?;
        let is_method = |property| matches!(property, Property::AuthenticationMethod(_));
        if !properties.iter().any(is_method) {
            return Err(WireError::ProtocolError("AUTH without an authentication method"));
        }
        Ok(Self { reason, properties })
    }

    /// Appends the whole packet, in the shortest form that says the same.
    ///
    /// # Panics
    /// Before 5.0, which has no such packet.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        assert!(version.is_v5(), "AUTH is a packet of MQTT 5.0");
        put_packet(out, PacketKind::Auth.first_byte(), |out| {
            if self.reason == ReasonCode::Success && self.properties.is_empty() {
                return;
            }
            out.push(self.reason as u8);
            self.properties.encode(version, out);
        });
    }
}
