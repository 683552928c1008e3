//! The fixed header: where one packet ends and the next begins.

use crate::primitive::{split_varint, varint_bytes};
use crate::{Version, WireError};

/// Longest fixed header: one byte of kind and flags, four of remaining length.
pub const FRAME_HEADER_BYTES_MAX: usize = 5;

/// Bytes of the whole packet around a body of so many.
#[inline]
pub const fn packet_bytes(body_bytes: usize) -> usize {
    1 + varint_bytes(body_bytes) + body_bytes
}

/// The kind of a packet: the upper four bits of its first byte.
#[expect(missing_docs, reason = "the names are the standard's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketKind {
    Connect = 1,
    ConnAck = 2,
    Publish = 3,
    PubAck = 4,
    PubRec = 5,
    PubRel = 6,
    PubComp = 7,
    Subscribe = 8,
    SubAck = 9,
    Unsubscribe = 10,
    UnsubAck = 11,
    PingReq = 12,
    PingResp = 13,
    Disconnect = 14,
    Auth = 15,
}

/// One whole packet, its body not yet decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the packet is.
    pub kind: PacketKind,
    /// The lower four bits of the first byte.
    pub flags: u8,
    /// Everything after the fixed header.
    pub body: &'a [u8],
    /// Length of the whole packet in bytes, fixed header included.
    pub bytes: usize,
}

impl<'a> Frame<'a> {
    /// The packet at the start of `input`, or `None` while it is not all there.
    ///
    /// # Errors
    /// Kind 0, a remaining length of five bytes, flags other than the kind's
    /// \[MQTT-2.1.3-1\], or a packet longer than `bytes_max` (known from the header alone).
    #[inline]
    pub fn check(input: &'a [u8], bytes_max: u32) -> Result<Option<Self>, WireError> {
        let Some((&first, rest)) = input.split_first() else { return Ok(None) };
        let Some(kind) = PacketKind::from_number(first >> 4) else {
            return Err(WireError::Malformed("packet type 0"));
        };
        let flags = first & 0x0F;
        if !kind.may_have_flags(flags) {
            return Err(WireError::Malformed("reserved flags in the fixed header"));
        }
        let Some((body_bytes, rest)) = split_varint(rest)? else { return Ok(None) };
        let bytes = (input.len() - rest.len()) as u32 + body_bytes;
        if bytes > bytes_max {
            return Err(WireError::PacketTooLarge { bytes, bytes_max });
        }
        let body = rest.get(..body_bytes as usize);
        Ok(body.map(|body| Self { kind, flags, body, bytes: bytes as usize }))
    }

    /// What is there of the packet at the start of `input`, which [`Frame::check`] has seen: its
    /// body may end early. Nothing while the fixed header is not all there.
    pub(crate) fn start(version: Version, input: &'a [u8]) -> Result<Option<Self>, WireError> {
        let Some((&first, rest)) = input.split_first() else { return Ok(None) };
        let Some(kind) = PacketKind::from_number(first >> 4) else { return Ok(None) };
        let Some((body_bytes, body)) = split_varint(rest)? else { return Ok(None) };
        let (flags, body_bytes) = (first & 0x0F, body_bytes as usize);
        let bytes = input.len() - body.len() + body_bytes;
        check_length(version, bytes, body_bytes)?;
        let body = &body[..body.len().min(body_bytes)];
        Ok(Some(Self { kind, flags, body, bytes }))
    }

    /// The packet of `kind` with a body that was taken from such a packet and kept.
    pub const fn of(kind: PacketKind, body: &'a [u8]) -> Self {
        let flags = kind.first_byte() & 0x0F;
        Self { kind, flags, body, bytes: packet_bytes(body.len()) }
    }

    /// The rules on the fixed header that differ between versions.
    #[inline]
    pub(crate) const fn check_header(&self, version: Version) -> Result<(), WireError> {
        if !matches!(version, Version::V31) && self.kind.has_dup_in_31() && self.flags & DUP != 0 {
            return Err(WireError::Malformed("reserved flags in the fixed header"));
        }
        check_length(version, self.bytes, self.body.len())
    }
}

/// The remaining length takes no more bytes than it needs [MQTT-1.5.5-1].
#[inline]
const fn check_length(version: Version, bytes: usize, body_bytes: usize) -> Result<(), WireError> {
    if version.is_v5() && bytes != packet_bytes(body_bytes) {
        return Err(WireError::Malformed("remaining length longer than needed"));
    }
    Ok(())
}

/// The flag that marks a redelivery.
pub(crate) const DUP: u8 = 0b1000;

impl PacketKind {
    #[inline]
    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// The first byte of a packet of this kind; PUBLISH adds its own flags.
    #[inline]
    pub const fn first_byte(self) -> u8 {
        (self as u8) << 4 | if self.has_dup_in_31() { 0b0010 } else { 0 }
    }

    /// Whether some version allows these flags. Those of PUBLISH are its decoder's to check.
    #[inline]
    const fn may_have_flags(self, flags: u8) -> bool {
        match self {
            Self::Publish => true,
            _ if self.has_dup_in_31() => flags & !DUP == 0b0010,
            _ => flags == 0,
        }
    }

    /// Whether the kind carries QoS 1 in its header, and so may carry DUP in MQTT 3.1.
    #[inline]
    const fn has_dup_in_31(self) -> bool {
        matches!(self, Self::PubRel | Self::Subscribe | Self::Unsubscribe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::REMAINING_LENGTH_MAX;

    const ANY: u32 = u32::MAX;

    #[test]
    fn an_incomplete_packet_is_no_error() {
        for input in [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x03, 0, 1]] {
            assert_eq!(Frame::check(input, ANY), Ok(None));
        }
    }

    #[test]
    fn a_frame_ends_where_its_length_says() {
        let frame = Frame::check(&[0x40, 2, 0, 7, 0xC0, 0], ANY).unwrap().unwrap();
        assert_eq!((frame.kind, frame.flags, frame.bytes), (PacketKind::PubAck, 0, 4));
        assert_eq!(frame.body, [0, 7]);
    }

    #[test]
    fn a_kept_body_makes_the_same_frame_again() {
        let frame = Frame::check(&[0x62, 2, 0, 7], ANY).unwrap().unwrap();
        assert_eq!(Frame::of(frame.kind, frame.body), frame);
    }

    #[test]
    fn packet_type_0_is_malformed_at_its_first_byte() {
        assert!(matches!(Frame::check(&[0x00], ANY), Err(WireError::Malformed(_))));
    }

    #[test]
    fn only_the_flags_of_the_kind_are_taken() {
        for number in 1..=15_u8 {
            for flags in 0..=15_u8 {
                let taken = Frame::check(&[number << 4 | flags, 0], ANY).is_ok();
                let expected = match number {
                    3 => true,
                    6 | 8 | 10 => flags == 2 || flags == 10,
                    _ => flags == 0,
                };
                assert_eq!(taken, expected, "type {number}, flags {flags}");
            }
        }
    }

    #[test]
    fn a_remaining_length_of_five_bytes_is_malformed() {
        let input = [0x30, 0xFF, 0xFF, 0xFF, 0xFF];
        assert!(matches!(Frame::check(&input, ANY), Err(WireError::Malformed(_))));
    }

    #[test]
    fn a_packet_over_the_limit_is_known_by_its_header() {
        let error = WireError::PacketTooLarge { bytes: 131, bytes_max: 130 };
        assert_eq!(Frame::check(&[0x30, 0x80, 0x01], 130), Err(error));
        assert_eq!(Frame::check(&[0x30, 0x80, 0x01], 131), Ok(None));
        let longest = [0x30, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(Frame::check(&longest, REMAINING_LENGTH_MAX + 5), Ok(None));
    }
}
