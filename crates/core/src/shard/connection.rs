//! One connection's phase, and the reasons to end it.

use crate::keys::{Micros, SessionKey};
use crate::session::Will;
use weir_wire::{ReasonCode, Version, WireError};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// When something was last received.
    pub(super) heard_at: Micros,
    /// Its one timer, if it has one.
    pub(super) deadline: Option<Micros>,
}

#[derive(Debug)]
pub(super) enum Phase {
    AwaitConnect,
    Live(Live),
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: SessionKey,
    pub(super) version: Version,
    /// One and a half times the keep alive; zero is off.
    pub(super) silence_max: Micros,
    pub(super) will: Option<Box<Will>>,
    /// Topics by alias less one; empty until the first.
    pub(super) aliases: Vec<Box<str>>,
}

impl Connection {
    pub(super) fn new(now: Micros, deadline: Micros) -> Self {
        Self { phase: Phase::AwaitConnect, heard_at: now, deadline: Some(deadline) }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.phase {
            Phase::Live(live) => Some(live),
            Phase::AwaitConnect => None,
        }
    }

    pub(super) fn take_will(&mut self) -> Option<Box<Will>> {
        self.live_mut()?.will.take()
    }
}

/// Why the broker ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: ReasonCode,
    /// In words for the log; empty where the reason says all.
    pub(super) detail: &'static str,
}

impl Refusal {
    pub(super) fn new(reason: ReasonCode, detail: &'static str) -> Self {
        Self { reason, detail }
    }

    pub(super) fn protocol(detail: &'static str) -> Self {
        Self::new(ReasonCode::ProtocolError, detail)
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        let detail = match error {
            WireError::Malformed(detail) | WireError::ProtocolError(detail) => detail,
            WireError::PacketTooLarge { .. } | WireError::UnsupportedVersion { .. } => "",
        };
        Self::new(error.reason(), detail)
    }
}
