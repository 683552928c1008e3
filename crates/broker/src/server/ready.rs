//! That the broker serves is said to whoever started it: by a line of the log, and as systemd's
//! `Type=notify` has it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket that systemd listens on.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

pub(super) fn announce() {
    tracing::info!("ready");
    let Some(name) = std::env::var_os(NOTIFY_SOCKET) else { return };
    if let Err(error) = notify(&name) {
        tracing::warn!(%error, "{NOTIFY_SOCKET} cannot be told that the broker is ready");
    }
}

fn notify(name: &OsStr) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
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
            notify(name).unwrap();
            let mut said = [0; 16];
            let count = socket.recv(&mut said).unwrap();
            assert_eq!(&said[..count], b"READY=1");
        }
        assert!(notify(OsStr::new("/nobody/listens")).is_err());
    }
}
