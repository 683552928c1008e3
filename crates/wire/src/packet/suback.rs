//! SUBACK (section 3.9).
use crate::{PacketId, Properties};

/// The answer to SUBSCRIBE: one code a filter, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// 0 to 2 for the granted QoS, else a reason code (0x80 before 5.0).
    pub codes: &'a [u8],
}

impl<'a> SubAck<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
