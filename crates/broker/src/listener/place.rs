//! Where a listener listens: an address, the file of a unix socket, a socket that was passed.

use super::config::ListenerConfig;
use rustix::net::sockopt;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use weir_control::SocketFile;

/// Connections that may wait to be accepted by a unix socket; the system caps it.
const BACKLOG: i32 = 4096;

/// Sockets that were passed to the process, by name.
pub(crate) type Passed = Vec<(String, OwnedFd)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An address, and the network device if there is to be just one.
    Address(SocketAddr, Option<String>),
    /// A file, and its permissions.
    Unix(PathBuf, u32),
    /// The socket that systemd has under this name.
    Systemd(String),
}

impl Place {
    /// That of a `[[listener]]` table that is as it must be and has no address.
    pub(crate) fn of(config: &ListenerConfig) -> Option<Self> {
        let unix =
            config.unix.clone().zip(config.mode()).map(|(path, mode)| Self::Unix(path, mode));
        unix.or_else(|| config.systemd.clone().map(Self::Systemd))
    }

    /// Whether only clients of this host can come in by it, as far as is known.
    pub(crate) fn is_of_this_host(&self) -> bool {
        match self {
            Self::Address(address, _) => address.ip().to_canonical().is_loopback(),
            Self::Unix(..) => true,
            Self::Systemd(_) => false,
        }
    }

    /// The file of a unix socket that is there gets its permissions.
    pub(crate) fn set_mode(&self) {
        let Self::Unix(path, mode) = self else { return };
        let mode = PermissionsExt::from_mode(*mode);
        if let Err(error) = std::fs::set_permissions(path, mode) {
            tracing::error!(path = %path.display(), %error, "the permissions stay as they were");
        }
    }

    /// Whether it is the same place, where nobody else could listen.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(path, _), Self::Unix(other, _)) => path == other,
            _ => self == other,
        }
    }

    /// Listens there; the error says why that cannot be, and what to do.
    pub(super) fn listen(
        &self,
        passed: &mut Passed,
    ) -> Result<(OwnedFd, Option<SocketFile>), String> {
        match self {
            Self::Address(address, device) => {
                let device = device.as_deref();
                let socket = weir_reactor::listen_at(*address, device);
                Ok((socket.map_err(|error| hint(*address, device, &error))?.into(), None))
            }
            Self::Unix(path, mode) => {
                let listening = weir_control::listen(path, *mode, BACKLOG, "listener.unix");
                let (socket, file) = listening.map_err(|error| error.to_string())?;
                Ok((socket, Some(file)))
            }
            Self::Systemd(name) => Ok((take(name, passed)?, None)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, None) => write!(out, "{address}"),
            Self::Address(address, Some(device)) => write!(out, "{address} of {device}"),
            Self::Unix(path, _) => write!(out, "{}", path.display()),
            Self::Systemd(name) => write!(out, "systemd's socket {name}"),
        }
    }
}

/// The one socket of that name, which listens.
fn take(name: &str, passed: &mut Passed) -> Result<OwnedFd, String> {
    let count = passed.iter().filter(|(other, _)| other == name).count();
    let others = || {
        let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    if count != 1 {
        let why = if count == 0 { "no socket of this name" } else { "several of this name" };
        return Err(format!(
            "{why} was passed to this process ({} was); start it by a unit of systemd whose \
             .socket says FileDescriptorName={name}",
            others()
        ));
    }
    let at = passed.iter().position(|(other, _)| other == name).unwrap_or_default();
    let (_, socket) = passed.swap_remove(at);
    match sockopt::socket_acceptconn(&socket) {
        Ok(true) => Ok(socket),
        _ => Err("it does not listen; its unit must say ListenStream, and Accept=no".into()),
    }
}

/// Why, and what to do.
fn hint(address: SocketAddr, device: Option<&str>, error: &io::Error) -> String {
    use io::ErrorKind;
    match (error.kind(), device) {
        (ErrorKind::AddrInUse, _) => format!(
            "the port is taken; stop what listens there, or choose another with --listen {}:PORT",
            if address.is_ipv6() {
                format!("[{}]", address.ip())
            } else {
                address.ip().to_string()
            }
        ),
        (ErrorKind::PermissionDenied, Some(device)) => format!(
            "it takes the capability CAP_NET_RAW to choose {device}; ports below 1024 need \
             privileges as well"
        ),
        (ErrorKind::PermissionDenied, None) => {
            "ports below 1024 need privileges; choose another with --listen HOST:PORT".into()
        }
        (ErrorKind::AddrNotAvailable, _) => {
            "this host has no such address; choose one of its own with --listen HOST:PORT".into()
        }
        (_, Some(device))
            if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
        {
            format!(
                "this host has no network device {device}; name another in listener.bind_device"
            )
        }
        _ => error.to_string(),
    }
}
