//! What a handler may do with its connections during a turn.

use crate::Token;
use crate::gather::{GATHERED_BYTES_MAX, Gather};
use crate::socket::{Closed, LINGER, Socket, State};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, bind, connect, ipproto, send,
    shutdown, socket_with, sockopt,
};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Output buffers kept for reuse, and the largest that is kept.
const POOL_BUFFERS_MAX: usize = 4096;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A connection that had more output than this, and sent all of it, is reported as drained.
pub(crate) const DRAINED_BYTES_MIN: usize = 64 * 1024;

/// Connections that may linger at once; the oldest is cut for a newer one.
const LINGERING_MAX: usize = 10_000;

pub(crate) const WAKER: u64 = u64::MAX;
pub(crate) const LISTENER: u64 = 1 << 40;

/// What the reactor counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Loop turns.
    pub turns: u64,
    /// Calls of recv that brought data.
    pub reads: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Calls of send that took data.
    pub writes: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections that could not be accepted, by any error.
    pub accept_errors: u64,
}

/// The connections of one reactor.
#[derive(Debug)]
pub struct Io {
    pub(crate) epoll: OwnedFd,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) dirty: Vec<Token>,
    pub(crate) gather: Gather,
    pub(crate) again: Vec<Token>,
    pub(crate) dead: Vec<Token>,
    /// Had much output, sent all of it in the last flush.
    pub(crate) drained: Vec<Token>,
    pub(crate) lingering: VecDeque<(u64, Token)>,
    pub(crate) pool: Vec<Vec<u8>>,
    pub(crate) now_us: u64,
    pub(crate) stats: IoStats,
}

impl Io {
    pub(crate) fn new(epoll: OwnedFd) -> Self {
        Self {
            epoll,
            sockets: Slab::new(),
            dirty: Vec::new(),
            gather: Gather::default(),
            again: Vec::new(),
            dead: Vec::new(),
            drained: Vec::new(),
            lingering: VecDeque::new(),
            pool: Vec::new(),
            now_us: crate::now_us(),
            stats: IoStats::default(),
        }
    }

    /// The time this turn began, in microseconds of [`crate::now_us`].
    pub fn turn_us(&self) -> u64 {
        self.now_us
    }

    /// What was counted so far.
    pub fn stats(&self) -> IoStats {
        self.stats
    }

    /// Sockets that are open, lingering ones included.
    pub fn connections(&self) -> usize {
        self.sockets.len()
    }

    /// While the thread is busy more than half its time, output written by [`Io::write_gathered`]
    /// waits for at most so long; zero, the default, is never.
    pub fn set_gather(&mut self, wait: std::time::Duration) {
        self.gather.set_wait_us(wait.as_micros() as u64);
    }

    /// Appends `bytes` to the connection's output; they leave at the end of the turn. Nothing
    /// happens if the connection is closing. The caller keeps the output bounded, by
    /// [`Io::pending`].
    #[inline]
    pub fn write(&mut self, token: Token, bytes: &[u8]) {
        let Some(socket) = self.append(token, bytes) else { return };
        if !socket.dirty && !socket.blocked {
            socket.dirty = true;
            self.dirty.push(token);
        }
    }

    /// As [`Io::write`], but while the thread is busy the bytes may wait for more to leave with
    /// them: [`Io::set_gather`].
    #[inline]
    pub fn write_gathered(&mut self, token: Token, bytes: &[u8]) {
        let Some(socket) = self.sockets.get(token.0 as usize) else { return };
        if !self.gather.waits(socket.flushed) {
            return self.write(token, bytes);
        }
        let Some(socket) = self.append(token, bytes) else { return };
        if socket.dirty || socket.blocked {
            return;
        }
        if socket.pending() >= GATHERED_BYTES_MAX {
            socket.dirty = true;
            self.dirty.push(token);
        } else if !socket.gathers {
            socket.gathers = true;
            self.gather.wait(token);
        }
    }

    #[inline]
    fn append(&mut self, token: Token, bytes: &[u8]) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(token.0 as usize)?;
        if !matches!(socket.state, State::Live | State::Connecting) {
            return None;
        }
        if socket.out.capacity() == 0
            && let Some(buffer) = self.pool.pop()
        {
            socket.out = buffer;
        }
        socket.out.extend_from_slice(bytes);
        Some(socket)
    }

    /// What gathered is to leave in this turn.
    pub(crate) fn end_gathering(&mut self) {
        let waiting = self.gather.take();
        for &token in &waiting {
            // The token may name another connection by now: one that does not gather.
            let Some(socket) = self.sockets.get_mut(token.0 as usize) else { continue };
            if std::mem::take(&mut socket.gathers) && !socket.dirty && !socket.blocked {
                socket.dirty = true;
                self.dirty.push(token);
            }
        }
        self.gather.put_back(waiting);
    }

    /// Bytes of output that wait to be sent.
    #[inline]
    pub fn pending(&self, token: Token) -> usize {
        self.sockets.get(token.0 as usize).map_or(0, Socket::pending)
    }

    /// Ends the connection in good order: what was written is sent, then the write half is shut.
    /// The handler hears nothing more of it.
    pub fn close(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        match socket.state {
            State::Live => {
                socket.state = State::Lingering;
                socket.partial = Vec::new();
                if !socket.dirty {
                    socket.dirty = true;
                    self.dirty.push(token);
                }
                self.lingering.push_back((self.now_us + LINGER.as_micros() as u64, token));
                if self.lingering.len() > LINGERING_MAX
                    && let Some((_, oldest)) = self.lingering.pop_front()
                {
                    self.cut(oldest);
                }
            }
            State::Connecting => self.kill(token),
            State::Lingering | State::Dead => {}
        }
    }

    /// Ends the connection at once with a reset: unsent output is lost and no port is left in
    /// TIME_WAIT. The handler hears nothing more of it.
    pub fn abort(&mut self, token: Token) {
        let Some(socket) = self.sockets.get(token.0 as usize) else { return };
        // A socket that cannot linger is closed all the same.
        let _ = sockopt::set_socket_linger(&socket.fd, Some(std::time::Duration::ZERO));
        self.kill(token);
    }

    /// Stops reading from the connection: the peer will feel it through TCP.
    pub fn pause(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get_mut(token.0 as usize) {
            socket.paused = true;
        }
    }

    /// Reads from the connection again.
    pub fn resume(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        socket.paused = false;
        // Readiness may have been reported while nobody listened.
        self.read_again(token);
    }

    /// Begins to connect; `connected` or `closed` of the handler follows. With `source` the
    /// connection comes from that address and a port the system picks.
    ///
    /// # Errors
    /// What the system says of socket, bind and connect: no more files, no more ports.
    pub fn connect(&mut self, peer: SocketAddr, source: Option<IpAddr>) -> io::Result<Token> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        if let Some(source) = source {
            bind(&fd, &SocketAddr::new(source, 0))?;
        }
        match connect(&fd, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.insert(Socket::new(fd, State::Connecting))
    }

    /// Gives the connection away, to another reactor: [`Io::adopt`]. Its output must have been
    /// sent. The handler hears nothing more of it.
    ///
    /// # Errors
    /// A connection that is closing, or what the system says of `dup`: no more files.
    pub fn give_away(&mut self, token: Token) -> io::Result<OwnedFd> {
        let socket = self
            .sockets
            .get(token.0 as usize)
            .filter(|socket| socket.state == State::Live && socket.pending() == 0);
        let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
        let fd = rustix::io::fcntl_dupfd_cloexec(&socket.fd, 0)?;
        // Else the other descriptor would keep reporting readiness here.
        epoll::delete(&self.epoll, &socket.fd)?;
        self.kill(token);
        Ok(fd)
    }

    /// Takes a connection that another reactor gave away.
    ///
    /// # Errors
    /// What the system says of epoll.
    pub fn adopt(&mut self, fd: OwnedFd) -> io::Result<Token> {
        self.insert(Socket::new(fd, State::Live))
    }

    /// Takes what the handler has not consumed; [`Io::keep`] puts it back.
    pub fn take_kept(&mut self, token: Token) -> Vec<u8> {
        let socket = self.sockets.get_mut(token.0 as usize);
        socket.map(|socket| std::mem::take(&mut socket.partial)).unwrap_or_default()
    }

    /// Gives these bytes to the handler again with those that come next, as if it had not
    /// consumed them.
    pub fn keep(&mut self, token: Token, bytes: &[u8]) {
        if let Some(socket) = self.sockets.get_mut(token.0 as usize)
            && socket.state == State::Live
        {
            socket.partial = bytes.to_vec();
        }
    }

    /// Whether the next turn has something to do without waiting.
    pub(crate) fn has_work(&self) -> bool {
        !(self.again.is_empty() && self.dirty.is_empty() && self.drained.is_empty())
    }

    pub(crate) fn insert(&mut self, socket: Socket) -> io::Result<Token> {
        let entry = self.sockets.vacant_entry();
        let token = Token(u32::try_from(entry.key()).map_err(|_| io::ErrorKind::OutOfMemory)?);
        let interest = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::from(token.0));
        epoll::add(&self.epoll, &socket.fd, data, interest)?;
        entry.insert(socket);
        Ok(token)
    }

    pub(crate) fn read_again(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        if !socket.again {
            socket.again = true;
            self.again.push(token);
        }
    }

    /// Ends a lingering connection. One that is gone already may have left its token to another;
    /// then that one lingers for less than its time, which is harmless.
    fn cut(&mut self, token: Token) {
        if self.sockets.get(token.0 as usize).is_some_and(|s| s.state == State::Lingering) {
            self.kill(token);
        }
    }

    /// Marks the socket to be dropped at the end of the turn.
    pub(crate) fn kill(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        if socket.state != State::Dead {
            socket.state = State::Dead;
            self.dead.push(token);
        }
    }

    /// Sends what every dirty connection has, one call each.
    pub(crate) fn flush(&mut self, mut failed: impl FnMut(Token, Closed)) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            if let Err(errno) = self.flush_one(token) {
                failed(token, Closed::Error(errno));
            }
        }
        debug_assert!(self.dirty.is_empty(), "a flush writes nothing");
        self.dirty = dirty;
    }

    pub(crate) fn flush_one(&mut self, token: Token) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return Ok(()) };
        socket.dirty = false;
        socket.flushed = self.gather.tick();
        if matches!(socket.state, State::Dead | State::Connecting) {
            return Ok(());
        }
        if socket.pending() > 0 {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&socket.fd, &socket.out[socket.sent as usize..], flags) {
                Ok(bytes) => {
                    self.stats.writes += 1;
                    self.stats.bytes_out += bytes as u64;
                    socket.sent += bytes as u32;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        socket.blocked = socket.pending() > 0;
        if socket.blocked {
            socket.drop_sent_prefix();
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut socket.out);
        socket.sent = 0;
        if buffer.len() >= DRAINED_BYTES_MIN && socket.state == State::Live {
            self.drained.push(token);
        }
        if socket.state == State::Lingering {
            // The peer sees the end after our last byte; an error means it is gone already.
            let _ = shutdown(&socket.fd, Shutdown::Write);
        }
        if buffer.capacity() > 0
            && buffer.capacity() <= POOL_BUFFER_BYTES_MAX
            && self.pool.len() < POOL_BUFFERS_MAX
        {
            buffer.clear();
            self.pool.push(buffer);
        }
        Ok(())
    }

    /// Drops the sockets that died in this turn and those that lingered long enough.
    pub(crate) fn reap(&mut self) {
        while let Some(&(deadline_us, token)) = self.lingering.front() {
            if deadline_us > self.now_us {
                break;
            }
            self.lingering.pop_front();
            self.cut(token);
        }
        while let Some(token) = self.dead.pop() {
            let socket = self.sockets.remove(token.0 as usize);
            if socket.again {
                self.again.retain(|&other| other != token);
            }
        }
    }
}

impl Socket {
    /// Frees the sent part of a long output, so that a slow peer costs what it has not read.
    fn drop_sent_prefix(&mut self) {
        if self.sent as usize > self.out.len() / 2 {
            self.out.drain(..self.sent as usize);
            self.sent = 0;
        }
    }
}
