//! TLS 1.3 of a server in the least memory: rustls makes the handshake, then its state is freed,
//! and the records that follow are sealed and opened here (ADR 34).
//!
//! What stays of an idle connection is the keys, the secrets that the next ones follow from, and
//! two counts. There is no second handshake, no ticket of the peer's, and no certificate is asked
//! for later; what a client says beside its content is an alert or a change of its keys.

mod keys;
mod records;
mod secrets;
#[cfg(test)]
mod tests;

use super::shown::Trust;
use super::{Handshakes, RECORD_BYTES_MAX, Tls};
use crate::{Layer, Learnt, Stream, TransportError};
use keys::{Header, Keys};
use records::Records;
use rustls::server::UnbufferedServerConnection;
use rustls::{ExtractedSecrets, ServerConfig};
use secrets::Secrets;
use std::fmt;
use std::sync::Arc;

const APPLICATION_DATA: u8 = 23;

/// One connection.
pub(super) enum Compact {
    Handshake(Box<Handshake>),
    /// Nothing has come but whole records.
    Idle(Records),
    /// With what an idle one does not have.
    Holding(Box<Holding>),
    /// It has failed.
    Over,
}

/// Before the peer has finished.
pub(super) struct Handshake {
    tls: Tls<UnbufferedServerConnection>,
    /// What rustls tells of its keys.
    secrets: Arc<Secrets>,
    /// The start of a record: rustls gets whole ones, so that it opens none that comes behind the
    /// handshake.
    held: Vec<u8>,
}

pub(super) struct Holding {
    records: Records,
    /// The start of a record.
    held: Vec<u8>,
    /// What the peer's certificates say, until somebody asks.
    learnt: Option<Box<Learnt>>,
}

impl Compact {
    /// Of one new connection of a server.
    pub(super) fn new(
        config: &ServerConfig,
        trust: Option<Arc<Trust>>,
        handshakes: &Arc<Handshakes>,
    ) -> Self {
        let secrets = Arc::new(Secrets::default());
        let mut config = config.clone();
        config.key_log = Arc::<Secrets>::clone(&secrets);
        config.enable_secret_extraction = true;
        let engine = UnbufferedServerConnection::new(Arc::new(config)).ok();
        let tls = Tls::new(engine, trust, handshakes);
        Self::Handshake(Box::new(Handshake { tls, secrets, held: Vec::new() }))
    }

    fn handshake(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let Self::Handshake(handshake) = self else { return self.opened(bytes, plain, network) };
        handshake.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut handshake.held);
        let mut done = 0;
        while let Some(record) = first_record(&held[done..]) {
            done += record.len();
            if handshake.tls.received(record, plain, network)? == Stream::Ended {
                return Ok(Stream::Ended);
            }
            if handshake.tls.is_open() {
                let unusable = TransportError::Refused("its keys cannot be taken over from rustls");
                let (records, learnt) =
                    (handshake.finish().ok_or(unusable)?, handshake.tls.learnt.take());
                *self = Self::Idle(records);
                if learnt.is_some() {
                    self.hold(&[], learnt);
                }
                return self.opened(&held[done..], plain, network);
            }
        }
        handshake.held = held[done..].to_vec();
        Ok(Stream::Open)
    }

    fn opened(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        match self {
            Self::Handshake(_) | Self::Over => Ok(Stream::Ended),
            Self::Idle(records) => {
                let (done, ended) = records.open(bytes, plain, network);
                let stream = ended?;
                if done < bytes.len() {
                    self.hold(&bytes[done..], None);
                }
                Ok(stream)
            }
            Self::Holding(holding) => {
                let Holding { records, held, .. } = &mut **holding;
                held.extend_from_slice(bytes);
                let (done, ended) = records.open(held, plain, network);
                let stream = ended?;
                if done > 0 {
                    // Not with all the memory of what is done.
                    *held = held[done..].to_vec();
                }
                self.rest();
                Ok(stream)
            }
        }
    }

    /// What both do leaves no copy of the keys where they were.
    fn hold(&mut self, start: &[u8], learnt: Option<Box<Learnt>>) {
        let Self::Idle(records) = self else { return };
        let held = start.to_vec();
        let mut holding = Box::new(Holding { records: Records::blank(), held, learnt });
        std::mem::swap(records, &mut holding.records);
        *self = Self::Holding(holding);
    }

    /// If there is nothing left to hold.
    fn rest(&mut self) {
        if !matches!(self, Self::Holding(it) if it.held.is_empty() && it.learnt.is_none()) {
            return;
        }
        let held = std::mem::replace(self, Self::Idle(Records::blank()));
        if let (Self::Idle(records), Self::Holding(mut holding)) = (self, held) {
            std::mem::swap(records, &mut holding.records);
        }
    }

    fn records(&mut self) -> Option<&mut Records> {
        match self {
            Self::Handshake(_) | Self::Over => None,
            Self::Idle(records) => Some(records),
            Self::Holding(holding) => Some(&mut holding.records),
        }
    }
}

impl Handshake {
    /// What goes on after it; nothing if rustls does not give that away.
    fn finish(&mut self) -> Option<Records> {
        let engine = self.tls.engine.take().filter(|_| self.tls.held.is_empty())?;
        let (ExtractedSecrets { rx, tx }, _) = engine.dangerous_into_kernel_connection().ok()?;
        let (read, suite) = Keys::new(self.secrets.client()?, (rx.0, &rx.1))?;
        let (write, same) = Keys::new(self.secrets.server()?, (tx.0, &tx.1))?;
        (suite == same).then(|| Records::new(read, write, suite))
    }
}

/// The first record, if all of it is there. What is none is for rustls to refuse.
fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    /// What rustls reads at most: more than TLS 1.3 seals.
    const RECORD_LENGTH_MAX: usize = RECORD_BYTES_MAX + 2048;
    let (&[kind, major, _, high, low], _) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let is_record = (20..=APPLICATION_DATA).contains(&kind) && major == 3;
    match is_record && length <= RECORD_LENGTH_MAX {
        true => bytes.get(..size_of::<Header>() + length),
        false => Some(bytes),
    }
}

impl Layer for Compact {
    fn begin(&mut self, _network: &mut Vec<u8>) {
        // A server waits.
    }

    fn is_open(&self) -> bool {
        matches!(self, Self::Idle(_) | Self::Holding(_))
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let result = self.handshake(bytes, plain, network);
        if result.is_err() {
            *self = Self::Over;
        }
        result
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        if let Some(records) = self.records() {
            records.seal(plain, network);
        }
    }

    fn close(&mut self, network: &mut Vec<u8>) {
        if let Some(records) = self.records() {
            records.close(network);
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Handshake(handshake) => handshake.held.len() + handshake.tls.held(),
            Self::Holding(holding) => holding.held.len(),
            Self::Idle(_) | Self::Over => 0,
        }
    }

    fn learnt(&mut self) -> Learnt {
        let learnt = match self {
            Self::Holding(holding) => holding.learnt.take(),
            _ => None,
        };
        self.rest();
        learnt.map_or_else(Learnt::default, |learnt| *learnt)
    }
}

impl fmt::Debug for Compact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Compact").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
