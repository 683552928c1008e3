//! What a client says: bytes to send, and what happened.

use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, ReasonCode};

/// The shell's side of a client.
pub trait Sink {
    /// Appends to the connection's output.
    fn write(&mut self, bytes: &[u8]);

    /// A packet came, before anything is done about it; of interest to who shows packets, or
    /// wants the properties of an answer.
    #[inline]
    fn packet(&mut self, _packet: &Packet<'_>) {}

    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// What happened to a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// CONNACK with success.
    Connected {
        /// Whether the server had a session.
        session_present: bool,
    },
    /// CONNACK with a refusal; nothing more will come.
    Refused(ReasonCode),
    /// SUBACK; one code a filter.
    Subscribed {
        /// As [`crate::Client::subscribe`] returned it.
        packet_id: PacketId,
        /// Granted QoS, or a reason code of 0x80 and above.
        codes: &'a [u8],
    },
    /// UNSUBACK.
    Unsubscribed {
        /// As [`crate::Client::unsubscribe`] returned it.
        packet_id: PacketId,
    },
    /// A message. The acknowledgement it asks for is already written. At QoS 2 a repetition is
    /// not reported.
    Message(Publish<'a>),
    /// A published message of QoS 1 or 2 is done: PUBACK, PUBCOMP, or a PUBREC that refuses.
    Acknowledged {
        /// As [`crate::Client::publish`] was given it.
        tag: u64,
        /// Whether, and why not.
        reason: ReasonCode,
    },
    /// DISCONNECT from the server.
    Disconnected(ReasonCode),
}
