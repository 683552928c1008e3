//! What clients are told that are to go to another server.

use weir_wire::ReasonCode;

/// Where clients are to go, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Whether they are never to come back: 0x9D Server moved, and not 0x9C Use another server.
    pub is_moved: bool,
    /// The other server (Server Reference).
    pub reference: Option<Box<str>>,
}

impl Drain {
    /// What they are told.
    pub fn reason(&self) -> ReasonCode {
        if self.is_moved { ReasonCode::ServerMoved } else { ReasonCode::UseAnotherServer }
    }
}
