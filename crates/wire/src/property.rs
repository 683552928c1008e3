//! Properties of MQTT 5.0: a validated slice of the packet, read lazily, forwarded as it is.

use crate::{PacketKind, WireError};

/// The identifier of a property (table 2-4).
#[expect(missing_docs, reason = "the names are the standard's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropertyId {
    PayloadFormatIndicator = 0x01,
    MessageExpiryInterval = 0x02,
    ContentType = 0x03,
    ResponseTopic = 0x08,
    CorrelationData = 0x09,
    SubscriptionIdentifier = 0x0B,
    SessionExpiryInterval = 0x11,
    AssignedClientIdentifier = 0x12,
    ServerKeepAlive = 0x13,
    AuthenticationMethod = 0x15,
    AuthenticationData = 0x16,
    RequestProblemInformation = 0x17,
    WillDelayInterval = 0x18,
    RequestResponseInformation = 0x19,
    ResponseInformation = 0x1A,
    ServerReference = 0x1C,
    ReasonString = 0x1F,
    ReceiveMaximum = 0x21,
    TopicAliasMaximum = 0x22,
    TopicAlias = 0x23,
    MaximumQoS = 0x24,
    RetainAvailable = 0x25,
    UserProperty = 0x26,
    MaximumPacketSize = 0x27,
    WildcardSubscriptionAvailable = 0x28,
    SubscriptionIdentifierAvailable = 0x29,
    SharedSubscriptionAvailable = 0x2A,
}

/// One property with its value.
#[expect(missing_docs, reason = "the names are the standard's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    PayloadFormatIndicator(u8),
    MessageExpiryInterval(u32),
    ContentType(&'a str),
    ResponseTopic(&'a str),
    CorrelationData(&'a [u8]),
    SubscriptionIdentifier(u32),
    SessionExpiryInterval(u32),
    AssignedClientIdentifier(&'a str),
    ServerKeepAlive(u16),
    AuthenticationMethod(&'a str),
    AuthenticationData(&'a [u8]),
    RequestProblemInformation(u8),
    WillDelayInterval(u32),
    RequestResponseInformation(u8),
    ResponseInformation(&'a str),
    ServerReference(&'a str),
    ReasonString(&'a str),
    ReceiveMaximum(u16),
    TopicAliasMaximum(u16),
    TopicAlias(u16),
    MaximumQoS(u8),
    RetainAvailable(u8),
    UserProperty(&'a str, &'a str),
    MaximumPacketSize(u32),
    WildcardSubscriptionAvailable(u8),
    SubscriptionIdentifierAvailable(u8),
    SharedSubscriptionAvailable(u8),
}

/// The properties of one packet, checked: every one allowed there, none twice that may stand
/// once, every value in range, strings well-formed. Without the length prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a>(&'a [u8]);

/// Properties being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertiesBuf(Vec<u8>);

/// Where a set of properties stands: a packet, or the will inside CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Packet(PacketKind),
    Will,
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const EMPTY: Self = Self(&[]);

    /// Checks `block` (without its length prefix) against what `place` allows.
    pub(crate) fn check(place: Place, block: &'a [u8]) -> Result<Self, WireError> {
        todo!()
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The encoded properties, without their length prefix.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Every property in the order of the packet.
    pub fn iter(self) -> impl Iterator<Item = Property<'a>> {
        todo!();
        std::iter::empty()
    }

    /// The first property that `pick` takes.
    pub fn find<T>(self, pick: impl FnMut(Property<'a>) -> Option<T>) -> Option<T> {
        self.iter().find_map(pick)
    }
}

impl Property<'_> {
    /// Appends the property: identifier, then value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        todo!()
    }

    /// The identifier.
    pub const fn id(&self) -> PropertyId {
        todo!()
    }
}

impl PropertiesBuf {
    /// Nothing written yet; allocates nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a property. That it is allowed in the packet is the caller's promise.
    pub fn push(&mut self, property: Property<'_>) {
        property.encode(&mut self.0);
    }

    /// What was written.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties(&self.0)
    }

    /// The encoded bytes, for keeping.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Properties that were checked when they came in and kept as bytes.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}
