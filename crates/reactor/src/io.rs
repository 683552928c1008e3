//! What a handler may do with its connections during a turn.

use crate::backend::Backend;
use crate::durations::Durations;
use crate::files::{FileBound, files_spill};
use crate::gather::{GATHERED_BYTES_MAX, Gather};
use crate::listen::UNIX_PEER;
use crate::output::{Pool, SharedBytes};
use crate::rest::{Counts, Rest};
use crate::socket::{Descriptor, Input, LINGER, Socket, State};
use crate::token::Token;
use crate::uring::Rings;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, getpeername, sockopt};
use slab::Slab;
use std::collections::VecDeque;
use std::net::SocketAddr;
use weir_transport::Scratch;

/// Connections that may linger at once; the oldest is cut for a newer one.
const LINGERING_MAX: usize = 10_000;

/// Connections whose layers are not open that are read in one turn. A handshake takes long, and
/// those who are in are not to wait for many of them.
pub(crate) const HANDSHAKES_MAX: u32 = 8;

/// What an event of epoll is about; below all of these it is a token.
pub(crate) const WAKER: u64 = u64::MAX;
pub(crate) const LISTENER: u64 = 1 << 40;
pub(crate) const RINGS: u64 = u64::MAX - 1;

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
    /// Connections that a layer ended, by what came or by the bound on what it may hold.
    pub transport_errors: u64,
    /// How often a connection whose layers are not open had to wait for a later turn.
    pub put_off: u64,
    /// How often a peer was read no more, because it took too little of its output.
    pub held_back: u64,
    /// How long turns took, from the end of their wait until their output had left.
    pub turn_lengths: Durations,
}

/// The connections of one reactor.
#[derive(Debug)]
pub struct Io {
    /// Waits for everything: waker, listeners, sockets that are files, rings.
    pub(crate) epoll: OwnedFd,
    pub(crate) backend: Backend,
    /// Where direct descriptors are, once there are some.
    pub(crate) rings: Option<Rings>,
    /// Whether the table of open files is as full as [`Backend::Auto`] lets it be.
    pub(crate) files_are_full: bool,
    /// Whether a descriptor was closed since it was last looked at: one more may be accepted.
    pub(crate) is_freed: bool,
    /// A file of this number or above says so.
    pub(crate) spill_from: i32,
    /// Files in which connections may be accepted while there are no rings to go on with.
    pub(crate) file_bound: FileBound,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) dirty: Vec<Token>,
    pub(crate) gather: Gather,
    pub(crate) rest: Rest,
    pub(crate) again: Vec<Token>,
    pub(crate) dead: Vec<Token>,
    /// Had much output, sent all of it in the last flush.
    pub(crate) drained: Vec<Token>,
    pub(crate) lingering: VecDeque<(u64, Token)>,
    pub(crate) pool: Pool,
    /// Nothing is read.
    pub(crate) holds_input: bool,
    /// Who has something meanwhile, and is paused.
    pub(crate) held: Vec<Token>,
    /// Output that a peer does not take, in bytes: over it, the peer is read no more.
    pub(crate) unread_bytes_max: usize,
    /// Input that layers which are not open may hold, in bytes.
    pub(crate) undecoded_bytes_max: usize,
    /// Input of layers that were not open, in bytes, since this was last asked for.
    pub(crate) undecoded_bytes: usize,
    /// Memory for what is between layers.
    pub(crate) scratch: Scratch,
    /// Reads of connections whose layers are not open that this turn has left.
    pub(crate) handshakes_left: u32,
    /// When this turn began.
    pub(crate) turn_us: u64,
    /// When the last turn was over.
    pub(crate) done_us: u64,
    pub(crate) now_us: u64,
    pub(crate) stats: IoStats,
}

impl Io {
    pub(crate) fn new(epoll: OwnedFd, backend: Backend) -> Self {
        Self {
            epoll,
            backend,
            rings: None,
            files_are_full: false,
            is_freed: false,
            spill_from: files_spill(),
            file_bound: FileBound::new(),
            sockets: Slab::new(),
            dirty: Vec::new(),
            gather: Gather::default(),
            rest: Rest::default(),
            again: Vec::new(),
            dead: Vec::new(),
            drained: Vec::new(),
            lingering: VecDeque::new(),
            pool: Pool::default(),
            holds_input: false,
            held: Vec::new(),
            unread_bytes_max: usize::MAX,
            undecoded_bytes_max: usize::MAX,
            undecoded_bytes: 0,
            scratch: Scratch::default(),
            handshakes_left: HANDSHAKES_MAX,
            turn_us: crate::now_us(),
            done_us: crate::now_us(),
            now_us: crate::now_us(),
            stats: IoStats::default(),
        }
    }

    /// The time this turn began, in microseconds of [`crate::now_us`].
    pub fn turn_us(&self) -> u64 {
        self.turn_us
    }

    /// The time the last turn was over: its output had left, but for what gathers or what peers do
    /// not take. In microseconds of [`crate::now_us`].
    pub fn done_us(&self) -> u64 {
        self.done_us
    }

    /// Messages so far whose output waited for more to leave with it: [`Io::set_gather`].
    pub fn gathered(&self) -> u64 {
        self.gather.messages()
    }

    /// Whether some of it still waits.
    pub fn gathers(&self) -> bool {
        self.gather.due_us().is_some()
    }

    /// The time when the clock was last read, in microseconds of [`crate::now_us`]: when this turn
    /// began, or later by [`Io::read_clock`].
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Reads the clock in the middle of a turn, for what must not seem to come before it was sent.
    pub fn read_clock(&mut self) {
        self.now_us = crate::now_us();
    }

    /// What was counted so far.
    pub fn stats(&self) -> IoStats {
        self.stats
    }

    /// Where the connection's peer is, as far as the system knows: of one that was reset it does
    /// not any more. A direct descriptor needs a file for as long as this takes.
    pub fn peer(&mut self, token: Token) -> Option<SocketAddr> {
        let socket = self.sockets.get(token.0 as usize)?;
        let peer = match (&socket.descriptor, &mut self.rings) {
            (Descriptor::File(file), _) => getpeername(file),
            (Descriptor::Direct(slot), Some(rings)) => getpeername(rings.open_file(*slot).ok()?),
            (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => return None,
        };
        let peer = peer.ok()??;
        match peer.address_family() {
            AddressFamily::UNIX => Some(UNIX_PEER),
            _ => SocketAddr::try_from(peer).ok(),
        }
    }

    /// Whose process is at the other end of a connection of a unix socket: the number of its user.
    pub fn peer_user(&mut self, token: Token) -> Option<u32> {
        let socket = self.sockets.get(token.0 as usize)?;
        let user = match (&socket.descriptor, &mut self.rings) {
            (Descriptor::File(file), _) => sockopt::socket_peercred(file),
            (Descriptor::Direct(slot), Some(rings)) => {
                sockopt::socket_peercred(rings.open_file(*slot).ok()?)
            }
            (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => return None,
        };
        Some(user.ok()?.uid.as_raw())
    }

    /// Whether the connection has no layers whose handshake is not over.
    pub fn is_open(&self, token: Token) -> bool {
        let socket = self.sockets.get(token.0 as usize);
        match socket.and_then(|socket| socket.input.as_deref()) {
            Some(Input::Layered(layered)) => layered.is_open(),
            _ => true,
        }
    }

    /// Sockets that are open, lingering ones included.
    pub fn connections(&self) -> usize {
        self.sockets.len()
    }

    /// While the thread is busy, output written by [`Io::write_gathered`] waits for at most so
    /// long; zero, the default, is never.
    pub fn set_gather(&mut self, budget: std::time::Duration) {
        self.gather.set_budget_us(budget.as_micros() as u64);
    }

    /// While many connections have something to say, turns begin no sooner than a rest after each
    /// other: of so much time at most; zero, the default, is never.
    pub fn set_rest(&mut self, longest: std::time::Duration) {
        self.rest.set_max_us(longest.as_micros() as u64);
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
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        if !self.gather.waits(&mut socket.pace) {
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
        } else {
            self.gather.joined();
        }
    }

    /// As [`Io::write`], of `bytes` and then `shared`, which is not copied where the system can be
    /// given it.
    pub fn write_shared(&mut self, token: Token, bytes: &[u8], shared: SharedBytes) {
        if let Some(out) = self.append(token, bytes).and_then(|socket| socket.out.as_mut()) {
            out.push_shared(shared);
        }
        self.write(token, &[]);
    }

    #[inline]
    fn append(&mut self, token: Token, bytes: &[u8]) -> Option<&mut Socket> {
        let Self { sockets, pool, .. } = self;
        let socket = sockets.get_mut(token.0 as usize)?;
        if !matches!(socket.state, State::Live | State::Connecting) || socket.broken().is_some() {
            return None;
        }
        socket.out.get_or_insert_with(|| pool.take()).push(bytes);
        Some(socket)
    }

    /// The turn is over, up to the wait for the next one. Says how long to rest before that, in
    /// microseconds.
    pub(crate) fn turn_over(&mut self) -> u64 {
        self.done_us = crate::now_us();
        self.stats.turn_lengths.add(self.done_us.saturating_sub(self.turn_us), 1);
        self.gather.work_done(self.turn_us, self.done_us);
        let IoStats { turns, reads, writes, bytes_in: bytes, .. } = self.stats;
        self.rest.turn_over(self.turn_us, self.done_us, Counts { turns, reads, writes, bytes })
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

    /// Bytes of output that wait to be sent: as they were written, and those that layers have
    /// sealed as these have made them.
    #[inline]
    pub fn pending(&self, token: Token) -> usize {
        self.sockets.get(token.0 as usize).map_or(0, Socket::pending)
    }

    /// Whether the peer takes nothing at present.
    pub fn is_blocked(&self, token: Token) -> bool {
        self.sockets.get(token.0 as usize).is_some_and(|socket| socket.blocked)
    }

    /// Ends the connection in good order: what was written is sent, then the write half is shut.
    /// The handler hears nothing more of it.
    pub fn close(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        match socket.state {
            State::Live if socket.broken().is_some() => self.kill(token),
            State::Live => {
                socket.state = State::Lingering;
                socket.take_partial();
                self.list(token);
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
        match (&socket.descriptor, &mut self.rings) {
            (Descriptor::File(fd), _) => {
                let _ = sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO));
            }
            (Descriptor::Direct(slot), Some(rings)) => rings.set_reset(*slot),
            (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => {}
        }
        self.kill(token);
    }

    /// Stops reading from the connection: the peer will feel it through TCP. What was read
    /// already, together with others, still comes.
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

    /// Whoever has more output than this, in bytes, and does not take it is read no more until it
    /// has taken all of it. What is read is answered, so it is also what answers may take.
    pub fn set_unread_max(&mut self, bytes: usize) {
        self.unread_bytes_max = bytes;
    }

    /// Whoever makes layers hold more than this, in bytes, before they are open is cut off; it is
    /// never more than the layers' own bound. Those that are open may hold a record of TLS as well.
    pub fn set_undecoded_max(&mut self, bytes: usize) {
        self.undecoded_bytes_max = bytes;
    }

    /// Bytes that came to layers which were not open, and of which the handler heard nothing, since
    /// the last call.
    pub fn take_undecoded(&mut self) -> usize {
        std::mem::take(&mut self.undecoded_bytes)
    }

    /// Whether something may have come on the connection that the handler was not given: because it
    /// is paused, or because this turn had more to do than it may. What a peer says that does not
    /// listen counts for nothing.
    pub fn has_unread(&self, token: Token) -> bool {
        let Some(socket) = self.sockets.get(token.0 as usize) else { return false };
        if socket.held_back {
            return false;
        }
        if socket.paused || socket.again {
            return true;
        }
        match &socket.descriptor {
            Descriptor::File(fd) => rustix::io::ioctl_fionread(fd).is_ok_and(|bytes| bytes > 0),
            // What has happened there is read in the order in which it did.
            Descriptor::Direct(_) => {
                self.rings.as_ref().is_some_and(|rings| !rings.ready.is_empty())
            }
            Descriptor::Gone => false,
        }
    }

    /// Reads from no connection, so that what comes waits in the system instead of here. Pauses
    /// this one, and then whoever else has something to be read, until [`Io::release_input`].
    pub fn hold_input(&mut self, token: Token) {
        self.holds_input = true;
        self.pause(token);
        self.held.push(token);
    }

    /// Whether no connection is read.
    pub fn holds_input(&self) -> bool {
        self.holds_input
    }

    /// Reads again. Returns who was paused meanwhile and is to be resumed.
    pub fn release_input(&mut self) -> Vec<Token> {
        self.holds_input = false;
        std::mem::take(&mut self.held)
    }

    /// Takes what the handler has not consumed; [`Io::keep`] puts it back.
    pub fn take_kept(&mut self, token: Token) -> Vec<u8> {
        let socket = self.sockets.get_mut(token.0 as usize);
        socket.map(Socket::take_partial).unwrap_or_default()
    }

    /// Gives these bytes to the handler again with those that come next, as if it had not
    /// consumed them.
    pub fn keep(&mut self, token: Token, bytes: &[u8]) {
        if let Some(socket) = self.sockets.get_mut(token.0 as usize)
            && socket.state == State::Live
        {
            socket.put_partial(bytes.to_vec());
        }
    }

    /// Whether the next turn has something to do without waiting.
    pub fn has_work(&self) -> bool {
        !(self.again.is_empty() && self.dirty.is_empty() && self.drained.is_empty())
            || self.rings.as_ref().is_some_and(|rings| !rings.ready.is_empty())
    }

    /// Lists the connection for the flush of this turn.
    pub(crate) fn list(&mut self, token: Token) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        if !socket.dirty {
            socket.dirty = true;
            self.dirty.push(token);
        }
    }

    /// The socket takes output again: what waits leaves at the end of this turn.
    pub(crate) fn writable(&mut self, token: Token) {
        if self.sockets.get(token.0 as usize).is_some_and(|socket| socket.blocked) {
            self.list(token);
        }
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
            self.is_freed |= !matches!(socket.descriptor, Descriptor::Gone);
            if socket.again {
                self.again.retain(|&other| other != token);
            }
            match (socket.descriptor, &mut self.rings) {
                (Descriptor::Direct(slot), Some(rings)) => rings.close(slot, socket.serial, token),
                // Closed by being dropped.
                (Descriptor::File(_), _) => self.files_are_full = false,
                (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => {}
            }
        }
    }
}
