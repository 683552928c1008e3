//! An address that the broker listens on, and how those it accepts talk.

mod config;
mod door;

pub use config::{
    CertificateConfig, IdentityConfig, ListenerConfig, RecordLayerConfig, TlsConfig, TlsVersion,
};
pub use door::TlsFault;

pub(crate) use door::Door;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use weir_reactor::{ListenerId, Transport};

/// What is spoken by each listener; nothing for plain TCP.
pub(crate) type Doors = Arc<[Option<Arc<Door>>]>;

pub(crate) struct Listener {
    /// Its place in the configuration.
    pub(crate) id: ListenerId,
    pub(crate) socket: TcpListener,
    pub(crate) transport: Transport,
}

impl Listener {
    /// Listens on `address`; the error says why that cannot be, and what to do.
    pub(crate) fn bind(
        id: ListenerId,
        address: SocketAddr,
        transport: Transport,
    ) -> Result<Self, String> {
        let socket = weir_reactor::listen(address).map_err(|error| hint(address, &error))?;
        Ok(Self { id, socket, transport })
    }

    /// For another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let Self { id, socket, transport } = self;
        Ok(Self { id: *id, socket: socket.try_clone()?, transport: transport.clone() })
    }
}

/// Why, and what to do.
fn hint(address: SocketAddr, error: &io::Error) -> String {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "the port is taken; stop what listens there, or choose another with --listen {}:PORT",
            if address.is_ipv6() {
                format!("[{}]", address.ip())
            } else {
                address.ip().to_string()
            }
        ),
        ErrorKind::PermissionDenied => {
            "ports below 1024 need privileges; choose another with --listen HOST:PORT".into()
        }
        ErrorKind::AddrNotAvailable => {
            "this host has no such address; choose one of its own with --listen HOST:PORT".into()
        }
        _ => error.to_string(),
    }
}
