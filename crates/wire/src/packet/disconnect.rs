//! DISCONNECT (section 3.14).

use super::reasons;
use crate::primitive::{Reader, put_packet};
use crate::property::Place;
use crate::{Frame, PacketKind, Properties, ReasonCode, Version, WireError};

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// `Success` (normal disconnection) before 5.0.
    pub reason: ReasonCode,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        if reader.is_empty() {
            return Ok(Self { reason: ReasonCode::Success, properties: Properties::EMPTY });
        }
        if !version.is_v5() {
            reader.finish()?;
        }
        let reason = reasons::decode(PacketKind::Disconnect, reader.u8()?)?;
        // A body of one byte leaves the property length out.
        let properties = if reader.is_empty() {
            Properties::EMPTY
        } else {
            let place = Place::Packet(PacketKind::Disconnect);
            Properties::decode(version, place, &mut reader)?
        };
        reader.finish()?;
        Ok(Self { reason, properties })
    }

    /// Appends the whole packet, in the shortest form that says the same. Before 5.0 reason and
    /// properties are left out.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::Disconnect.first_byte(), |out| {
            let is_plain = self.reason == ReasonCode::Success && self.properties.is_empty();
            if is_plain || !version.is_v5() {
                return;
            }
            out.push(self.reason as u8);
            if !self.properties.is_empty() {
                self.properties.encode(version, out);
            }
        });
    }
}
