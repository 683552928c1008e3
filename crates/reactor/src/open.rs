//! How sockets come into a reactor, as files or as direct descriptors, and leave it alive.

use crate::io::{Io, RINGS};
use crate::socket::{Link, Socket, State};
use crate::uring::{Rings, Slot};
use crate::{Backend, Token};
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};
use std::io;
use std::net::{IpAddr, SocketAddr};

impl Io {
    /// Begins to connect; `connected` or `closed` of the handler follows. With `source` the
    /// connection comes from that address and a port the system picks.
    ///
    /// # Errors
    /// What the system says of socket, bind and connect: no more files, no more ports.
    pub fn connect(&mut self, peer: SocketAddr, source: Option<IpAddr>) -> io::Result<Token> {
        if self.wants_direct() {
            return self.connect_direct(peer, source);
        }
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = match socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)) {
            Ok(fd) if self.fits(&fd) => fd,
            Err(errno) if !self.spills(errno) => return Err(errno.into()),
            Ok(_) | Err(_) => return self.connect_direct(peer, source),
        };
        sockopt::set_tcp_nodelay(&fd, true)?;
        if let Some(source) = source {
            pick_port_late(&fd);
            bind(&fd, &SocketAddr::new(source, 0))?;
        }
        match connect(&fd, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.insert_file(fd, State::Connecting)
    }

    fn connect_direct(&mut self, peer: SocketAddr, source: Option<IpAddr>) -> io::Result<Token> {
        let slot = self.take_slot()?;
        let rings = self.rings.as_mut().expect("a slot is of a ring");
        let entry = self.sockets.vacant_entry();
        let (token, serial) = (Token(entry.key() as u32), rings.next_serial());
        rings.connect((slot, serial, token), peer, source)?;
        entry.insert(Socket::new(Link::Direct(slot), serial, State::Connecting));
        Ok(token)
    }

    /// Gives the connection away, to another reactor: [`Io::adopt`]. Its output must have been
    /// sent. The handler hears nothing more of it.
    ///
    /// # Errors
    /// A connection that is closing, or of which something was read that its handler has not
    /// heard of (it is not the one being handled), or what the system says of `dup`: no more files.
    pub fn give_away(&mut self, token: Token) -> io::Result<OwnedFd> {
        let socket = self
            .sockets
            .get(token.0 as usize)
            .filter(|socket| socket.state == State::Live && socket.pending() == 0)
            .filter(|socket| !socket.reading);
        let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
        let fd = match (&socket.link, &mut self.rings) {
            (Link::Direct(slot), Some(rings)) => rings.open_file(*slot)?,
            (Link::Direct(_), None) => return Err(io::ErrorKind::NotConnected.into()),
            (Link::File(file), _) => {
                let fd = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
                // Else the other descriptor would keep reporting readiness here.
                epoll::delete(&self.epoll, file)?;
                fd
            }
        };
        self.kill(token);
        Ok(fd)
    }

    /// Takes a connection that another reactor gave away.
    ///
    /// # Errors
    /// What the system says of epoll, or of io_uring.
    pub fn adopt(&mut self, fd: OwnedFd) -> io::Result<Token> {
        if !self.wants_direct() && self.fits(&fd) {
            return self.insert_file(fd, State::Live);
        }
        let slot = self.take_slot()?;
        let rings = self.rings.as_mut().expect("a slot is of a ring");
        rings.install(slot, &fd).inspect_err(|_| rings.free_slot(slot))?;
        Ok(self.insert_direct(slot, State::Live))
    }

    /// Whether the next socket need not be tried as a file.
    pub(crate) fn wants_direct(&self) -> bool {
        self.backend == Backend::IoUring || self.files_are_full
    }

    /// Whether a socket may stay a file. If not, neither may the next.
    pub(crate) fn fits(&mut self, fd: &OwnedFd) -> bool {
        let fits = self.backend != Backend::Auto || fd.as_raw_fd() < self.spill_from;
        fits || !self.spills(Errno::MFILE)
    }

    /// Whether a socket can be a direct descriptor that cannot be a file, for this reason.
    pub(crate) fn spills(&mut self, errno: Errno) -> bool {
        if self.backend != Backend::Auto || errno != Errno::MFILE {
            return false;
        }
        if self.rings.is_none()
            && let Err(error) = self.begin_rings()
        {
            // Else it is a shortage that may pass.
            if error.kind() == io::ErrorKind::Unsupported {
                tracing::warn!("{error}; connections are bounded by the limit on open files");
                self.backend = Backend::Epoll;
            }
            return false;
        }
        self.files_are_full = true;
        true
    }

    /// Makes the first ring.
    pub(crate) fn begin_rings(&mut self) -> io::Result<()> {
        let rings = self.rings.insert(Rings::new()?);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, rings.event(), epoll::EventData::new_u64(RINGS), flags)?;
        tracing::info!("connections are direct descriptors of io_uring from here on");
        Ok(())
    }

    /// A free slot, in a new ring if need be.
    pub(crate) fn take_slot(&mut self) -> io::Result<Slot> {
        let Some(rings) = &mut self.rings else { return Err(Errno::MFILE.into()) };
        if let Some(slot) = rings.take_slot() {
            return Ok(slot);
        }
        rings.grow()?;
        rings.take_slot().ok_or(Errno::MFILE.into())
    }

    pub(crate) fn insert_file(&mut self, fd: OwnedFd, state: State) -> io::Result<Token> {
        let entry = self.sockets.vacant_entry();
        let token = Token(u32::try_from(entry.key()).map_err(|_| io::ErrorKind::OutOfMemory)?);
        let interest = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::from(token.0));
        epoll::add(&self.epoll, &fd, data, interest)?;
        entry.insert(Socket::new(Link::File(fd), 0, state));
        Ok(token)
    }

    pub(crate) fn insert_direct(&mut self, slot: Slot, state: State) -> Token {
        let rings = self.rings.as_mut().expect("a slot is of a ring");
        let serial = rings.next_serial();
        let token = self.sockets.insert(Socket::new(Link::Direct(slot), serial, state));
        let token = Token(token as u32);
        rings.poll(slot, serial, token);
        token
    }
}

/// Has connect pick the port instead of bind: bind knows one end only, so it takes a port that
/// nothing else uses, searches long for it, and finds none while old connections time out.
#[expect(unsafe_code, reason = "rustix has not this option")]
fn pick_port_late(fd: &OwnedFd) {
    let on = 1i32;
    let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option is an int (ip(7)) and lives through the call. Without it bind picks.
    unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const on).cast(), length) };
}
