//! One socket of a reactor and what is known of it.

use crate::gather::Pace;
use crate::output::Output;
use crate::uring::Slot;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::time::Duration;

/// Names a socket of one reactor. It is used again only after the turn in which the socket was
/// closed, so within a turn it never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// Why a connection ended, when it was not its own side that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed in good order.
    ByPeer,
    /// The network or the peer's system ended it: reset, refused, timed out.
    Error(Errno),
}

/// How long a closed connection may take to pass its last bytes on before it is cut.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// `connect` is under way.
    Connecting,
    Live,
    /// Our side is done: output is flushed, then the write half is shut; input is thrown away
    /// so that the last bytes are not lost to a reset.
    Lingering,
    /// To be dropped at the end of the turn.
    Dead,
}

/// What the system knows a socket by.
#[derive(Debug)]
pub(crate) enum Link {
    /// An open file of the process, in the reactor's epoll.
    File(OwnedFd),
    /// A direct descriptor of one of the reactor's rings.
    Direct(Slot),
}

/// 40 bytes and no heap while idle.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) link: Link,
    /// Names the connection beside its token, where it is a direct descriptor.
    pub(crate) serial: u32,
    pub(crate) state: State,
    /// Output waits for the socket to become writable.
    pub(crate) blocked: bool,
    /// Listed for the flush at the end of this turn.
    pub(crate) dirty: bool,
    /// Its output waits for more: listed for the end of the tick.
    pub(crate) gathers: bool,
    /// How often it gets output that may wait.
    pub(crate) pace: Pace,
    /// Listed to be read again without waiting for readiness.
    pub(crate) again: bool,
    /// A read of this batch, which is not handled yet.
    pub(crate) reading: bool,
    /// The handler wants no input for now.
    pub(crate) paused: bool,
    /// Output, while there is some; its memory comes from the pool.
    pub(crate) out: Option<Box<Output>>,
    /// The start of a packet whose end has not come; boxed, because few have one.
    pub(crate) partial: Option<Box<Partial>>,
}

/// Input that the handler has not consumed.
#[derive(Debug, Default)]
pub(crate) struct Partial(pub(crate) Vec<u8>);

impl Socket {
    pub(crate) fn new(link: Link, serial: u32, state: State) -> Self {
        Self {
            link,
            serial,
            state,
            blocked: false,
            dirty: false,
            gathers: false,
            pace: Pace::default(),
            again: false,
            reading: false,
            paused: false,
            out: None,
            partial: None,
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.pending())
    }
}

const _: () = assert!(size_of::<Socket>() <= 40, "an idle socket costs 40 bytes");
