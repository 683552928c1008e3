//! One connection's phase, and the reasons to end it.

use super::rest::Parked;
use crate::aliases::{AliasesIn, AliasesOut};
use crate::keys::Ticket;
use crate::keys::{Micros, SessionKey};
use crate::session::Will;
use std::collections::VecDeque;
use weir_wire::packet::{Connect, Packet};
use weir_wire::{Frame, PacketKind, ReasonCode, Version, WireError};

/// 24 bytes.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// When a packet was last received whole; until the client is known, when it was opened.
    heard_at: Micros,
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
    /// What the authentication port was asked and has not answered yet: nothing more is read.
    pub(super) asked: Option<Ticket>,
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: SessionKey,
    pub(super) version: Version,
    /// Zero is off.
    pub(super) keep_alive_s: u16,
    /// What few connections have.
    pub(super) cold: Option<Box<ColdConnection>>,
}

/// What a connection owns once it uses it: an idle one has none of it.
#[derive(Debug, Default)]
pub(super) struct ColdConnection {
    pub(super) will: Option<Box<Will>>,
    pub(super) aliases_in: AliasesIn,
    pub(super) aliases_out: AliasesOut,
    /// The method it was authenticated with, and may be again.
    pub(super) auth_method: Option<Box<str>>,
    /// When it ends, whatever its client does.
    pub(super) until: Option<Micros>,
    /// When a re-authentication that is under way has to be over.
    pub(super) authenticated_by: Option<Micros>,
    /// What the authentication port was asked of it and has not answered yet.
    pub(super) asked: Option<Ticket>,
    /// Answers that wait, in the order of the requests.
    pub(super) answers: VecDeque<Ticket>,
    /// How many of them are PUBLISHes to the client.
    pub(super) publishes_held: u32,
    /// Bytes of a refused packet that are still to come: nobody looks at them.
    pub(super) skipped_bytes: usize,
    /// Its client has sent DISCONNECT: it ends when its answers have left.
    pub(super) is_leaving: bool,
    /// So many answers that nothing more is read.
    pub(super) is_paused: bool,
    /// Its next packet waits until all answers have left.
    pub(super) is_put_back: bool,
    /// Another shard does not take a message of its client, and no packet says that: it ends where
    /// the acknowledgement would be, and nothing more is read.
    pub(super) is_refused: bool,
    /// A packet of many filters that is handled in slices: nothing more is read.
    pub(super) parked: Option<Box<Parked>>,
}

impl ColdConnection {
    /// Whether nothing is read from it for now, or any more.
    pub(super) fn is_unread(&self) -> bool {
        self.is_paused || self.is_put_back || self.is_refused
    }
}

impl Live {
    pub(super) fn cold(&mut self) -> &mut ColdConnection {
        self.cold.get_or_insert_default()
    }
}

impl Connection {
    pub(super) fn new(refusal: Option<ReasonCode>, now: Micros) -> Self {
        Self { phase: Phase::AwaitConnect(refusal), heard_at: now }
    }

    /// Its client is known.
    pub(super) fn go_live(&mut self, live: Live, now: Micros) {
        self.phase = Phase::Live(live);
        self.heard_at = now;
    }

    /// Bytes were received, of a whole packet or of a part of one.
    #[inline]
    pub(super) fn came(&mut self, is_whole: bool, now: Micros) -> &Phase {
        if is_whole {
            self.heard(now);
        }
        &self.phase
    }

    /// A packet was received, or would have been if the connection were read.
    #[inline]
    pub(super) fn heard(&mut self, now: Micros) {
        if let Phase::Live(_) = self.phase {
            self.heard_at = now;
        }
    }

    /// Whatever it sent was not read: it was not silent, and had no time to CONNECT.
    pub(super) fn excuse(&mut self, now: Micros) {
        self.heard_at = now;
    }

    /// When it is to be ended, if nothing more comes from it.
    pub(super) fn due(&self, connect_timeout_s: u32) -> Option<Micros> {
        let silent_at = self.silent_at(connect_timeout_s);
        match self.cold() {
            None => silent_at,
            Some(cold) => {
                [silent_at, cold.until, cold.authenticated_by].into_iter().flatten().min()
            }
        }
    }

    /// When it has been silent for too long, if nothing more comes from it.
    pub(super) fn silent_at(&self, connect_timeout_s: u32) -> Option<Micros> {
        let silence_max = match &self.phase {
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => Micros::from_secs(connect_timeout_s),
            Phase::Live(Live { keep_alive_s: 0, .. }) => return None,
            // [MQTT-3.1.2-22]
            Phase::Live(live) => Micros(u64::from(live.keep_alive_s) * 1_500_000),
        };
        Some(self.heard_at + silence_max)
    }

    /// When it ends, whatever its client does.
    pub(super) fn until(&self) -> Option<Micros> {
        self.cold()?.until
    }

    /// When its client has to have authenticated again, if it has begun to.
    pub(super) fn authenticated_by(&self) -> Option<Micros> {
        self.cold()?.authenticated_by
    }

    fn cold(&self) -> Option<&ColdConnection> {
        match &self.phase {
            Phase::Live(live) => live.cold.as_deref(),
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => None,
        }
    }

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.phase {
            Phase::Live(live) => Some(live),
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => None,
        }
    }

    pub(super) fn into_live(self) -> Option<Live> {
        match self.phase {
            Phase::Live(live) => Some(live),
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => None,
        }
    }

    /// The CONNECT that waits, to go on with: its client is known, or refused.
    pub(super) fn take_waiting(&mut self) -> Option<Box<AwaitAuth>> {
        let Phase::AwaitAuth(_) = &self.phase else { return None };
        match std::mem::replace(&mut self.phase, Phase::AwaitConnect(None)) {
            Phase::AwaitAuth(waiting) => Some(waiting),
            Phase::AwaitConnect(_) | Phase::Live(_) => None,
        }
    }

    pub(super) fn take_parked(&mut self) -> Option<Box<Parked>> {
        self.live_mut()?.cold.as_mut()?.parked.take()
    }

    pub(super) fn take_will(&mut self) -> Option<Box<Will>> {
        self.live_mut()?.cold.as_mut()?.will.take()
    }
}

/// The CONNECT whose body was kept. It decoded before.
pub(super) fn connect_again(body: &[u8]) -> Option<Connect<'_>> {
    let frame = Frame::of(PacketKind::Connect, body);
    match Packet::decode(Version::V5, frame) {
        Ok(Packet::Connect(connect)) => Some(connect),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert_eq!(size_of::<Option<Connection>>(), 24);
    }
}
