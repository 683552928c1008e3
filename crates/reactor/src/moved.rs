//! A connection on its way from one reactor to another.

use crate::io::Io;
use crate::output::Output;
use crate::socket::{Descriptor, Input, State};
use crate::token::Token;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::os::unix::net::UnixStream;

/// A connection that a reactor gave away, and another may adopt: its file, the state of its layers,
/// input that its handler has not consumed and output that has not been sent. Dropping it ends the
/// connection.
#[derive(Debug)]
pub struct Moved {
    fd: OwnedFd,
    input: Option<Box<Input>>,
    out: Option<Box<Output>>,
}

impl Moved {
    /// Bytes of input and output that it carries.
    pub fn bytes(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.partial().len())
            + self.out.as_ref().map_or(0, |out| out.pending())
    }
}

/// A connection that no reactor had yet, such as one end of a pair of sockets.
///
/// # Errors
/// What the system says of a socket that is not to block.
impl TryFrom<UnixStream> for Moved {
    type Error = io::Error;

    fn try_from(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { fd: stream.into(), input: None, out: None })
    }
}

impl AsFd for Moved {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Io {
    /// Gives the connection away, to another reactor: [`Io::adopt`]. `unread` is what its handler
    /// was given last and has not consumed. The handler hears nothing more of it.
    ///
    /// # Errors
    /// A connection that is closing, or of which something was read that its handler has not
    /// heard of (it is not the one being handled), or what the system says of making a file of a
    /// direct descriptor: no more files. Then it is still here.
    pub fn give_away(&mut self, token: Token, unread: &[u8]) -> io::Result<Moved> {
        let socket = self
            .sockets
            .get_mut(token.0 as usize)
            .filter(|socket| socket.state == State::Live && !socket.reading);
        let socket = socket.ok_or(io::ErrorKind::NotConnected)?;
        let fd =
            match (std::mem::replace(&mut socket.descriptor, Descriptor::Gone), &mut self.rings) {
                // The file itself goes: at the limit there is no other.
                (Descriptor::File(file), _) => {
                    // Else it would keep reporting readiness here.
                    if let Err(error) = epoll::delete(&self.epoll, &file) {
                        socket.descriptor = Descriptor::File(file);
                        return Err(error.into());
                    }
                    file
                }
                (Descriptor::Direct(slot), Some(rings)) => {
                    socket.descriptor = Descriptor::Direct(slot);
                    rings.open_file(slot)?
                }
                (Descriptor::Direct(_), None) | (Descriptor::Gone, _) => {
                    return Err(io::ErrorKind::NotConnected.into());
                }
            };
        if !unread.is_empty() {
            let mut partial = unread.to_vec();
            partial.append(&mut socket.take_partial());
            socket.put_partial(partial);
        }
        let moved = Moved { fd, input: socket.input.take(), out: socket.out.take() };
        self.kill(token);
        Ok(moved)
    }

    /// Takes a connection that another reactor gave away. What was not consumed of its input is
    /// there to be taken: [`Io::take_kept`].
    ///
    /// # Errors
    /// What the system says of epoll, or of io_uring.
    pub fn adopt(&mut self, moved: Moved) -> io::Result<Token> {
        let Moved { fd, input, out } = moved;
        let token = self.insert_moved(fd)?;
        let socket = &mut self.sockets[token.0 as usize];
        (socket.input, socket.out) = (input, out);
        if socket.pending() > 0 {
            self.list(token);
        }
        Ok(token)
    }
}
