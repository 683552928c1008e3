//! SUBSCRIBE (section 3.8).
use crate::{PacketId, Properties, QoS};

/// When retained messages are sent at subscribe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainHandling {
    /// At every subscribe.
    #[default]
    Send = 0,
    /// Only if the subscription is new.
    SendIfNew = 1,
    /// Never.
    DontSend = 2,
}

/// The options byte of one filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Highest QoS the subscriber wants.
    pub qos: QoS,
    /// Not to send back what the same client published.
    pub no_local: bool,
    /// To keep the RETAIN flag as published.
    pub retain_as_published: bool,
    /// When to send retained messages.
    pub retain_handling: RetainHandling,
}

impl SubscriptionOptions {
    /// From the byte.
    pub fn from_byte(version: crate::Version, byte: u8) -> Result<Self, crate::WireError> {
        todo!()
    }
    /// To the byte.
    pub const fn to_byte(self) -> u8 {
        todo!()
    }
}

/// A request to subscribe; at least one filter, each valid UTF-8. Whether a filter is a valid
/// topic filter is checked by its user ([`crate::topic::TopicFilter`]), so that one bad filter
/// can be refused alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// Encoded filters and options, checked.
    pub(crate) filters: &'a [u8],
    pub(crate) version: crate::Version,
}

impl<'a> Subscribe<'a> {
    /// Filters.
    pub fn filters(&self) -> impl Iterator<Item = (&'a str, SubscriptionOptions)> + use<'a> {
        todo!();
        std::iter::empty()
    }
}
/// Filters of a SUBSCRIBE being written.
#[derive(Clone, Debug, Default)]
pub struct SubscribeBuf {
    pub(crate) filters: Vec<u8>,
}

impl SubscribeBuf {
    /// Nothing.
    pub const fn new() -> Self {
        Self { filters: Vec::new() }
    }
    /// Push.
    pub fn push(&mut self, filter: &str, options: SubscriptionOptions) {
        todo!()
    }
    /// Packet.
    pub fn subscribe<'a>(
        &'a self,
        version: crate::Version,
        packet_id: PacketId,
        properties: Properties<'a>,
    ) -> Subscribe<'a> {
        todo!()
    }
}

impl<'a> Subscribe<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
