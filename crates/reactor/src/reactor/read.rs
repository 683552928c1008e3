//! Reading: one recv a ready connection and turn.

use super::{Handler, Reactor};
use crate::Token;
use crate::socket::{Closed, Link, State};
use crate::uring::Rings;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Size of the thread's read buffer, and so the most that one connection is read in a turn.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// A partial packet longer than this is read into its own buffer instead of the thread's.
const PARTIAL_COPY_BYTES_MAX: usize = READ_BYTES / 2;

impl Reactor {
    /// Reads once. `ended` says that the end of the stream, or an error, stands behind the data.
    pub(super) fn read(&mut self, token: Token, ended: bool, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        if socket.state == State::Dead || socket.paused {
            return;
        }
        let lingering = socket.state == State::Lingering;
        let mut partial = socket.partial.take();
        let known = partial.as_ref().map_or(0, |partial| partial.0.len());
        let own = known > PARTIAL_COPY_BYTES_MAX;
        let result = match &mut partial {
            Some(partial) if own => {
                partial.0.reserve(READ_BYTES);
                recv_more(&socket.link, &mut self.io.rings, &mut partial.0)
            }
            Some(partial) => {
                self.buffer[..known].copy_from_slice(&partial.0);
                recv_into(&socket.link, &mut self.io.rings, &mut self.buffer[known..])
            }
            None => recv_into(&socket.link, &mut self.io.rings, &mut self.buffer),
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
        // Bytes of the thread's buffer do not borrow the partial packet, whose memory serves again.
        let (own_bytes, old) = if own { (partial, None) } else { (None, partial) };
        let bytes = match &own_bytes {
            Some(own) => &own.0[..],
            None => &self.buffer[..known + read],
        };
        let consumed = handler.received(&mut self.io, token, bytes);
        let rest = &bytes[consumed..];
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        if rest.is_empty() || socket.state != State::Live {
            return;
        }
        socket.partial = Some(match own_bytes {
            Some(mut own) => {
                own.0.drain(..consumed);
                own
            }
            None => {
                let mut kept = old.unwrap_or_default();
                kept.0.clear();
                kept.0.extend_from_slice(rest);
                kept
            }
        });
    }
}

fn recv_into(link: &Link, rings: &mut Option<Rings>, space: &mut [u8]) -> Result<usize, Errno> {
    match (link, rings) {
        (Link::File(fd), _) => recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read),
        (Link::Direct(slot), Some(rings)) => rings.recv(*slot, space),
        (Link::Direct(_), None) => Err(Errno::BADF),
    }
}

/// Reads into memory that `bytes` has reserved.
fn recv_more(link: &Link, rings: &mut Option<Rings>, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
    match (link, rings) {
        (Link::File(fd), _) => {
            let space = rustix::buffer::spare_capacity(bytes);
            recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
        }
        (Link::Direct(slot), Some(rings)) => rings.recv_more(*slot, bytes),
        (Link::Direct(_), None) => Err(Errno::BADF),
    }
}
