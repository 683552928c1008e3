//! UNSUBACK (section 3.11).
use crate::{PacketId, Properties};

/// The answer to UNSUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// One reason code a filter, in order; empty before 5.0.
    pub codes: &'a [u8],
}

impl<'a> UnsubAck<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
