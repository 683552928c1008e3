//! What one packet from the server said, apart from messages.

use crate::{Event, Sink};
use weir_wire::{Packet, Property, QoS, ReasonCode};

/// What the packet said.
#[derive(Debug)]
pub enum Heard {
    /// Nothing that anything follows from.
    Nothing,
    /// CONNACK lets the client in.
    Connected {
        /// Whether the server has kept the session.
        session_present: bool,
        /// What it does not take.
        limits: ServerLimits,
    },
    /// CONNACK does not.
    Refused(ReasonCode),
    /// SUBACK, with a reason code for each filter.
    Subscribed(Vec<u8>),
    /// UNSUBACK.
    Unsubscribed,
    /// A message is acknowledged.
    Acknowledged {
        /// What the message was published with.
        tag: u64,
        /// What became of it.
        reason: ReasonCode,
    },
    /// DISCONNECT.
    Disconnected(ReasonCode),
}

/// What the server says in CONNACK that it does not take; all of it is taken before 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a packet.
    pub packet_bytes_max: usize,
    /// The highest QoS.
    pub qos_max: QoS,
    /// Whether messages may be retained.
    pub takes_retained: bool,
    /// Whether filters may have wildcards.
    pub takes_wildcards: bool,
    /// Whether there are shared subscriptions.
    pub takes_shared: bool,
    /// Messages of QoS 1 and 2 that it takes before it has acknowledged the first.
    pub receive_maximum: u16,
}

impl ServerLimits {
    /// It takes everything.
    pub const NONE: Self = Self {
        packet_bytes_max: weir_wire::REMAINING_LENGTH_MAX as usize,
        qos_max: QoS::ExactlyOnce,
        takes_retained: true,
        takes_wildcards: true,
        takes_shared: true,
        receive_maximum: u16::MAX,
    };

    fn note(&mut self, property: Property<'_>) {
        match property {
            Property::MaximumPacketSize(bytes) => {
                self.packet_bytes_max = self.packet_bytes_max.min(bytes as usize);
            }
            Property::MaximumQoS(qos) => {
                self.qos_max = QoS::from_u8(qos).unwrap_or(QoS::ExactlyOnce);
            }
            Property::RetainAvailable(flag) => self.takes_retained = flag != 0,
            Property::WildcardSubscriptionAvailable(flag) => self.takes_wildcards = flag != 0,
            Property::SharedSubscriptionAvailable(flag) => self.takes_shared = flag != 0,
            Property::ReceiveMaximum(maximum) => self.receive_maximum = maximum,
            _ => {}
        }
    }
}

/// Hears one packet; what answers it goes out by another sink.
#[derive(Debug)]
pub struct Ear<'a, S> {
    /// That one.
    pub out: &'a mut S,
    limits: ServerLimits,
    /// What the packet said.
    pub heard: Heard,
    /// Its reason string.
    pub why: Option<String>,
}

impl<'a, S: Sink> Ear<'a, S> {
    /// Has heard nothing.
    pub fn new(out: &'a mut S) -> Self {
        Self { out, limits: ServerLimits::NONE, heard: Heard::Nothing, why: None }
    }
}

impl<S: Sink> Sink for Ear<'_, S> {
    fn write(&mut self, bytes: &[u8]) {
        self.out.write(bytes);
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let properties = match packet {
            Packet::ConnAck(packet) => packet.properties,
            Packet::SubAck(packet) => packet.properties,
            Packet::PubAck(packet) | Packet::PubRec(packet) => packet.properties,
            Packet::Disconnect(packet) => packet.properties,
            _ => return,
        };
        for property in properties.iter() {
            match property {
                Property::ReasonString(text) => self.why = Some(text.to_owned()),
                property => self.limits.note(property),
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        self.heard = match event {
            Event::Connected { session_present } => {
                Heard::Connected { session_present, limits: self.limits }
            }
            Event::Refused(reason) => Heard::Refused(reason),
            Event::Subscribed { codes, .. } => Heard::Subscribed(codes.to_vec()),
            Event::Acknowledged { tag, reason } => Heard::Acknowledged { tag, reason },
            Event::Disconnected(reason) => Heard::Disconnected(reason),
            Event::Unsubscribed { .. } => Heard::Unsubscribed,
            // They are taken before they come here.
            Event::Message(_) => return,
        };
    }
}
