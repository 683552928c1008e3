//! A listening socket made for connect storms.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen as listen_on};
use rustix::net::{socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections that may wait to be accepted; the system caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where a peer is whose connection is of a unix socket: on this host, and at no port.
pub const UNIX_PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The first file that a process is passed by whoever starts it.
const PASSED_FROM: i32 = 3;

/// Listens on `address`, port 0 for one of the system's choice.
///
/// # Errors
/// What the system says of socket, bind and listen: the port is taken, not allowed, not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listen_at(address, None)
}

/// As [`listen`], for what comes by one network device, if one is given.
///
/// # Errors
/// As those of [`listen`]; no such device; devices may not be chosen by this user.
pub fn listen_at(address: SocketAddr, device: Option<&str>) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    // A broker that is started again need not wait for its old connections to time out.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // `[::]` is every address, whatever the system's default is.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    if let Some(device) = device {
        bind_device(&socket, device)?;
    }
    bind(&socket, &address)?;
    listen_on(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[expect(unsafe_code, reason = "rustix has not this option")]
fn bind_device(socket: &OwnedFd, device: &str) -> io::Result<()> {
    let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    let (name, length) = (device.as_ptr().cast(), device.len() as libc::socklen_t);
    // SAFETY: the option is a name of this length (socket(7)), which lives through the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, name, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The sockets that whoever started the process has passed to it, such as systemd for a unit of
/// sockets, with their names (sd_listen_fds(3)). They are given once: later there are none.
pub fn passed() -> Vec<(String, OwnedFd)> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |key| std::env::var(key).ok()?.parse::<i32>().ok();
    let is_for_us = number("LISTEN_PID").is_some_and(|pid| pid as u32 == std::process::id());
    if !is_for_us || ARE_TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let numbers = PASSED_FROM..PASSED_FROM + number("LISTEN_FDS").unwrap_or(0).clamp(0, 1024);
    numbers
        .filter_map(|file| Some((names.next().unwrap_or("").into(), take_passed(file)?)))
        .collect()
}

#[expect(unsafe_code, reason = "a file is made of its number")]
fn take_passed(file: i32) -> Option<OwnedFd> {
    // SAFETY: it takes no more than a number. Programs that this one starts do not get the file.
    if unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: the file is open, it was passed for this process to own, and each is taken once.
    Some(unsafe { OwnedFd::from_raw_fd(file) })
}
