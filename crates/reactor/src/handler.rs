//! What the owner of a reactor's connections is told.

use crate::io::Io;
use crate::socket::Closed;
use crate::token::{ListenerId, Token};
use std::net::SocketAddr;
use weir_transport::Learnt;

/// What happens to a reactor's connections, told to the one who owns them.
pub trait Handler {
    /// A connection came in by a listener; its peer's address is taken at accept. Its transport
    /// may not be open yet: what is written meanwhile waits.
    fn accepted(&mut self, _io: &mut Io, _token: Token, _by: ListenerId, _peer: SocketAddr) {}

    /// Layers of an accepted connection have opened, and this is what they have learnt of its peer.
    /// Comes once all are open, though they may have learnt nothing, and before that whenever one
    /// has learnt something. Nothing is received before.
    fn learnt(&mut self, _io: &mut Io, _token: Token, _learnt: Learnt) {}

    /// A connection begun by [`Io::connect`] is there, and its transport is open.
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

    /// Somebody used the [`crate::Waker`].
    fn woken(&mut self, _io: &mut Io) {}

    /// All input of this turn has been handled; what is written now still leaves in this turn.
    fn turn_end(&mut self, io: &mut Io);
}
