//! A listening socket made for connect storms.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen as listen_on};
use rustix::net::{socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that may wait to be accepted; the system caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Listens on `address`, port 0 for one of the system's choice.
///
/// # Errors
/// What the system says of socket, bind and listen: the port is taken, not allowed, not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    // A broker that is started again need not wait for its old connections to time out.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen_on(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
