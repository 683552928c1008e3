//! MQTT 3.1, 3.1.1 and 5.0 on the wire: bytes to packets and back.
//!
//! Decoding borrows from the input and allocates nothing; encoding appends to a `Vec<u8>`.
//! The version is a field given at decode and encode, never a copied tree. This crate knows no
//! session, no socket and no clock: it says what bytes mean, not what to do about them.
//! Used by `weir-core` (the broker) and `weir-client`.

mod error;
mod frame;
pub mod packet;
mod primitive;
mod property;
mod reason;
pub mod topic;
mod version;

pub use error::WireError;
pub use frame::{FRAME_HEADER_BYTES_MAX, Frame, PacketKind, packet_bytes};
pub use packet::Packet;
pub use primitive::REMAINING_LENGTH_MAX;
pub use property::{Properties, PropertiesBuf, Property, PropertyId};
pub use reason::ReasonCode;
pub use version::{PacketId, QoS, Version};
