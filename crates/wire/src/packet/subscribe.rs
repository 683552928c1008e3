//! SUBSCRIBE (section 3.8).

use super::filters;
use crate::primitive::{Reader, put_packet, put_string, put_u16};
use crate::{Frame, PacketId, PacketKind, Properties, QoS, Version, WireError};

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
    /// Takes the options byte apart; before 5.0 it holds the QoS alone.
    ///
    /// # Errors
    /// Reserved bits that are set, QoS 3, retain handling 3.
    pub const fn from_byte(version: Version, byte: u8) -> Result<Self, WireError> {
        let reserved = if version.is_v5() { 0b1100_0000 } else { !OPTIONS_BEFORE_5 };
        // [MQTT-3.8.3-5], [MQTT-3-8.3-4] of 3.1.1
        if byte & reserved != 0 {
            return Err(WireError::Malformed("reserved subscription options"));
        }
        let Some(qos) = QoS::from_u8(byte & 0b11) else {
            return Err(WireError::ProtocolError("subscription with QoS 3"));
        };
        let retain_handling = match byte >> RETAIN_HANDLING_SHIFT {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DontSend,
            _ => return Err(WireError::ProtocolError("retain handling 3")),
        };
        let (no_local, retain_as_published) =
            (byte & NO_LOCAL != 0, byte & RETAIN_AS_PUBLISHED != 0);
        Ok(Self { qos, no_local, retain_as_published, retain_handling })
    }

    /// The options byte of 5.0; older versions take the QoS alone.
    pub const fn to_byte(self) -> u8 {
        self.qos as u8
            | if self.no_local { NO_LOCAL } else { 0 }
            | if self.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 }
            | (self.retain_handling as u8) << RETAIN_HANDLING_SHIFT
    }
}

const OPTIONS_BEFORE_5: u8 = 0b0000_0011;
const NO_LOCAL: u8 = 0b0000_0100;
const RETAIN_AS_PUBLISHED: u8 = 0b0000_1000;
const RETAIN_HANDLING_SHIFT: u8 = 4;

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
    pub(crate) version: Version,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let packet = Self::head(version, frame)?;
        let mut filters = packet.filters();
        while filters.check_next()? {}
        Ok(packet)
    }

    /// As [`crate::Packet::decode`], in a time that does not grow with the number of filters: they
    /// are still to be checked, see [`SubscribeFilters::check_next`].
    ///
    /// # Errors
    /// What is malformed or a protocol error before the filters, or that there is none.
    pub fn decode_unchecked(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        frame.check_header(version)?;
        Self::head(version, frame)
    }

    fn head(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        // [MQTT-3.8.3-2]
        let none = "SUBSCRIBE without a topic filter";
        let (packet_id, properties, filters) = filters::head(version, frame, none)?;
        Ok(Self { packet_id, properties, filters, version })
    }

    /// Every filter with its options, in the order of the packet.
    pub fn filters(&self) -> SubscribeFilters<'a> {
        SubscribeFilters::new(self.version, self.filters)
    }

    /// Appends the whole packet. Before 5.0 properties are left out, and options but the QoS.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::Subscribe.first_byte(), |out| {
            put_u16(out, self.packet_id.value());
            self.properties.encode(version, out);
            for (filter, options) in self.filters() {
                put_string(out, filter);
                out.push(
                    options.to_byte() & if version.is_v5() { u8::MAX } else { OPTIONS_BEFORE_5 },
                );
            }
        });
    }
}

/// The filters of a SUBSCRIBE that are still to be read, with their options.
#[derive(Clone, Copy, Debug)]
pub struct SubscribeFilters<'a> {
    reader: Reader<'a>,
    version: Version,
}

impl<'a> SubscribeFilters<'a> {
    /// Goes on with what [`SubscribeFilters::rest`] gave, or a copy of it.
    pub const fn new(version: Version, encoded: &'a [u8]) -> Self {
        Self { reader: Reader::new(encoded), version }
    }

    /// Those not yet read, as they are encoded.
    pub const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Checks the next one, and says whether there was one.
    ///
    /// # Errors
    /// What is malformed or a protocol error in it.
    #[inline]
    pub fn check_next(&mut self) -> Result<bool, WireError> {
        if self.reader.is_empty() {
            return Ok(false);
        }
        let filter = self.reader.string()?;
        let options = SubscriptionOptions::from_byte(self.version, self.reader.u8()?)?;
        // [MQTT-3.8.3-4]
        if options.no_local && filter.starts_with("$share/") {
            return Err(WireError::ProtocolError("no local on a shared subscription"));
        }
        Ok(true)
    }
}

impl<'a> Iterator for SubscribeFilters<'a> {
    type Item = (&'a str, SubscriptionOptions);

    fn next(&mut self) -> Option<Self::Item> {
        let known = if self.version.is_v5() { u8::MAX } else { OPTIONS_BEFORE_5 };
        let (filter, byte) = (self.reader.string().ok()?, self.reader.u8().ok()?);
        let options = SubscriptionOptions::from_byte(Version::V5, byte & known).ok()?;
        Some((filter, options))
    }
}

/// Filters of a SUBSCRIBE being written.
#[derive(Clone, Debug, Default)]
pub struct SubscribeBuf {
    pub(crate) filters: Vec<u8>,
}

impl SubscribeBuf {
    /// Nothing written yet; allocates nothing.
    pub const fn new() -> Self {
        Self { filters: Vec::new() }
    }

    /// Appends a filter.
    ///
    /// # Panics
    /// If the filter is longer than 65,535 bytes.
    pub fn push(&mut self, filter: &str, options: SubscriptionOptions) {
        put_string(&mut self.filters, filter);
        self.filters.push(options.to_byte());
    }

    /// The packet with the filters pushed so far, as `version` has it: before 5.0 the options
    /// but the QoS are dropped.
    pub const fn subscribe<'a>(
        &'a self,
        version: Version,
        packet_id: PacketId,
        properties: Properties<'a>,
    ) -> Subscribe<'a> {
        Subscribe { packet_id, properties, filters: self.filters.as_slice(), version }
    }
}
