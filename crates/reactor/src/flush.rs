//! The end of a turn: what every touched connection has leaves, one send each.

use crate::Token;
use crate::io::Io;
use crate::output::Output;
use crate::socket::{Closed, Link, State};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown};

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
        if matches!(socket.state, State::Dead | State::Connecting) {
            return Ok(());
        }
        let Some(out) = socket.out.as_mut().filter(|out| out.pending() > 0) else {
            self.all_sent(token);
            return Ok(());
        };
        match (&socket.link, &mut self.rings) {
            (Link::File(fd), _) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let result = match out.as_one() {
                    Some(bytes) => send(fd, bytes, flags),
                    None => send_slices(fd, out, flags),
                };
                self.sent(token, result)
            }
            (Link::Direct(slot), Some(rings)) => {
                if out.as_one().is_none() {
                    out.make_one();
                }
                let bytes = out.as_one().unwrap_or_default();
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
        let Some(out) = &mut socket.out else { return Ok(()) };
        match result {
            Ok(bytes) => {
                self.stats.writes += 1;
                self.stats.bytes_out += bytes as u64;
                out.advance(bytes);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if out.pending() > 0 {
            socket.blocked = true;
            out.drop_sent_prefix();
        } else {
            self.all_sent(token);
        }
        Ok(())
    }

    /// There is no output left: its memory goes back, and who waited for that hears of it.
    fn all_sent(&mut self, token: Token) {
        let socket = &mut self.sockets[token.0 as usize];
        let out = socket.out.take();
        let was_blocked = std::mem::take(&mut socket.blocked);
        let was_long = out.as_ref().is_some_and(|out| out.was_long(DRAINED_BYTES_MIN));
        match socket.state {
            State::Live if was_blocked || was_long => {
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
        if let Some(mut out) = out
            && out.is_worth_keeping(POOL_BUFFER_BYTES_MAX)
            && self.pool.len() < POOL_BUFFERS_MAX
        {
            out.clear();
            self.pool.push(out);
        }
    }
}

fn send_slices(fd: &OwnedFd, out: &Output, flags: SendFlags) -> Result<usize, Errno> {
    let mut slices = std::array::from_fn(|_| IoSlice::new(&[]));
    let count = out.slices(&mut slices);
    sendmsg(fd, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
}
