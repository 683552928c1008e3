//! UNSUBSCRIBE (section 3.10).
use crate::{PacketId, Properties};

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
    /// Filters.
    pub fn filters(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        todo!();
        std::iter::empty()
    }
}
/// Filters of an UNSUBSCRIBE being written.
#[derive(Clone, Debug, Default)]
pub struct UnsubscribeBuf {
    pub(crate) filters: Vec<u8>,
}

impl UnsubscribeBuf {
    /// Nothing.
    pub const fn new() -> Self {
        Self { filters: Vec::new() }
    }
    /// Push.
    pub fn push(&mut self, filter: &str) {
        todo!()
    }
    /// Packet.
    pub fn unsubscribe<'a>(
        &'a self,
        packet_id: PacketId,
        properties: Properties<'a>,
    ) -> Unsubscribe<'a> {
        todo!()
    }
}

impl<'a> Unsubscribe<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
