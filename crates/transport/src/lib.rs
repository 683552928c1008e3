//! What stands between the bytes of a socket and those of MQTT: layers such as TLS, WebSocket and
//! PROXY, as values without I/O.
//!
//! A [`Transport`] says which layers the connections of a listener, or those to a broker, have.
//! [`Layers`] are those of one connection, network side first. The reactor owns both and calls
//! them; who handles connections sees plain bytes only. Plain TCP has no layers.
//!
//! `tls` has chance and the time of day from rustls: keys need the one, certificates the other.

mod layers;
pub mod proxy;
mod route;
pub mod tls;
pub mod ws;

pub use layers::{Layers, Scratch};
pub use route::Route;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes that one layer may hold of input that it cannot decode yet, such as the start of a frame.
/// Whoever makes it hold more is cut off.
pub const UNDECODED_BYTES_MAX: usize = 64 * 1024;

/// How connections talk.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// TCP as it is.
    #[default]
    Plain,
    /// TCP below the layers that this makes for each connection.
    Layered(Arc<dyn Recipe>),
}

impl Transport {
    /// The layers of a new connection, if it has some.
    pub fn layers(&self) -> Option<Layers> {
        match self {
            Self::Plain => None,
            Self::Layered(recipe) => Some(recipe.layers()),
        }
    }
}

/// Makes the layers of each connection: a listener's those of a server, others those of a client.
pub trait Recipe: fmt::Debug + Send + Sync {
    /// For one new connection.
    fn layers(&self) -> Layers;
}

/// One layer of one connection. What it appends to `network` goes towards the peer; it never takes
/// away what is there.
pub trait Layer: fmt::Debug + Send {
    /// There is a connection below: writes what this side says first.
    fn begin(&mut self, network: &mut Vec<u8>);

    /// Whether its handshake is over: only from then on may [`Layer::received`] bring plain bytes
    /// and is [`Layer::send`] called.
    fn is_open(&self) -> bool;

    /// Bytes came from below, split anywhere. Appends to `plain` what they mean to the layer
    /// above, and to `network` what this layer answers by itself. It may hold up to
    /// [`UNDECODED_BYTES_MAX`] bytes, and it brings no more plain bytes than it got so far.
    ///
    /// # Errors
    /// What ends the connection. `plain` has what came before it, and `network` what is still to
    /// be said. The layer is not called again.
    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError>;

    /// Writes `plain`, which is everything that leaves at this time: one record, not one for each
    /// packet in it.
    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>);

    /// This side ends the connection: writes what the layer says then. Nothing is sent after it.
    fn close(&mut self, network: &mut Vec<u8>);

    /// Bytes of input that it holds.
    fn held(&self) -> usize;

    /// What its handshake has said of the peer. Asked once, when the layer is open.
    /// After it, [`Layer::received`] is called with what has come meanwhile, or with nothing.
    fn learnt(&mut self) -> Learnt {
        Learnt::default()
    }

    /// Whether it only hands bytes on from now on, both ways: then it leaves.
    fn is_done(&self) -> bool {
        false
    }
}

/// What layers have learnt of the peer that the socket does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Where the peer is, if the other end of the socket only speaks for it.
    pub peer: Option<SocketAddr>,
    /// The user that the peer has shown to be; not empty.
    pub name: Option<Box<str>>,
    /// What is to be kept of the certificates that it has shown.
    pub shown: Option<Box<tls::Shown>>,
}

/// Whether more can come from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// It can.
    Open,
    /// The peer has ended it in good order.
    Ended,
}

/// Why a layer ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The peer sent bytes that the layer's format does not allow, or that somebody has changed.
    #[error("the peer sent what its transport does not allow: {0}")]
    Malformed(&'static str),
    /// The peer is not let in: what it has shown is not enough.
    #[error("the peer was refused by its transport: {0}")]
    Refused(&'static str),
    /// The peer does not let this side in.
    #[error("the peer has ended it: {0}")]
    Declined(&'static str),
    /// The peer answered the request for a WebSocket, and not by opening one.
    #[error("the peer answered the request for a WebSocket by HTTP status {code}{}", status(*code))]
    NoWebSocket {
        /// The status.
        code: u16,
    },
    /// A layer holds more than [`UNDECODED_BYTES_MAX`].
    #[error("the peer sent a frame of more than {UNDECODED_BYTES_MAX} bytes that cannot be split")]
    TooLong,
    /// This side is short of memory, and a layer holds more than it may then.
    #[error("memory is short, and the peer has sent a part of a frame only")]
    MemoryShort,
}

/// What a status says to whoever asked for a WebSocket.
const fn status(code: u16) -> &'static str {
    match code {
        404 => ": it does not serve this path",
        400 | 426 => ": it does not take the request",
        401 | 403 => ": it does not let this side in",
        _ => "",
    }
}
