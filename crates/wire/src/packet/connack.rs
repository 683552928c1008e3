//! CONNACK (section 3.2).
use crate::{Properties, ReasonCode};

/// The answer to CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server has a session for the client.
    pub session_present: bool,
    /// Older versions encode [`ReasonCode::connect_return_code`].
    pub reason: ReasonCode,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
