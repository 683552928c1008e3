//! Properties of MQTT 5.0: a validated slice of the packet, read lazily, forwarded as it is.

use crate::primitive::{
    Reader, put_binary, put_string, put_u16, put_u32, put_varint, varint_bytes,
};
use crate::topic::is_valid_name;
use crate::{PacketKind, Version, WireError};

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
        let (place, mut seen) = (place.bit(), 0_u64);
        let mut reader = Reader::new(block);
        while !reader.is_empty() {
            let property = read(&mut reader)?;
            let number = property.id() as usize;
            if PLACES[number] & place == 0 {
                return Err(WireError::Malformed("property that the packet may not have"));
            }
            if seen & (1 << number) != 0 && !property.may_repeat(place) {
                return Err(WireError::ProtocolError("property that stands twice"));
            }
            seen |= 1 << number;
            property.check_value()?;
        }
        let has = |id: PropertyId| seen & (1 << id as u64) != 0;
        if has(PropertyId::AuthenticationData) && !has(PropertyId::AuthenticationMethod) {
            return Err(WireError::ProtocolError("authentication data without a method"));
        }
        Ok(Self(block))
    }

    /// Reads length prefix and properties; before 5.0 there are none to read.
    #[inline]
    pub(crate) fn decode(
        version: Version,
        place: Place,
        reader: &mut Reader<'a>,
    ) -> Result<Self, WireError> {
        if !version.is_v5() {
            return Ok(Self::EMPTY);
        }
        match reader.varint()? {
            0 => Ok(Self::EMPTY),
            count => Self::check(place, reader.bytes(count as usize)?),
        }
    }

    /// Appends length prefix and properties; before 5.0 nothing.
    #[inline]
    pub(crate) fn encode(self, version: Version, out: &mut Vec<u8>) {
        if version.is_v5() {
            put_varint(out, self.0.len());
            out.extend_from_slice(self.0);
        }
    }

    /// How many bytes [`Properties::encode`] appends.
    #[inline]
    pub(crate) const fn encoded_bytes(self, version: Version) -> usize {
        if version.is_v5() { varint_bytes(self.0.len()) + self.0.len() } else { 0 }
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
        // The bytes were checked; were they not, reading would end here instead of panicking.
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || read(&mut reader).ok())
    }

    /// The first property that `pick` takes.
    pub fn find<T>(self, pick: impl FnMut(Property<'a>) -> Option<T>) -> Option<T> {
        self.iter().find_map(pick)
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

    /// Appends properties that were checked, as they are.
    pub fn extend(&mut self, properties: Properties<'_>) {
        self.0.extend_from_slice(properties.0);
    }

    /// Forgets what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
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

impl Property<'_> {
    /// Appends the property: identifier, then value.
    ///
    /// # Panics
    /// If a string or binary is longer than 65,535 bytes, or a subscription identifier larger
    /// than 268,435,455.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.id() as u8);
        match *self {
            Self::PayloadFormatIndicator(value)
            | Self::RequestProblemInformation(value)
            | Self::RequestResponseInformation(value)
            | Self::MaximumQoS(value)
            | Self::RetainAvailable(value)
            | Self::WildcardSubscriptionAvailable(value)
            | Self::SubscriptionIdentifierAvailable(value)
            | Self::SharedSubscriptionAvailable(value) => out.push(value),
            Self::ServerKeepAlive(value)
            | Self::ReceiveMaximum(value)
            | Self::TopicAliasMaximum(value)
            | Self::TopicAlias(value) => put_u16(out, value),
            Self::MessageExpiryInterval(value)
            | Self::SessionExpiryInterval(value)
            | Self::WillDelayInterval(value)
            | Self::MaximumPacketSize(value) => put_u32(out, value),
            Self::SubscriptionIdentifier(value) => put_varint(out, value as usize),
            Self::ContentType(value)
            | Self::ResponseTopic(value)
            | Self::AssignedClientIdentifier(value)
            | Self::AuthenticationMethod(value)
            | Self::ResponseInformation(value)
            | Self::ServerReference(value)
            | Self::ReasonString(value) => put_string(out, value),
            Self::CorrelationData(value) | Self::AuthenticationData(value) => {
                put_binary(out, value);
            }
            Self::UserProperty(name, value) => {
                put_string(out, name);
                put_string(out, value);
            }
        }
    }

    /// The identifier.
    pub const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormatIndicator(..) => PropertyId::PayloadFormatIndicator,
            Self::MessageExpiryInterval(..) => PropertyId::MessageExpiryInterval,
            Self::ContentType(..) => PropertyId::ContentType,
            Self::ResponseTopic(..) => PropertyId::ResponseTopic,
            Self::CorrelationData(..) => PropertyId::CorrelationData,
            Self::SubscriptionIdentifier(..) => PropertyId::SubscriptionIdentifier,
            Self::SessionExpiryInterval(..) => PropertyId::SessionExpiryInterval,
            Self::AssignedClientIdentifier(..) => PropertyId::AssignedClientIdentifier,
            Self::ServerKeepAlive(..) => PropertyId::ServerKeepAlive,
            Self::AuthenticationMethod(..) => PropertyId::AuthenticationMethod,
            Self::AuthenticationData(..) => PropertyId::AuthenticationData,
            Self::RequestProblemInformation(..) => PropertyId::RequestProblemInformation,
            Self::WillDelayInterval(..) => PropertyId::WillDelayInterval,
            Self::RequestResponseInformation(..) => PropertyId::RequestResponseInformation,
            Self::ResponseInformation(..) => PropertyId::ResponseInformation,
            Self::ServerReference(..) => PropertyId::ServerReference,
            Self::ReasonString(..) => PropertyId::ReasonString,
            Self::ReceiveMaximum(..) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(..) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(..) => PropertyId::TopicAlias,
            Self::MaximumQoS(..) => PropertyId::MaximumQoS,
            Self::RetainAvailable(..) => PropertyId::RetainAvailable,
            Self::UserProperty(..) => PropertyId::UserProperty,
            Self::MaximumPacketSize(..) => PropertyId::MaximumPacketSize,
            Self::WildcardSubscriptionAvailable(..) => PropertyId::WildcardSubscriptionAvailable,
            Self::SubscriptionIdentifierAvailable(..) => {
                PropertyId::SubscriptionIdentifierAvailable
            }
            Self::SharedSubscriptionAvailable(..) => PropertyId::SharedSubscriptionAvailable,
        }
    }

    const fn may_repeat(&self, place: u16) -> bool {
        match self {
            Self::UserProperty(..) => true,
            Self::SubscriptionIdentifier(_) => place == PUBLISH,
            _ => false,
        }
    }

    fn check_value(&self) -> Result<(), WireError> {
        match *self {
            Self::PayloadFormatIndicator(value)
            | Self::RequestProblemInformation(value)
            | Self::RequestResponseInformation(value)
            | Self::MaximumQoS(value)
            | Self::RetainAvailable(value)
            | Self::WildcardSubscriptionAvailable(value)
            | Self::SubscriptionIdentifierAvailable(value)
            | Self::SharedSubscriptionAvailable(value)
                if value > 1 =>
            {
                Err(WireError::ProtocolError("property that is neither 0 nor 1"))
            }
            // A topic alias of 0 has a reason code of its own, which the session gives.
            Self::ReceiveMaximum(0)
            | Self::MaximumPacketSize(0)
            | Self::SubscriptionIdentifier(0) => {
                Err(WireError::ProtocolError("property that may not be 0"))
            }
            // [MQTT-3.3.2-14]
            Self::ResponseTopic(topic) if !is_valid_name(topic) => {
                Err(WireError::Malformed("response topic that is not a topic name"))
            }
            _ => Ok(()),
        }
    }
}

fn read<'a>(reader: &mut Reader<'a>) -> Result<Property<'a>, WireError> {
    let number = usize::from(reader.u8()?);
    let Some(&Some(id)) = BY_NUMBER.get(number) else {
        return Err(WireError::Malformed("property that does not exist"));
    };
    Ok(match id {
        PropertyId::PayloadFormatIndicator => Property::PayloadFormatIndicator(reader.u8()?),
        PropertyId::MessageExpiryInterval => Property::MessageExpiryInterval(reader.u32()?),
        PropertyId::ContentType => Property::ContentType(reader.string()?),
        PropertyId::ResponseTopic => Property::ResponseTopic(reader.string()?),
        PropertyId::CorrelationData => Property::CorrelationData(reader.binary()?),
        PropertyId::SubscriptionIdentifier => Property::SubscriptionIdentifier(reader.varint()?),
        PropertyId::SessionExpiryInterval => Property::SessionExpiryInterval(reader.u32()?),
        PropertyId::AssignedClientIdentifier => {
            Property::AssignedClientIdentifier(reader.string()?)
        }
        PropertyId::ServerKeepAlive => Property::ServerKeepAlive(reader.u16()?),
        PropertyId::AuthenticationMethod => Property::AuthenticationMethod(reader.string()?),
        PropertyId::AuthenticationData => Property::AuthenticationData(reader.binary()?),
        PropertyId::RequestProblemInformation => Property::RequestProblemInformation(reader.u8()?),
        PropertyId::WillDelayInterval => Property::WillDelayInterval(reader.u32()?),
        PropertyId::RequestResponseInformation => {
            Property::RequestResponseInformation(reader.u8()?)
        }
        PropertyId::ResponseInformation => Property::ResponseInformation(reader.string()?),
        PropertyId::ServerReference => Property::ServerReference(reader.string()?),
        PropertyId::ReasonString => Property::ReasonString(reader.string()?),
        PropertyId::ReceiveMaximum => Property::ReceiveMaximum(reader.u16()?),
        PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(reader.u16()?),
        PropertyId::TopicAlias => Property::TopicAlias(reader.u16()?),
        PropertyId::MaximumQoS => Property::MaximumQoS(reader.u8()?),
        PropertyId::RetainAvailable => Property::RetainAvailable(reader.u8()?),
        PropertyId::UserProperty => Property::UserProperty(reader.string()?, reader.string()?),
        PropertyId::MaximumPacketSize => Property::MaximumPacketSize(reader.u32()?),
        PropertyId::WildcardSubscriptionAvailable => {
            Property::WildcardSubscriptionAvailable(reader.u8()?)
        }
        PropertyId::SubscriptionIdentifierAvailable => {
            Property::SubscriptionIdentifierAvailable(reader.u8()?)
        }
        PropertyId::SharedSubscriptionAvailable => {
            Property::SharedSubscriptionAvailable(reader.u8()?)
        }
    })
}

impl Place {
    const fn bit(self) -> u16 {
        match self {
            Self::Packet(kind) => 1 << kind as u16,
            Self::Will => WILL,
        }
    }
}

const WILL: u16 = 1;
const CONNECT: u16 = Place::Packet(PacketKind::Connect).bit();
const CONNACK: u16 = Place::Packet(PacketKind::ConnAck).bit();
const PUBLISH: u16 = Place::Packet(PacketKind::Publish).bit();
const ACKS: u16 = Place::Packet(PacketKind::PubAck).bit()
    | Place::Packet(PacketKind::PubRec).bit()
    | Place::Packet(PacketKind::PubRel).bit()
    | Place::Packet(PacketKind::PubComp).bit();
const SUBSCRIBE: u16 = Place::Packet(PacketKind::Subscribe).bit();
const SUBACK: u16 = Place::Packet(PacketKind::SubAck).bit();
const UNSUBACK: u16 = Place::Packet(PacketKind::UnsubAck).bit();
const DISCONNECT: u16 = Place::Packet(PacketKind::Disconnect).bit();
const AUTH: u16 = Place::Packet(PacketKind::Auth).bit();
const ANYWHERE: u16 = u16::MAX;

/// Table 2-4: every property with the places that may have it.
const TABLE: &[(PropertyId, u16)] = &[
    (PropertyId::PayloadFormatIndicator, PUBLISH | WILL),
    (PropertyId::MessageExpiryInterval, PUBLISH | WILL),
    (PropertyId::ContentType, PUBLISH | WILL),
    (PropertyId::ResponseTopic, PUBLISH | WILL),
    (PropertyId::CorrelationData, PUBLISH | WILL),
    (PropertyId::SubscriptionIdentifier, PUBLISH | SUBSCRIBE),
    (PropertyId::SessionExpiryInterval, CONNECT | CONNACK | DISCONNECT),
    (PropertyId::AssignedClientIdentifier, CONNACK),
    (PropertyId::ServerKeepAlive, CONNACK),
    (PropertyId::AuthenticationMethod, CONNECT | CONNACK | AUTH),
    (PropertyId::AuthenticationData, CONNECT | CONNACK | AUTH),
    (PropertyId::RequestProblemInformation, CONNECT),
    (PropertyId::WillDelayInterval, WILL),
    (PropertyId::RequestResponseInformation, CONNECT),
    (PropertyId::ResponseInformation, CONNACK),
    (PropertyId::ServerReference, CONNACK | DISCONNECT),
    (PropertyId::ReasonString, CONNACK | ACKS | SUBACK | UNSUBACK | DISCONNECT | AUTH),
    (PropertyId::ReceiveMaximum, CONNECT | CONNACK),
    (PropertyId::TopicAliasMaximum, CONNECT | CONNACK),
    (PropertyId::TopicAlias, PUBLISH),
    (PropertyId::MaximumQoS, CONNACK),
    (PropertyId::RetainAvailable, CONNACK),
    (PropertyId::UserProperty, ANYWHERE),
    (PropertyId::MaximumPacketSize, CONNECT | CONNACK),
    (PropertyId::WildcardSubscriptionAvailable, CONNACK),
    (PropertyId::SubscriptionIdentifierAvailable, CONNACK),
    (PropertyId::SharedSubscriptionAvailable, CONNACK),
];

/// One more than the largest identifier.
const NUMBERS: usize = PropertyId::SharedSubscriptionAvailable as usize + 1;

const BY_NUMBER: [Option<PropertyId>; NUMBERS] = {
    let mut by_number = [None; NUMBERS];
    let mut row = 0;
    while row < TABLE.len() {
        by_number[TABLE[row].0 as usize] = Some(TABLE[row].0);
        row += 1;
    }
    by_number
};

const PLACES: [u16; NUMBERS] = {
    let mut places = [0; NUMBERS];
    let mut row = 0;
    while row < TABLE.len() {
        places[TABLE[row].0 as usize] = TABLE[row].1;
        row += 1;
    }
    places
};

#[cfg(test)]
mod tests;
