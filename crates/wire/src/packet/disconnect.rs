//! DISCONNECT (section 3.14).
use crate::{Properties, ReasonCode};

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// `Success` (normal disconnection) before 5.0.
    pub reason: ReasonCode,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
