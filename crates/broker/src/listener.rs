//! An address that the broker listens on, and how those it accepts talk.

mod config;
mod door;
mod place;
mod users;

pub use config::{
    CertificateConfig, IdentityConfig, ListenerConfig, PeerIdentity, ProxyConfig,
    RecordLayerConfig, TlsConfig, TlsVersion,
};
pub use door::TlsFault;

pub(crate) use door::{Door, Front};
pub(crate) use place::{Passed, Place};

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weir_control::SocketFile;
use weir_reactor::{ListenerId, Transport};
use weir_transport::tls::Shown;

/// What is spoken by each listener, and who may come; nothing for plain TCP.
pub(crate) type Doors = Arc<[Option<Arc<Door>>]>;

/// What is kept of a connection's certificates, and the listener that it came by.
pub(crate) type Certified = (ListenerId, Box<Shown>);

#[derive(Debug)]
pub(crate) struct Listener {
    /// Its place in the configuration.
    pub(crate) id: ListenerId,
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// Whether somebody else keeps it listening while no broker runs.
    pub(crate) is_passed: bool,
}

/// A listener, with what goes when the broker ends.
pub(crate) type Bound = (Listener, Option<SocketFile>);

impl Listener {
    /// Listens at `place`; the error says why that cannot be, and what to do.
    pub(crate) fn bind(
        id: ListenerId,
        place: &Place,
        passed: &mut Passed,
        door: Option<&Arc<Door>>,
    ) -> Result<Bound, String> {
        let transport = Self::transport(door);
        let (socket, file) = place.listen(passed)?;
        let is_passed = matches!(place, Place::Systemd(_));
        Ok((Self { id, socket, transport, is_passed }, file))
    }

    /// How those talk that come in by it.
    pub(crate) fn transport(door: Option<&Arc<Door>>) -> Transport {
        match door {
            Some(door) if door.has_layers() => Transport::Layered(Arc::<Door>::clone(door)),
            _ => Transport::Plain,
        }
    }

    /// For another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let Self { id, socket, transport, is_passed } = self;
        let (socket, transport) = (socket.try_clone()?, transport.clone());
        Ok(Self { id: *id, socket, transport, is_passed: *is_passed })
    }
}
