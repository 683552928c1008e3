//! The end of a turn: what every touched connection has leaves, one send each.

use crate::io::Io;
use crate::output::Output;
use crate::socket::{Descriptor, Input, Socket, State};
use crate::token::Token;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown};

/// A connection that had more output than this, and sent all of it, is reported as drained.
const DRAINED_BYTES_MIN: usize = 64 * 1024;

impl Io {
    /// Sends what every dirty connection has: files with one call each, direct descriptors all
    /// together.
    pub(crate) fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            if let Err(errno) = self.flush_one(token) {
                self.broke(token, errno);
            }
        }
        // What layers could not seal yet goes on in the next turn.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        let Some(rings) = &mut self.rings else { return };
        rings.run_all();
        let mut results = std::mem::take(&mut rings.results);
        for (token, result) in results.drain(..) {
            let token = Token(token);
            // It was offered all there was.
            if let Err(errno) = self.sent(token, result, usize::MAX) {
                self.broke(token, errno);
            }
        }
        if let Some(rings) = &mut self.rings {
            rings.results = results;
        }
    }

    /// A send failed. What the peer said before lies in the system still: it is read before the end
    /// is told, and a paused connection when its pause is over.
    #[cold]
    fn broke(&mut self, token: Token, errno: Errno) {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return };
        match socket.state {
            State::Live => {
                socket.set_broken(errno);
                self.read_again(token);
            }
            _ => self.kill(token),
        }
    }

    fn flush_one(&mut self, token: Token) -> Result<(), Errno> {
        let Self { sockets, pool, scratch, rings, .. } = self;
        let Some(socket) = sockets.get_mut(token.0 as usize) else { return Ok(()) };
        socket.dirty = false;
        if matches!(socket.state, State::Dead | State::Connecting) {
            return Ok(());
        }
        if socket.broken().is_some() {
            // What layers said meanwhile.
            socket.drop_output();
            return Ok(());
        }
        let Socket { descriptor, state, out, input, .. } = socket;
        let leaving = match input.as_deref_mut() {
            Some(Input::Layered(layered)) => {
                let closes = *state == State::Lingering;
                layered.seal(out.as_deref_mut(), closes, pool, scratch);
                layered.network.as_deref_mut()
            }
            _ => out.as_deref_mut(),
        };
        let Some(out) = leaving.filter(|out| out.pending() > 0) else {
            // Unless it waits for its layers to open.
            if socket.pending() == 0 {
                self.all_sent(token);
            }
            return Ok(());
        };
        match (descriptor, rings) {
            (Descriptor::File(fd), _) => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let (result, offered) = match out.as_one() {
                    Some(bytes) => (send(fd, bytes, flags), bytes.len()),
                    None => send_slices(fd, out, flags),
                };
                self.sent(token, result, offered)
            }
            (Descriptor::Direct(slot), Some(rings)) => {
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
            (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => Err(Errno::BADF),
        }
    }

    /// A send took so many bytes of those it was offered.
    fn sent(
        &mut self,
        token: Token,
        result: Result<usize, Errno>,
        offered: usize,
    ) -> Result<(), Errno> {
        let Some(socket) = self.sockets.get_mut(token.0 as usize) else { return Ok(()) };
        let Some(out) = socket.leaving() else { return Ok(()) };
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
            out.drop_sent_prefix();
            if result == Ok(offered) {
                // The socket may take more: nobody will say so, since it was never full.
                self.list(token);
            } else {
                socket.blocked = true;
            }
        } else if socket.input.is_none() || socket.pending() == 0 {
            self.all_sent(token);
            return Ok(());
        }
        self.seal_on(token);
        Ok(())
    }

    /// There is output left: goes on with that of layers.
    fn seal_on(&mut self, token: Token) {
        let socket = &mut self.sockets[token.0 as usize];
        let Some(layered) = socket.layered() else { return };
        let seals_on = layered.pending() == 0 && layered.is_open();
        let reads_on = layered.reads_on();
        if let Some(out) = &mut socket.out {
            out.drop_sent_prefix();
        }
        if seals_on {
            // The rest leaves as if it had waited for the peer.
            socket.blocked = true;
            self.list(token);
        }
        if reads_on {
            self.read_again(token);
        }
    }

    /// There is no output left: its memory goes back, and who waited for that hears of it.
    fn all_sent(&mut self, token: Token) {
        let socket = &mut self.sockets[token.0 as usize];
        let out = socket.out.take();
        let is_layered = socket.input.is_some();
        let was_blocked = std::mem::take(&mut socket.blocked);
        if was_blocked && std::mem::take(&mut socket.held_back) {
            self.read_again(token);
        }
        let socket = &mut self.sockets[token.0 as usize];
        let was_long = out.as_ref().is_some_and(|out| out.was_long(DRAINED_BYTES_MIN));
        match socket.state {
            State::Live if was_blocked || was_long => {
                self.drained.push(token);
            }
            // The peer sees the end after our last byte; an error means it is gone already.
            State::Lingering => match (&socket.descriptor, &mut self.rings) {
                (Descriptor::File(fd), _) => {
                    let _ = shutdown(fd, Shutdown::Write);
                }
                (Descriptor::Direct(slot), Some(rings)) => {
                    // The request of the same name always takes a thread of the system.
                    let _ = rings.open_file(*slot).map(|fd| shutdown(fd, Shutdown::Write));
                }
                (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => {}
            },
            _ => {}
        }
        if let Some(out) = out {
            self.pool.put_back(out);
        }
        if is_layered {
            self.all_of_layers_sent(token);
        }
    }

    #[cold]
    fn all_of_layers_sent(&mut self, token: Token) {
        let Some(layered) = self.sockets[token.0 as usize].layered() else { return };
        let reads_on = layered.reads_on();
        if let Some(network) = layered.network.take() {
            self.pool.put_back(network);
        }
        if reads_on {
            self.read_again(token);
        }
    }
}

/// Sends as much as one call takes; says as well how much that was offered.
fn send_slices(fd: &OwnedFd, out: &Output, flags: SendFlags) -> (Result<usize, Errno>, usize) {
    let mut slices = std::array::from_fn(|_| IoSlice::new(&[]));
    let count = out.slices(&mut slices);
    let slices = &slices[..count];
    let offered = slices.iter().map(|slice| slice.len()).sum();
    (sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags), offered)
}
