//! The fixed header: where one packet ends and the next begins.

use crate::WireError;

/// Longest fixed header: one byte of kind and flags, four of remaining length.
pub const FRAME_HEADER_BYTES_MAX: usize = 5;

/// Largest remaining length that four bytes can say.
pub const REMAINING_LENGTH_MAX: u32 = 268_435_455;

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
    pub fn check(input: &'a [u8], bytes_max: u32) -> Result<Option<Self>, WireError> {
        todo!()
    }
}
