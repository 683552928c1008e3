//! The loop: wait, read and handle, end of turn, flush, reap.

use crate::io::{Io, LISTENER, WAKER};
use crate::socket::{Closed, Socket, State, Token};
use crate::waker::Waker;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, acceptfrom_with, recv, sockopt};
use rustix::time::Timespec;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Size of the thread's read buffer, and so the most that one connection is read in a turn.
const READ_BYTES: usize = 64 * 1024;

/// A partial packet longer than this is read into its own buffer instead of the thread's.
const PARTIAL_COPY_BYTES_MAX: usize = READ_BYTES / 2;

/// Events taken, and connections accepted, in one turn.
const EVENTS_MAX: usize = 1024;
const ACCEPTS_MAX: usize = 64;

/// How long accepting rests when the system has no files left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// What happens to a reactor's connections, told to the one who owns them.
pub trait Handler {
    /// A connection came in; its peer's address is taken at accept.
    fn accepted(&mut self, _io: &mut Io, _token: Token, _peer: SocketAddr) {}

    /// A connection begun by [`Io::connect`] is there.
    fn connected(&mut self, _io: &mut Io, _token: Token) {}

    /// Bytes came in, the unconsumed ones of the last time first. Returns how many are consumed:
    /// the rest is kept and given again when more has come.
    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize;

    /// Output that had to wait for the peer, or was long, has all been sent.
    fn drained(&mut self, _io: &mut Io, _token: Token) {}

    /// The connection ended, or could not be made. Not called after [`Io::close`] or [`Io::abort`].
    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed);

    /// The wait for something to happen is over.
    fn turn_begin(&mut self, _io: &mut Io) {}

    /// Somebody used the [`Waker`].
    fn woken(&mut self, _io: &mut Io) {}

    /// All input of this turn has been handled; what is written now still leaves in this turn.
    fn turn_end(&mut self, io: &mut Io);
}

/// Sockets and their readiness, on one thread.
pub struct Reactor {
    io: Io,
    waker: Waker,
    listeners: Vec<OwnedFd>,
    /// Listeners rest until this time, because the system had no files left.
    accept_rest_until_us: Option<u64>,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
}

impl Reactor {
    /// A reactor without connections.
    ///
    /// # Errors
    /// What the system says of epoll and eventfd.
    pub fn new() -> io::Result<Self> {
        Self::with_waker(Waker::new()?)
    }

    /// A reactor that `waker` wakes. A reactor stays on its thread, a waker can be made before.
    ///
    /// # Errors
    /// What the system says of epoll.
    pub fn with_waker(waker: Waker) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKER);
        epoll::add(&epoll, waker.fd(), data, epoll::EventFlags::IN)?;
        Ok(Self {
            io: Io::new(epoll),
            waker,
            listeners: Vec::new(),
            accept_rest_until_us: None,
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    /// Accepts connections of `listener` from now on.
    ///
    /// # Errors
    /// What the system says of fcntl and epoll.
    pub fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let fd = OwnedFd::from(listener);
        let data = epoll::EventData::new_u64(LISTENER + self.listeners.len() as u64);
        // Several reactors may share a listener: a connection wakes one of them.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&self.io.epoll, &fd, data, flags)?;
        self.listeners.push(fd);
        Ok(())
    }

    /// Accepts no more connections: the listening sockets are closed.
    pub fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    /// What wakes this reactor from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The connections, between turns.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// One turn. Waits at most `timeout` for something to happen; `None` waits for ever.
    ///
    /// # Errors
    /// What the system says of `epoll_wait`; errors of one connection go to the handler.
    pub fn turn(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut impl Handler,
    ) -> io::Result<()> {
        self.wait(timeout)?;
        handler.turn_begin(&mut self.io);
        self.io.stats.turns += 1;
        self.tell_drained(handler);
        self.read_again(handler);
        self.dispatch(handler);
        handler.turn_end(&mut self.io);
        self.flush(handler);
        self.io.reap();
        self.io.gather.work_done(self.io.now_us);
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut timeout = timeout;
        if self.io.has_work() {
            timeout = Some(Duration::ZERO);
        } else if let Some(until_us) = self.next_deadline_us() {
            let rest = Duration::from_micros(until_us.saturating_sub(crate::now_us()));
            timeout = Some(timeout.map_or(rest, |timeout| timeout.min(rest)));
        }
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        self.events.clear();
        let events = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.io.epoll, events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.io.now_us = crate::now_us();
        if self.io.gather.turn_begins(self.io.now_us) {
            self.io.end_gathering();
        }
        Ok(())
    }

    /// When the reactor itself has something to do: a lingering connection, a resting listener,
    /// output that gathered.
    fn next_deadline_us(&self) -> Option<u64> {
        let lingering_us = self.io.lingering.front().map(|&(deadline_us, _)| deadline_us);
        let due = [lingering_us, self.accept_rest_until_us, self.io.gather.due_us()];
        due.into_iter().flatten().min()
    }

    fn dispatch(&mut self, handler: &mut impl Handler) {
        if self.accept_rest_until_us.is_some_and(|until_us| until_us <= self.io.now_us) {
            self.accept_rest_until_us = None;
            (0..self.listeners.len()).for_each(|index| self.accept(index, handler));
        }
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match event.data.u64() {
                WAKER => {
                    self.waker.clear();
                    handler.woken(&mut self.io);
                }
                data if data >= LISTENER => self.accept((data - LISTENER) as usize, handler),
                data => self.ready(Token(data as u32), event.flags, handler),
            }
        }
        self.events = events;
    }

    fn accept(&mut self, index: usize, handler: &mut impl Handler) {
        if self.accept_rest_until_us.is_some() {
            return;
        }
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(index) else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (fd, peer) = match acceptfrom_with(listener, flags) {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    // No files or no memory: the connection stays in the backlog for a while.
                    self.io.stats.accept_errors += 1;
                    tracing::warn!(%error, "cannot accept a connection; trying again soon");
                    let rest_us = ACCEPT_REST.as_micros() as u64;
                    self.accept_rest_until_us = Some(self.io.now_us + rest_us);
                    return;
                }
            };
            let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else {
                continue;
            };
            // Some peer may be gone already; then the first read says so.
            let _ = sockopt::set_tcp_nodelay(&fd, true);
            match self.io.insert(Socket::new(fd, State::Live)) {
                Ok(token) => handler.accepted(&mut self.io, token, peer),
                Err(_) => self.io.stats.accept_errors += 1,
            }
        }
    }

    fn ready(&mut self, token: Token, flags: epoll::EventFlags, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if socket.state == State::Connecting && !self.finish_connect(token, handler) {
            return;
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.writable(token, handler);
        }
        if flags.intersects(epoll::EventFlags::IN | ended) {
            self.read(token, flags.intersects(ended), handler);
        }
    }

    /// Says whether the connection is there.
    fn finish_connect(&mut self, token: Token, handler: &mut impl Handler) -> bool {
        let socket = &mut self.io.sockets[token.0 as usize];
        match sockopt::socket_error(&socket.fd) {
            Ok(Ok(())) => {
                socket.state = State::Live;
                if socket.pending() > 0 && !socket.dirty {
                    socket.dirty = true;
                    self.io.dirty.push(token);
                }
                handler.connected(&mut self.io, token);
                true
            }
            Ok(Err(errno)) | Err(errno) => {
                self.fail(token, Closed::Error(errno), handler);
                false
            }
        }
    }

    fn writable(&mut self, token: Token, handler: &mut impl Handler) {
        if !self.io.sockets.get(token.0 as usize).is_some_and(|socket| socket.blocked) {
            return;
        }
        if let Err(errno) = self.io.flush_one(token) {
            self.fail(token, Closed::Error(errno), handler);
            return;
        }
        let socket = &self.io.sockets[token.0 as usize];
        if !socket.blocked && socket.state == State::Live {
            // Long output was listed by the flush already; once more does no harm.
            handler.drained(&mut self.io, token);
        }
    }

    /// Reads once. `ended` says that the end of the stream, or an error, stands behind the data.
    fn read(&mut self, token: Token, ended: bool, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        if socket.state == State::Dead || socket.paused {
            return;
        }
        let lingering = socket.state == State::Lingering;
        let mut partial = std::mem::take(&mut socket.partial);
        let known = partial.len();
        let own = known > PARTIAL_COPY_BYTES_MAX;
        let result = if own {
            partial.reserve(READ_BYTES);
            let space = rustix::buffer::spare_capacity(&mut partial);
            recv(&socket.fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
        } else {
            self.buffer[..known].copy_from_slice(&partial);
            recv(&socket.fd, &mut self.buffer[known..], RecvFlags::DONTWAIT).map(|(read, _)| read)
        };
        let read = match result {
            Ok(0) if lingering => return self.io.kill(token),
            Ok(0) => return self.fail(token, Closed::ByPeer, handler),
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => {
                socket.partial = partial;
                return;
            }
            Err(_) if lingering => return self.io.kill(token),
            Err(errno) => return self.fail(token, Closed::Error(errno), handler),
        };
        self.io.stats.reads += 1;
        self.io.stats.bytes_in += read as u64;
        if ended || known + read >= READ_BYTES {
            self.io.read_again(token);
        }
        if lingering {
            return;
        }
        let (bytes, mut kept) = if own {
            (&partial[..], Vec::new())
        } else {
            (&self.buffer[..known + read], std::mem::take(&mut partial))
        };
        let consumed = handler.received(&mut self.io, token, bytes);
        let rest = &bytes[consumed..];
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        if rest.is_empty() || socket.state != State::Live {
            return;
        }
        if own {
            partial.drain(..consumed);
            socket.partial = partial;
        } else {
            // The old partial was read already; its memory serves again.
            kept.clear();
            kept.extend_from_slice(rest);
            socket.partial = kept;
        }
    }

    fn tell_drained(&mut self, handler: &mut impl Handler) {
        for token in std::mem::take(&mut self.io.drained) {
            let socket = self.io.sockets.get(token.0 as usize);
            if socket.is_some_and(|socket| socket.state == State::Live) {
                handler.drained(&mut self.io, token);
            }
        }
    }

    fn read_again(&mut self, handler: &mut impl Handler) {
        // What is listed meanwhile waits for the next turn, so that nobody is read for ever.
        for token in std::mem::take(&mut self.io.again) {
            if let Some(socket) = self.io.sockets.get_mut(token.0 as usize) {
                socket.again = false;
                self.read(token, true, handler);
            }
        }
    }

    fn flush(&mut self, handler: &mut impl Handler) {
        let mut failed: Vec<(Token, Closed)> = Vec::new();
        self.io.flush(|token, cause| failed.push((token, cause)));
        for (token, cause) in failed {
            self.fail(token, cause, handler);
        }
    }

    fn fail(&mut self, token: Token, cause: Closed, handler: &mut impl Handler) {
        let lingering = self.io.sockets[token.0 as usize].state == State::Lingering;
        self.io.kill(token);
        if !lingering {
            handler.closed(&mut self.io, token, cause);
        }
    }
}

const _: () = assert!(size_of::<Socket>() <= 64, "an idle socket costs 64 bytes");
