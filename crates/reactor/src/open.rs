//! How sockets come into a reactor, as files or as direct descriptors.

use crate::backend::Backend;
use crate::io::{Io, RINGS};
use crate::layered::Layered;
use crate::socket::{Descriptor, Input, Socket, State};
use crate::token::Token;
use crate::uring::{Rings, Slot};
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with,
    sockopt,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use weir_transport::Transport;

impl Io {
    /// Begins to connect; `connected` or `closed` of the handler follows. With `source` the
    /// connection comes from that address and a port the system picks.
    ///
    /// # Errors
    /// What the system says of socket, bind and connect: no more files, no more ports.
    pub fn connect(
        &mut self,
        transport: &Transport,
        peer: SocketAddr,
        source: Option<IpAddr>,
    ) -> io::Result<Token> {
        let token = self.connect_socket(peer, source)?;
        self.put_layers(token, transport, false);
        Ok(token)
    }

    /// Connects to a unix socket, as a file; `connected` or `closed` of the handler follows.
    ///
    /// # Errors What the system says: a path too long, no such file, nobody who listens there, no
    /// more files.
    pub fn connect_unix(&mut self, transport: &Transport, path: &Path) -> io::Result<Token> {
        let address = SocketAddrUnix::new(path)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&fd, &address)?;
        let token = self.insert_file(fd, State::Connecting)?;
        self.put_layers(token, transport, false);
        Ok(token)
    }

    fn connect_socket(&mut self, peer: SocketAddr, source: Option<IpAddr>) -> io::Result<Token> {
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
        entry.insert(Socket::new(Descriptor::Direct(slot), serial, State::Connecting));
        Ok(token)
    }

    /// Takes an open file in, as a file or as a direct descriptor.
    pub(crate) fn insert(&mut self, fd: OwnedFd) -> io::Result<Token> {
        if !self.wants_direct() && self.fits(&fd) {
            return self.insert_file(fd, State::Live);
        }
        self.install(&fd)
    }

    /// As [`Io::insert`], of a file that was given away: where there is no room for it as a direct
    /// descriptor, it stays a file.
    pub(crate) fn insert_moved(&mut self, fd: OwnedFd) -> io::Result<Token> {
        if (self.wants_direct() || !self.fits(&fd))
            && let Ok(token) = self.install(&fd)
        {
            return Ok(token);
        }
        self.insert_file(fd, State::Live)
    }

    /// Makes a direct descriptor of an open file, which the caller closes.
    fn install(&mut self, fd: &OwnedFd) -> io::Result<Token> {
        let slot = self.take_slot()?;
        let rings = self.rings.as_mut().expect("a slot is of a ring");
        rings.install(slot, fd).inspect_err(|_| rings.free_slot(slot))?;
        Ok(self.insert_direct(slot, State::Live))
    }

    /// Gives a new connection its layers. `is_told` says that the handler knows of it before they
    /// are open.
    pub(crate) fn put_layers(&mut self, token: Token, transport: &Transport, is_told: bool) {
        let Some(layers) = transport.layers() else { return };
        let layered = Layered::new(layers, is_told);
        let socket = &mut self.sockets[token.0 as usize];
        socket.input = Some(Box::new(Input::Layered(layered)));
    }

    /// A connection is there: its layers begin. Says whether the handler is to be told now, which
    /// is at once without layers.
    pub(crate) fn begin_layers(&mut self, token: Token) -> bool {
        let Self { sockets, pool, scratch, .. } = self;
        let socket = &mut sockets[token.0 as usize];
        let opens = match socket.layered() {
            None => true,
            Some(layered) => {
                layered.begin(pool, scratch);
                layered.opens()
            }
        };
        if socket.pending() > 0 {
            self.list(token);
        }
        opens
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
        entry.insert(Socket::new(Descriptor::File(fd), 0, state));
        Ok(token)
    }

    pub(crate) fn insert_direct(&mut self, slot: Slot, state: State) -> Token {
        let rings = self.rings.as_mut().expect("a slot is of a ring");
        let serial = rings.next_serial();
        let token = self.sockets.insert(Socket::new(Descriptor::Direct(slot), serial, state));
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
