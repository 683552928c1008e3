//! What can be wrong with bytes from a peer. One variant, one reason code.

use crate::ReasonCode;

/// Why bytes are not an MQTT packet. Incomplete input is not an error: see [`crate::Frame::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes do not parse: reason code 0x81.
    #[error("malformed packet: {0}")]
    Malformed(&'static str),
    /// The bytes parse but break a rule of the protocol: reason code 0x82.
    #[error("protocol error: {0}")]
    ProtocolError(&'static str),
    /// The packet is longer than the receiver takes: reason code 0x95.
    #[error("packet of {bytes} bytes is larger than the limit of {bytes_max}")]
    PacketTooLarge {
        /// Whole length of the packet in bytes.
        bytes: u32,
        /// The limit it broke.
        bytes_max: u32,
    },
    /// CONNECT names a protocol name or level that is none of ours: reason code 0x84.
    #[error("unsupported protocol version {level}")]
    UnsupportedVersion {
        /// The protocol level byte.
        level: u8,
    },
}

impl WireError {
    /// The one reason code of MQTT 5.0 that names this error.
    pub const fn reason(self) -> ReasonCode {
        match self {
            Self::Malformed(_) => ReasonCode::MalformedPacket,
            Self::ProtocolError(_) => ReasonCode::ProtocolError,
            Self::PacketTooLarge { .. } => ReasonCode::PacketTooLarge,
            Self::UnsupportedVersion { .. } => ReasonCode::UnsupportedProtocolVersion,
        }
    }
}
