//! Reading through layers: what comes out of them goes to the handler.

use crate::handler::Handler;
use crate::io::Io;
use crate::layered::Layered;
use crate::socket::{Closed, State};
use crate::token::Token;
use weir_transport::{Stream, TransportError};

/// Passes what was read through the layers of a live connection. An idle one keeps nothing but its
/// layers: what comes out stands behind the partial packet if there is one, else in memory of the
/// thread.
pub(super) fn decode(io: &mut Io, token: Token, bytes: &[u8], handler: &mut impl Handler) {
    let socket = &mut io.sockets[token.0 as usize];
    let partial = socket.take_partial();
    let is_own = !partial.is_empty();
    let mut plain = if is_own { partial } else { io.scratch.take() };
    let known = plain.len();
    let result = pass(io, token, bytes, &mut plain, handler);
    let mut consumed = 0;
    if plain.len() > known && is_live(io, token) {
        consumed = handler.received(io, token, &plain);
    }
    match io.sockets.get_mut(token.0 as usize).filter(|socket| socket.state == State::Live) {
        Some(socket) if is_own => {
            plain.drain(..consumed);
            if !plain.is_empty() {
                socket.put_partial(plain);
            }
        }
        Some(socket) => {
            if consumed < plain.len() {
                socket.put_partial(plain[consumed..].to_vec());
            }
            io.scratch.put_back(plain);
        }
        None if is_own => {}
        None => io.scratch.put_back(plain),
    }
    let ended = match result {
        Ok(Stream::Open) => return,
        Ok(Stream::Ended) => Ok(()),
        Err(error) => {
            io.stats.transport_errors += 1;
            Err(error)
        }
    };
    if !is_live(io, token) {
        return;
    }
    let socket = &mut io.sockets[token.0 as usize];
    let is_paused = socket.paused;
    match socket.layered() {
        // What came before it is not all handled: see `finish`.
        Some(layered) if is_paused => layered.put_end(ended),
        _ => end(io, token, ended, handler),
    }
}

/// Passes bytes through the layers, and tells the handler what these have learnt. Then they go on:
/// who is not let in by that is not heard.
fn pass(
    io: &mut Io,
    token: Token,
    mut bytes: &[u8],
    plain: &mut Vec<u8>,
    handler: &mut impl Handler,
) -> Result<Stream, TransportError> {
    loop {
        let Io { sockets, pool, scratch, stats, undecoded_bytes, .. } = io;
        let socket = &mut sockets[token.0 as usize];
        let Some(layered) = socket.layered() else { return Ok(Stream::Open) };
        if !layered.is_open() {
            *undecoded_bytes += bytes.len();
        }
        let result = layered.received(bytes, plain, io.undecoded_bytes_max, (pool, scratch));
        let (opens, learnt) = (layered.opens(), layered.learnt());
        stats.held_back += u64::from(layered.holds_back());
        if socket.pending() > 0 && !socket.blocked {
            io.list(token);
        }
        if opens {
            handler.connected(io, token);
        }
        if let Some(learnt) = learnt {
            handler.learnt(io, token, learnt);
        } else {
            if bytes.is_empty() {
                io.sockets[token.0 as usize].shed_layers();
            }
            return result;
        }
        if result != Ok(Stream::Open) || !is_live(io, token) {
            return result;
        }
        bytes = &[];
    }
}

/// Ends a connection whose layers have ended, in good order or not.
pub(super) fn end(
    io: &mut Io,
    token: Token,
    ended: Result<(), TransportError>,
    handler: &mut impl Handler,
) {
    // Of what was written nothing can be sent any more; what the layers have said leaves.
    let socket = &mut io.sockets[token.0 as usize];
    socket.out = None;
    socket.layered().into_iter().for_each(Layered::forget);
    io.close(token);
    let cause = ended.map_or_else(Closed::Transport, |()| Closed::ByPeer);
    handler.closed(io, token, cause);
}

fn is_live(io: &Io, token: Token) -> bool {
    io.sockets.get(token.0 as usize).is_some_and(|socket| socket.state == State::Live)
}
