//! AUTH (section 3.15), 5.0 only.
use crate::{Properties, ReasonCode};

/// A step of enhanced authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Success, ContinueAuthentication or ReAuthenticate.
    pub reason: ReasonCode,
    /// Properties.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    /// Appends the whole packet.
    pub fn encode(&self, version: crate::Version, out: &mut Vec<u8>) {
        todo!()
    }
}
