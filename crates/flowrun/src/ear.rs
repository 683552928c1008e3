//! What one packet from the broker said, apart from messages.

use crate::link::Port;
use weir_client::{Event, Sink};
use weir_wire::{Packet, Property, QoS, ReasonCode};

/// What the packet said.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing that anything follows from.
    Nothing,
    Connected {
        session_present: bool,
        limits: Limits,
    },
    Refused(ReasonCode),
    Subscribed(Vec<u8>),
    Acknowledged {
        tag: u64,
        reason: ReasonCode,
    },
    Disconnected(ReasonCode),
}

/// What the broker says in CONNACK that it does not take; all of it is taken before 5.0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) packet_bytes_max: Option<u32>,
    pub(crate) qos_max: QoS,
    pub(crate) takes_retained: bool,
    pub(crate) takes_wildcards: bool,
    pub(crate) takes_shared: bool,
}

impl Limits {
    const NONE: Self = Self {
        packet_bytes_max: None,
        qos_max: QoS::ExactlyOnce,
        takes_retained: true,
        takes_wildcards: true,
        takes_shared: true,
    };

    fn note(&mut self, property: Property<'_>) {
        match property {
            Property::MaximumPacketSize(bytes) => self.packet_bytes_max = Some(bytes),
            Property::MaximumQoS(qos) => {
                self.qos_max = QoS::from_u8(qos).unwrap_or(QoS::ExactlyOnce);
            }
            Property::RetainAvailable(flag) => self.takes_retained = flag != 0,
            Property::WildcardSubscriptionAvailable(flag) => self.takes_wildcards = flag != 0,
            Property::SharedSubscriptionAvailable(flag) => self.takes_shared = flag != 0,
            _ => {}
        }
    }
}

/// Hears one packet; what answers it goes out by the port.
pub(crate) struct Ear<'a, 'b> {
    port: &'a mut Port<'b>,
    limits: Limits,
    pub(crate) heard: Heard,
    /// Its reason string.
    pub(crate) why: Option<String>,
}

impl<'a, 'b> Ear<'a, 'b> {
    pub(crate) fn new(port: &'a mut Port<'b>) -> Self {
        Self { port, limits: Limits::NONE, heard: Heard::Nothing, why: None }
    }
}

impl Sink for Ear<'_, '_> {
    fn write(&mut self, bytes: &[u8]) {
        self.port.write(bytes);
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let properties = match packet {
            Packet::ConnAck(packet) => packet.properties,
            Packet::SubAck(packet) => packet.properties,
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
            // Messages are taken before they come here; nothing is unsubscribed.
            Event::Message(_) | Event::Unsubscribed { .. } => return,
        };
    }
}
