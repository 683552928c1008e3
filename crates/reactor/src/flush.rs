//! The end of a turn: what every touched connection has leaves, one send each.

use crate::Token;
use crate::io::Io;
use crate::socket::{Closed, Link, Socket, State};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

/// Output buffers kept for reuse, and the largest that is kept.
const POOL_BUFFERS_MAX: usize = 4096;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A connection that had more output than this, and sent all of it, is reported as drained.
const DRAINED_BYTES_MIN: usize = 64 * 1024;

impl Io {
    /// Sends what every dirty connection has: files with one call each, direct descriptors all
    /// together.
    pub(crate) fn flush(&mut self, mut failed: impl FnMut(Token, Closed)) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            if let Err(errno) = self.flush_one(token) {
                failed(token, Closed::Error(errno));
            }
        }
        debug_assert!(self.dirty.is_empty(), "a flush writes nothing");
        self.dirty = dirty;
        let Some(rings) = &mut self.rings else { return };
        rings.run_all();
        let mut results = std::mem::take(&mut rings.results);
        for (token, result) in results.drain(..) {
            let token = Token(token);
            if let Err(errno) = self.sent(token, result) {
                failed(token, Closed::Error(errno));
            }
        }
        if let Some(rings) = &mut self.rings {
            rings.results = results;
        }
    }

    fn flush_one(&mut self, token: Token) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return Ok(()) };
        socket.dirty = false;
        socket.flushed = self.gather.tick();
        if matches!(socket.state, State::Dead | State::Connecting) {
            return Ok(());
        }
        if socket.pending() == 0 {
            self.all_sent(token);
            return Ok(());
        }
        let bytes = &socket.out[socket.sent as usize..];
        match (&socket.link, &mut self.rings) {
            (Link::File(fd), _) => {
                let result = send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                self.sent(token, result)
            }
            (Link::Direct(slot), Some(rings)) => {
                #[expect(unsafe_code, reason = "the system is told addresses")]
                // SAFETY: only a flush calls this, and calls `run_all` before it changes any
                // output. The bytes are on the heap: they stay if the socket moves.
                unsafe {
                    rings.send(*slot, token, bytes);
                }
                Ok(())
            }
            (Link::Direct(_), None) => Err(Errno::BADF),
        }
    }

    /// A send took so many bytes.
    fn sent(&mut self, token: Token, result: Result<usize, Errno>) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return Ok(()) };
        match result {
            Ok(bytes) => {
                self.stats.writes += 1;
                self.stats.bytes_out += bytes as u64;
                socket.sent += bytes as u32;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if socket.pending() > 0 {
            socket.blocked = true;
            socket.drop_sent_prefix();
        } else {
            self.all_sent(token);
        }
        Ok(())
    }

    /// There is no output left: its memory goes back, and who waited for that hears of it.
    fn all_sent(&mut self, token: Token) {
        let socket = &mut self.sockets[token.0 as usize];
        let mut buffer = std::mem::take(&mut socket.out);
        let was_blocked = std::mem::take(&mut socket.blocked);
        socket.sent = 0;
        match socket.state {
            State::Live if was_blocked || buffer.len() >= DRAINED_BYTES_MIN => {
                self.drained.push(token);
            }
            // The peer sees the end after our last byte; an error means it is gone already.
            State::Lingering => match (&socket.link, &mut self.rings) {
                (Link::File(fd), _) => {
                    let _ = shutdown(fd, Shutdown::Write);
                }
                (Link::Direct(slot), Some(rings)) => {
                    // The request of the same name always takes a thread of the system.
                    let _ = rings.open_file(*slot).map(|fd| shutdown(fd, Shutdown::Write));
                }
                (Link::Direct(_), None) => {}
            },
            _ => {}
        }
        if buffer.capacity() > 0
            && buffer.capacity() <= POOL_BUFFER_BYTES_MAX
            && self.pool.len() < POOL_BUFFERS_MAX
        {
            buffer.clear();
            self.pool.push(buffer);
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
