//! Which reason codes each packet may have.

use crate::{PacketKind, ReasonCode, WireError};

/// The reason code `byte` of a packet of `kind`, which must be one listed for that kind.
pub(super) fn decode(kind: PacketKind, byte: u8) -> Result<ReasonCode, WireError> {
    ReasonCode::from_u8(byte)
        .filter(|&code| is_listed(code, kind))
        .ok_or(WireError::ProtocolError("reason code that the packet may not have"))
}

/// Whether the table of reason codes of `kind` has this code.
fn is_listed(code: ReasonCode, kind: PacketKind) -> bool {
    let (succeeded, failed) = match kind {
        PacketKind::ConnAck => (&[0][..], &CONNACK[..]),
        PacketKind::PubAck | PacketKind::PubRec => (&[0, 0x10][..], &PUBACK[..]),
        PacketKind::PubRel | PacketKind::PubComp => (&[0][..], &[0x92][..]),
        PacketKind::SubAck => (&[0, 1, 2][..], &SUBACK[..]),
        PacketKind::UnsubAck => (&[0, 0x11][..], &UNSUBACK[..]),
        PacketKind::Disconnect => (&[0, 0x04][..], &DISCONNECT[..]),
        PacketKind::Auth => (&[0, 0x18, 0x19][..], &[][..]),
        _ => return false,
    };
    let codes = if code.is_error() { failed } else { succeeded };
    codes.contains(&(code as u8))
}

// Tables 3-1, 3-4 and 3-5, 3-8, 3-9 and 3-10: the codes of failure of each packet.
const CONNACK: [u8; 21] = [
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99,
    0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
];
const PUBACK: [u8; 7] = [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
const SUBACK: [u8; 9] = [0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2];
const UNSUBACK: [u8; 5] = [0x80, 0x83, 0x87, 0x8F, 0x91];
// Table 2-6 lists 0x8C for DISCONNECT as well: a failed re-authentication ends so.
const DISCONNECT: [u8; 28] = [
    0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96,
    0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_belongs_to_some_packet() {
        let kinds = [
            PacketKind::ConnAck,
            PacketKind::PubAck,
            PacketKind::PubRel,
            PacketKind::SubAck,
            PacketKind::UnsubAck,
            PacketKind::Disconnect,
            PacketKind::Auth,
        ];
        for &code in ReasonCode::ALL {
            assert!(kinds.iter().any(|&kind| is_listed(code, kind)), "{}", code.name());
        }
    }
}
