//! What a server or a caller does that a client cannot go along with.

use weir_wire::{Packet, WireError};

/// What a server sends that a client cannot live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The bytes are not MQTT.
    #[error("the server sent what is not MQTT: {0}")]
    Wire(#[from] WireError),
    /// A packet that has no place there.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
}

/// Why a message cannot be published now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The client is not connected.
    #[error("not connected")]
    NotConnected,
    /// As many messages are open as the server's Receive Maximum, or the identifiers, allow.
    #[error("too many messages are not yet acknowledged")]
    WindowFull,
}

/// What is wrong about a packet that no server sends to a client that is connected.
#[cold]
pub(crate) fn never_sent(packet: &Packet<'_>) -> &'static str {
    match packet {
        Packet::ConnAck(_) => "a second CONNACK",
        Packet::Disconnect(_) => "a DISCONNECT, which only clients send before MQTT 5.0",
        Packet::Auth(_) => "an AUTH that nobody asked for",
        Packet::Connect(_) => "a CONNECT, which only clients send",
        Packet::Subscribe(_) => "a SUBSCRIBE, which only clients send",
        Packet::Unsubscribe(_) => "an UNSUBSCRIBE, which only clients send",
        Packet::PingReq => "a PINGREQ, which only clients send",
        _ => "a packet that has no place there",
    }
}
