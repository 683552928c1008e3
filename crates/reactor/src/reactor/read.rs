//! Reading: one recv a ready connection and turn.

use super::decode::{decode, end};
use super::{Reactor, fail};
use crate::handler::Handler;
use crate::io::Io;
use crate::layered::Layered;
use crate::socket::{Closed, Descriptor, Input, State};
use crate::token::Token;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

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
    /// The partial packet; nothing of a connection with layers.
    input: Option<Box<Input>>,
    result: Result<usize, Errno>,
}

impl Reading {
    /// The partial packet's memory, if that is where the rest goes.
    fn own_memory(&mut self) -> Option<&mut Vec<u8>> {
        match self.input.as_deref_mut() {
            Some(Input::Partial(partial)) if self.own => Some(partial),
            _ => None,
        }
    }
}

impl Reactor {
    /// Reads once, a direct descriptor together with others. `ended` says that the end of the
    /// stream, or an error, stands behind the data.
    pub(super) fn read(&mut self, token: Token, ended: bool, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get(token.0 as usize) else { return };
        if matches!(socket.descriptor, Descriptor::Direct(_)) {
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
        let begun = begin(&mut self.io, token, ended, &mut self.buffer);
        let Some(mut reading) = begun else { return };
        let Descriptor::File(fd) = &self.io.sockets[token.0 as usize].descriptor else { return };
        reading.result = match reading.own_memory() {
            Some(partial) => {
                let space = rustix::buffer::spare_capacity(partial);
                recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
            }
            None => {
                let space = &mut self.buffer[reading.known..];
                recv(fd, space, RecvFlags::DONTWAIT).map(|(read, _)| read)
            }
        };
        finish(&mut self.io, reading, &self.buffer, handler);
    }

    /// Reads the direct descriptors that are listed, with one call, then handles each.
    pub(super) fn read_batch(&mut self, handler: &mut impl Handler) {
        let Self { io, batch, .. } = self;
        if io.rings.is_none() || batch.list.is_empty() {
            return;
        }
        batch.buffer.resize(BATCH * PART_BYTES, 0);
        let mut readings = std::mem::take(&mut batch.readings);
        for (token, ended) in batch.list.drain(..) {
            let part = &mut batch.buffer[readings.len() * PART_BYTES..][..PART_BYTES];
            let begun = begin(io, token, ended, part);
            let Some(mut reading) = begun else { continue };
            let Io { sockets, rings: Some(rings), .. } = &mut *io else { return };
            let Descriptor::Direct(slot) = &sockets[token.0 as usize].descriptor else {
                continue;
            };
            let space = match reading.own_memory() {
                Some(partial) => partial.spare_capacity_mut().as_mut_ptr().cast(),
                None => part[reading.known..].as_mut_ptr(),
            };
            #[expect(unsafe_code, reason = "the system is told addresses")]
            // SAFETY: both memories have so much room, and nobody touches them before `run_all`
            // has returned: the parts are apart, a socket's partial packet is in its reading.
            unsafe {
                rings.recv(*slot, readings.len() as u32, space, reading.room);
            }
            readings.push(reading);
        }
        let Some(rings) = &mut io.rings else { return };
        rings.run_all();
        for (index, result) in rings.results.drain(..) {
            let reading = &mut readings[index as usize];
            reading.result = result;
            let known = reading.known;
            if let (Some(partial), Ok(read)) = (reading.own_memory(), result) {
                #[expect(unsafe_code, reason = "the system writes into memory without a value yet")]
                // SAFETY: the system has written so many bytes behind the last.
                unsafe {
                    partial.set_len(known + read);
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
/// if it is long. With layers the rest is not read but decoded, and the packet stays.
#[inline]
fn begin(io: &mut Io, token: Token, ended: bool, buffer: &mut [u8]) -> Option<Reading> {
    let socket = io.sockets.get_mut(token.0 as usize)?;
    if socket.state == State::Dead || socket.paused {
        return None;
    }
    if io.holds_input {
        socket.paused = true;
        io.held.push(token);
        return None;
    }
    if socket.is_to_be_held_back(io.unread_bytes_max) {
        socket.held_back = true;
        io.stats.held_back += 1;
        return None;
    }
    let mut input = match socket.layered() {
        None => socket.input.take(),
        Some(layered) => {
            if layered.holds_back() {
                return None;
            }
            if !layered.is_open() && socket.state == State::Live {
                let Some(left) = io.handshakes_left.checked_sub(1) else {
                    io.stats.put_off += 1;
                    io.read_again(token);
                    return None;
                };
                io.handshakes_left = left;
            }
            None
        }
    };
    let (mut known, mut own, mut room) = (0, false, buffer.len());
    if let Some(Input::Partial(partial)) = input.as_deref_mut() {
        known = partial.len();
        own = known > buffer.len() / 2;
        if own {
            partial.reserve(READ_BYTES);
            room = partial.capacity() - known;
        } else {
            buffer[..known].copy_from_slice(partial);
            room -= known;
        }
    }
    socket.reading = true;
    Some(Reading { token, ended, room, known, own, input, result: Err(Errno::AGAIN) })
}

/// Hands over what was read, and keeps what the handler does not consume.
fn finish(io: &mut Io, reading: Reading, buffer: &[u8], handler: &mut impl Handler) {
    let Reading { token, ended, room, known, own, input, result } = reading;
    let Some(socket) = io.sockets.get_mut(token.0 as usize) else { return };
    socket.reading = false;
    let lingering = match socket.state {
        State::Dead => return,
        state => state == State::Lingering,
    };
    if !lingering && let Some(ended) = socket.layered().and_then(Layered::take_end) {
        return end(io, token, ended, handler);
    }
    let read = match result {
        Ok(0) if lingering => return io.kill(token),
        Ok(0) => return fail(io, token, Closed::ByPeer, handler),
        Ok(read) => read,
        Err(Errno::AGAIN | Errno::INTR) if socket.broken().is_none() => {
            if input.is_some() {
                socket.input = input;
            }
            return;
        }
        Err(_) if lingering => return io.kill(token),
        Err(errno) => return fail(io, token, Closed::Error(errno), handler),
    };
    let is_layered = socket.layered().is_some();
    io.stats.reads += 1;
    io.stats.bytes_in += read as u64;
    if ended || read >= room {
        io.read_again(token);
    }
    if lingering {
        return;
    }
    if is_layered {
        return decode(io, token, &buffer[..read], handler);
    }
    let bytes = match &input {
        Some(input) if own => input.partial(),
        _ => &buffer[..known + read],
    };
    let consumed = handler.received(io, token, bytes);
    let all = bytes.len();
    let Some(socket) = io.sockets.get_mut(token.0 as usize) else { return };
    if consumed == all || socket.state != State::Live {
        return;
    }
    let mut input = input.unwrap_or_else(|| Box::new(Input::Partial(Vec::new())));
    if let Input::Partial(partial) = &mut *input {
        if own {
            partial.drain(..consumed);
        } else {
            // The old one was read already; its memory serves again.
            partial.clear();
            partial.extend_from_slice(&buffer[consumed..all]);
        }
    }
    socket.input = Some(input);
}
