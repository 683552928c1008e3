//! What the broker says to whoever started it: that it serves, by a line of the log, and what
//! systemd's `Type=notify` has.

use crate::stopper::{Asked, Stopper};
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::Ordering;

/// The socket that systemd listens on.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// One of those that the broker waits for is there. With the last, it serves.
pub(crate) fn open(asked: &Asked, stopper: &Stopper) {
    let is_open = asked.open();
    stopper.wake();
    if is_open && !asked.stop.load(Ordering::Acquire) {
        announce();
    }
}

fn announce() {
    tracing::info!("ready");
    tell("READY=1");
}

/// Tells systemd, where that has started the broker.
pub(super) fn tell(state: &str) {
    let Some(name) = std::env::var_os(NOTIFY_SOCKET) else { return };
    if let Err(error) = notify(&name, state) {
        tracing::warn!(%error, "{NOTIFY_SOCKET} cannot be told {state}");
    }
}

fn notify(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_either_kind_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("@weir-ready-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name[1..]).unwrap();
        for (socket, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str()),
            (UnixDatagram::bind_addr(&address).unwrap(), OsStr::new(&abstract_name)),
        ] {
            notify(name, "READY=1").unwrap();
            let mut said = [0; 16];
            let count = socket.recv(&mut said).unwrap();
            assert_eq!(&said[..count], b"READY=1");
        }
        assert!(notify(OsStr::new("/nobody/listens"), "READY=1").is_err());
    }
}
