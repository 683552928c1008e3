//! UNSUBSCRIBE (section 3.10).

use super::filters;
use crate::primitive::{Reader, put_packet, put_string, put_u16};
use crate::{Frame, PacketId, PacketKind, Properties, Version, WireError};

/// A request to unsubscribe; at least one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// Encoded filters, checked.
    pub(crate) filters: &'a [u8],
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let packet = Self::head(version, frame)?;
        let mut filters = packet.filters();
        while filters.check_next()? {}
        Ok(packet)
    }

    /// As [`crate::Packet::decode`], in a time that does not grow with the number of filters: they
    /// are still to be checked, see [`UnsubscribeFilters::check_next`].
    ///
    /// # Errors
    /// What is malformed or a protocol error before the filters, or that there is none.
    pub fn decode_unchecked(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        frame.check_header(version)?;
        Self::head(version, frame)
    }

    fn head(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        // [MQTT-3.10.3-2]
        let none = "UNSUBSCRIBE without a topic filter";
        let (packet_id, properties, filters) = filters::head(version, frame, none)?;
        Ok(Self { packet_id, properties, filters })
    }

    /// Every filter, in the order of the packet.
    pub fn filters(&self) -> UnsubscribeFilters<'a> {
        UnsubscribeFilters::new(self.filters)
    }

    /// Appends the whole packet. Before 5.0 properties are left out.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::Unsubscribe.first_byte(), |out| {
            put_u16(out, self.packet_id.value());
            self.properties.encode(version, out);
            out.extend_from_slice(self.filters);
        });
    }
}

/// The filters of an UNSUBSCRIBE that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct UnsubscribeFilters<'a>(Reader<'a>);

impl<'a> UnsubscribeFilters<'a> {
    /// Goes on with what [`UnsubscribeFilters::rest`] gave, or a copy of it.
    pub const fn new(encoded: &'a [u8]) -> Self {
        Self(Reader::new(encoded))
    }

    /// Those not yet read, as they are encoded.
    pub const fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }

    /// Checks the next one, and says whether there was one.
    ///
    /// # Errors
    /// That it is malformed.
    #[inline]
    pub fn check_next(&mut self) -> Result<bool, WireError> {
        if self.0.is_empty() {
            return Ok(false);
        }
        self.0.string().map(|_| true)
    }
}

impl<'a> Iterator for UnsubscribeFilters<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.string().ok()
    }
}

/// Filters of an UNSUBSCRIBE being written.
#[derive(Clone, Debug, Default)]
pub struct UnsubscribeBuf {
    pub(crate) filters: Vec<u8>,
}

impl UnsubscribeBuf {
    /// Nothing written yet; allocates nothing.
    pub const fn new() -> Self {
        Self { filters: Vec::new() }
    }

    /// Appends a filter.
    ///
    /// # Panics
    /// If the filter is longer than 65,535 bytes.
    pub fn push(&mut self, filter: &str) {
        put_string(&mut self.filters, filter);
    }

    /// The packet with the filters pushed so far.
    pub const fn unsubscribe<'a>(
        &'a self,
        packet_id: PacketId,
        properties: Properties<'a>,
    ) -> Unsubscribe<'a> {
        Unsubscribe { packet_id, properties, filters: self.filters.as_slice() }
    }
}
