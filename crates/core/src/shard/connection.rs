//! One connection's phase, and the reasons to end it.

use crate::aliases::{AliasesIn, AliasesOut};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::session::Will;
use std::collections::VecDeque;
use weir_wire::{PacketId, QoS, ReasonCode, Version, WireError};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// When something was last received.
    pub(super) heard_at: Micros,
    /// Its one timer, if it has one.
    pub(super) deadline: Option<Micros>,
    /// Which of the shard's connections it is: keys are used again.
    pub(super) serial: u64,
}

/// A connection as an answer that may come after its end has to name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnSerial {
    pub(super) conn: ConnKey,
    pub(super) serial: u64,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// With a reason, the CONNECT will be refused with it.
    AwaitConnect(Option<ReasonCode>),
    AwaitAuth(Box<AwaitAuth>),
    Live(Live),
}

/// A CONNECT whose client is not yet known to be who it says.
#[derive(Debug)]
pub(super) struct AwaitAuth {
    /// The body of the CONNECT packet, to go on with.
    pub(super) connect: Box<[u8]>,
    pub(super) version: Version,
    pub(super) method: Option<Box<str>>,
    /// The authentication port has not answered yet: nothing more is read.
    pub(super) is_asked: bool,
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: SessionKey,
    pub(super) version: Version,
    /// One and a half times the keep alive; zero is off.
    pub(super) silence_max: Micros,
    pub(super) will: Option<Box<Will>>,
    /// What few connections have.
    pub(super) extra: Option<Box<Extra>>,
}

/// What a connection owns once it uses it: an idle one has none of it.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) aliases_in: AliasesIn,
    pub(super) aliases_out: AliasesOut,
    /// The method it was authenticated with, and may be again.
    pub(super) auth_method: Option<Box<str>>,
    /// A re-authentication is under way.
    pub(super) is_authenticating: bool,
    /// Acknowledgements that wait for an owner's answer, or behind one that does.
    pub(super) held_acks: VecDeque<HeldAck>,
}

/// A PUBACK or PUBREC to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldAck {
    pub(super) packet_id: PacketId,
    pub(super) qos: QoS,
    pub(super) reason: ReasonCode,
    pub(super) detail: &'static str,
    /// Nothing once it may go.
    pub(super) ticket: Option<u32>,
}

impl Live {
    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

impl Connection {
    pub(super) fn new(
        serial: u64,
        refusal: Option<ReasonCode>,
        now: Micros,
        deadline: Micros,
    ) -> Self {
        let phase = Phase::AwaitConnect(refusal);
        Self { phase, heard_at: now, deadline: Some(deadline), serial }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.phase {
            Phase::Live(live) => Some(live),
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => None,
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
