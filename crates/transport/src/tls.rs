//! TLS 1.2 and 1.3 as a layer: what rustls decides, between two byte vectors.
//!
//! It stands on rustls' unbuffered connections, which keep no buffer of their own. So an idle
//! connection holds its keys and state, and nothing of what passed.

mod certificate;
mod client;
mod compact;
mod faults;
mod handshakes;
mod naming;
mod revoked;
mod server;
mod setup;
mod shown;
mod tickets;

pub use certificate::{Certified, Dates};
pub use client::{Client, ClientError, ClientSettings, IdentityText};
pub use faults::{NO_TLS, NOT_TRUSTED, OTHER_NAME};
pub use handshakes::Handshakes;
pub use naming::Naming;
pub use revoked::Revoked;
pub use server::{CipherSuite, ClientAuth, RecordLayer, Server, Setup};
pub use setup::{
    Certificates, Identity, PemError, PrivateKey, SetupError, Version, pem_of_authorities,
};
pub use shown::Shown;

use crate::{Layer, Learnt, Stream, TransportError};
use faults::fault;
use handshakes::Handshake;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon,
    UnbufferedStatus,
};
use shown::Trust;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Plain bytes of one record.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// What a record has beyond its plain bytes, in every version and cipher suite there is here, or
/// more.
const RECORD_OVERHEAD: usize = 64;

/// One side of a connection.
trait Engine: Deref<Target = UnbufferedConnectionCommon<Self::Side>> + Send {
    type Side;

    fn step<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side>;

    fn is_open(&self) -> bool {
        !self.is_handshaking()
    }

    /// Whether a step would bring something to say, before it looks at its bytes.
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
}

impl Engine for UnbufferedServerConnection {
    type Side = ServerConnectionData;

    fn step<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side> {
        self.process_tls_records(bytes)
    }
}

impl Engine for UnbufferedClientConnection {
    type Side = ClientConnectionData;

    fn step<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Side> {
        self.process_tls_records(bytes)
    }
}

struct Tls<E> {
    /// None if rustls would not begin it, which its first call says.
    engine: Option<E>,
    /// Which certificates of the peer count, if it is asked for some.
    trust: Option<Arc<Trust>>,
    /// What its certificates say, until somebody asks.
    learnt: Option<Box<Learnt>>,
    handshake: Handshake,
    /// The start of a record, or of a message of the handshake, whose rest has not come.
    held: Vec<u8>,
}

/// Why a round of [`Tls::advance`] ended.
enum Paused {
    /// More has to come.
    Starved,
    /// The peer has said that it sends no more.
    Ended,
}

impl<E: Engine> Tls<E> {
    /// Its handshake is counted among `handshakes`.
    fn new(engine: Option<E>, trust: Option<Arc<Trust>>, handshakes: &Arc<Handshakes>) -> Self {
        let handshake = Handshake::new(handshakes);
        Self { engine, trust, learnt: None, handshake, held: Vec::new() }
    }

    /// The handshake is over: takes what the peer's certificates say, if it shows some.
    fn learn(&mut self) -> Result<(), TransportError> {
        let Self { engine: Some(engine), trust: Some(trust), .. } = self else { return Ok(()) };
        let Some(all @ [own, ..]) = engine.peer_certificates() else { return Ok(()) };
        let no_name = TransportError::Refused("its certificate names no user");
        let name = trust.naming.map(|naming| naming.name(own).ok_or(no_name)).transpose()?;
        let shown = trust.note(all).map(Box::new);
        self.learnt = Some(Box::new(Learnt { peer: None, name, shown }));
        Ok(())
    }

    /// Decodes as much as there is of `bytes`. Returns how many of them are done with.
    fn advance(
        engine: &mut E,
        bytes: &mut [u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> (usize, Result<Paused, rustls::Error>) {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } = engine.step(&mut bytes[done..]);
            let paused = match state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, network);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        plain.extend_from_slice(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    Some(Ok(Paused::Ended))
                }
                // Early data is never agreed to, and there is nothing else.
                Ok(_) => Some(Ok(Paused::Starved)),
                Err(error) => Some(Err(error)),
            };
            done += discard;
            if let Some(paused) = paused {
                return (done, paused);
            }
        }
    }

    /// Appends what rustls has to say still, such as the alert after an error.
    fn say_rest(engine: &mut E, network: &mut Vec<u8>) {
        while engine.has_to_say() {
            let Ok(ConnectionState::EncodeTlsData(data)) = engine.step(&mut []).state else {
                return;
            };
            encode(data, network);
        }
    }

    /// Seals `plain`, or with none of it says the end, behind what is to be said before.
    fn write(&mut self, plain: Option<&[u8]>, network: &mut Vec<u8>) {
        let Self { engine: Some(engine), held, .. } = self else { return };
        let bytes = plain.map_or(0, <[u8]>::len);
        let mut room = bytes + (bytes / RECORD_BYTES_MAX + 1) * RECORD_OVERHEAD;
        loop {
            // rustls knows places in what is held, so it has to see that here as well.
            let UnbufferedStatus { discard, state, .. } = engine.step(held);
            let is_over = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let start = network.len();
                    network.resize(start + room, 0);
                    let written = match plain {
                        Some(plain) => traffic.encrypt(plain, &mut network[start..]),
                        None => traffic.queue_close_notify(&mut network[start..]),
                    };
                    network.truncate(start + *written.as_ref().unwrap_or(&0));
                    match written {
                        Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                            room = size.required_size;
                            false
                        }
                        // Keys that have sealed as much as they may end the connection.
                        _ => true,
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, network);
                    false
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    false
                }
                _ => true,
            };
            held.drain(..discard);
            if is_over {
                return Self::say_rest(engine, network);
            }
        }
    }
}

fn encode<S>(mut data: EncodeTlsData<'_, S>, network: &mut Vec<u8>) {
    let start = network.len();
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        network.resize(start + size.required_size, 0);
        // There is as much room as it wants.
        let written = data.encode(&mut network[start..]).unwrap_or_default();
        network.truncate(start + written);
    }
}

impl<E: Engine> Layer for Tls<E> {
    fn begin(&mut self, network: &mut Vec<u8>) {
        if let Some(engine) = &mut self.engine {
            Self::say_rest(engine, network);
        }
    }

    fn is_open(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::is_open)
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let Some(engine) = &mut self.engine else {
            return Err(TransportError::Refused("this side cannot begin a session"));
        };
        self.handshake.heard();
        self.held.extend_from_slice(bytes);
        let mut held = std::mem::take(&mut self.held);
        let (was_open, start) = (engine.is_open(), plain.len());
        let (done, paused) = Self::advance(engine, &mut held, plain, network);
        if !was_open && engine.is_open() {
            let kind = engine.handshake_kind();
            if let Err(error) = self.learn() {
                // Nothing is heard of whom nobody knows.
                plain.truncate(start);
                self.held = held.split_off(done);
                self.write(None, network);
                return Err(error);
            }
            self.handshake.over(kind);
        }
        let Some(engine) = &mut self.engine else { return Ok(Stream::Ended) };
        match paused {
            Ok(Paused::Ended) => Ok(Stream::Ended),
            Ok(Paused::Starved) => {
                if done == 0 {
                    self.held = held;
                } else if done < held.len() {
                    // Not with all the memory of what is done.
                    self.held = held[done..].to_vec();
                }
                Ok(Stream::Open)
            }
            Err(error) => {
                let was_open = engine.is_open();
                Self::say_rest(engine, network);
                Err(fault(&error, was_open))
            }
        }
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        self.write(Some(plain), network);
    }

    fn close(&mut self, network: &mut Vec<u8>) {
        if self.is_open() {
            self.write(None, network);
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn learnt(&mut self) -> Learnt {
        self.learnt.take().map_or_else(Learnt::default, |learnt| *learnt)
    }
}

impl<E: Engine> fmt::Debug for Tls<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_open = self.is_open();
        out.debug_struct("Tls").field("is_open", &is_open).finish_non_exhaustive()
    }
}
