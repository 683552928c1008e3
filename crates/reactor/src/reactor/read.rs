//! Reading: one recv a ready connection and turn.

use super::{Handler, Reactor};
use crate::Token;
use crate::io::Io;
use crate::socket::{Closed, Link, Partial, Socket, State};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use slab::Slab;

/// Size of the thread's read buffer, and so the most that one connection is read in a turn.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// Direct descriptors read with one call, each into a part of this size.
const BATCH: usize = 32;
const PART_BYTES: usize = 16 * 1024;

/// Direct descriptors that are to be read, and the memory for it.
#[derive(Default)]
pub(super) struct Batch {
    /// With whether the end of the stream, or an error, stands behind the data.
    list: Vec<(Token, bool)>,
    readings: Vec<Reading>,
    /// Made with the first batch.
    buffer: Vec<u8>,
}

/// A read between its begin and its end.
struct Reading {
    token: Token,
    /// The end of the stream, or an error, stands behind the data.
    ended: bool,
    /// Bytes that there is room for.
    room: usize,
    /// Bytes of a partial packet, which stand before what is read.
    known: usize,
    /// What is read goes to the partial packet's own memory instead of the thread's.
    own: bool,
    partial: Option<Box<Partial>>,
    result: Result<usize, Errno>,
}

impl Reactor {
    /// Reads once, a direct descriptor together with others. `ended` says that the end of the
    /// stream, or an error, stands behind the data.
    pub(super) fn read(&mut self, token: Token, ended: bool, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get(token.0 as usize) else { return };
        if matches!(socket.link, Link::Direct(_)) {
            let list = &mut self.batch.list;
            match list.iter_mut().find(|(other, _)| *other == token) {
                Some((_, is_ended)) => *is_ended |= ended,
                None => list.push((token, ended)),
            }
            if list.len() == BATCH {
                self.read_batch(handler);
            }
            return;
        }
        let begun = begin(&mut self.io.sockets, token, ended, &mut self.buffer);
        let Some(mut reading) = begun else { return };
        let Link::File(fd) = &self.io.sockets[token.0 as usize].link else { return };
        reading.result = match &mut reading.partial {
            Some(partial) if reading.own => {
                let space = rustix::buffer::spare_capacity(&mut partial.0);
                recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
            }
            _ => {
                let space = &mut self.buffer[reading.known..];
                recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
            }
        };
        finish(&mut self.io, reading, &self.buffer, handler);
    }

    /// Reads the direct descriptors that are listed, with one call, then handles each.
    pub(super) fn read_batch(&mut self, handler: &mut impl Handler) {
        let Self { io, batch, .. } = self;
        let Some(rings) = &mut io.rings else { return };
        if batch.list.is_empty() {
            return;
        }
        batch.buffer.resize(BATCH * PART_BYTES, 0);
        let mut readings = std::mem::take(&mut batch.readings);
        for (token, ended) in batch.list.drain(..) {
            let part = &mut batch.buffer[readings.len() * PART_BYTES..][..PART_BYTES];
            let begun = begin(&mut io.sockets, token, ended, part);
            let Some(mut reading) = begun else { continue };
            let Link::Direct(slot) = &io.sockets[token.0 as usize].link else { continue };
            let space = match &mut reading.partial {
                Some(partial) if reading.own => partial.0.spare_capacity_mut().as_mut_ptr().cast(),
                _ => part[reading.known..].as_mut_ptr(),
            };
            #[expect(unsafe_code, reason = "the system is told addresses")]
            // SAFETY: both memories have so much room, and nobody touches them before `run_all`
            // has returned: the parts are apart, a socket's partial packet is in its reading.
            unsafe {
                rings.recv(*slot, readings.len() as u32, space, reading.room);
            }
            readings.push(reading);
        }
        rings.run_all();
        for (index, result) in rings.results.drain(..) {
            let reading = &mut readings[index as usize];
            reading.result = result;
            if let (Some(partial), Ok(read), true) = (&mut reading.partial, result, reading.own) {
                #[expect(unsafe_code, reason = "the system writes into memory without a value yet")]
                // SAFETY: the system has written so many bytes behind the last.
                unsafe {
                    partial.0.set_len(reading.known + read);
                }
            }
        }
        for (reading, part) in readings.drain(..).zip(batch.buffer.chunks_exact(PART_BYTES)) {
            finish(io, reading, part, handler);
        }
        batch.readings = readings;
    }
}

/// Takes a socket's partial packet to where the rest is to be read: `buffer`, or its own memory
/// if it is long.
fn begin(
    sockets: &mut Slab<Socket>,
    token: Token,
    ended: bool,
    buffer: &mut [u8],
) -> Option<Reading> {
    let socket = sockets.get_mut(token.0 as usize)?;
    if socket.state == State::Dead || socket.paused {
        return None;
    }
    let mut partial = socket.partial.take();
    let known = partial.as_ref().map_or(0, |partial| partial.0.len());
    let own = known > buffer.len() / 2;
    let mut room = buffer.len() - known.min(buffer.len());
    match &mut partial {
        Some(partial) if own => {
            partial.0.reserve(READ_BYTES);
            room = partial.0.capacity() - known;
        }
        Some(partial) => buffer[..known].copy_from_slice(&partial.0),
        None => {}
    }
    socket.reading = true;
    Some(Reading { token, ended, room, known, own, partial, result: Err(Errno::AGAIN) })
}

/// Hands over what was read, and keeps what the handler does not consume.
fn finish(io: &mut Io, reading: Reading, buffer: &[u8], handler: &mut impl Handler) {
    let Reading { token, ended, room, known, own, partial, result } = reading;
    let Some(socket) = io.sockets.get_mut(token.0 as usize) else { return };
    socket.reading = false;
    let lingering = match socket.state {
        State::Dead => return,
        state => state == State::Lingering,
    };
    let read = match result {
        Ok(0) if lingering => return io.kill(token),
        Ok(0) => return io.fail(token, Closed::ByPeer, handler),
        Ok(read) => read,
        Err(Errno::AGAIN | Errno::INTR) => {
            socket.partial = partial;
            return;
        }
        Err(_) if lingering => return io.kill(token),
        Err(errno) => return io.fail(token, Closed::Error(errno), handler),
    };
    io.stats.reads += 1;
    io.stats.bytes_in += read as u64;
    if ended || read >= room {
        io.read_again(token);
    }
    if lingering {
        return;
    }
    let (own, old) = if own { (partial, None) } else { (None, partial) };
    let bytes = match &own {
        Some(own) => &own.0[..],
        None => &buffer[..known + read],
    };
    let consumed = handler.received(io, token, bytes);
    let rest = &bytes[consumed..];
    let Some(socket) = io.sockets.get_mut(token.0 as usize) else { return };
    if rest.is_empty() || socket.state != State::Live {
        return;
    }
    socket.partial = Some(match own {
        Some(mut own) => {
            own.0.drain(..consumed);
            own
        }
        None => {
            // The old partial was read already; its memory serves again.
            let mut kept = old.unwrap_or_default();
            kept.0.clear();
            kept.0.extend_from_slice(rest);
            kept
        }
    });
}
