//! One socket of a reactor and what is known of it.

use crate::gather::Pace;
use crate::layered::Layered;
use crate::output::Output;
use crate::uring::Slot;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::num::NonZeroU8;
use std::time::Duration;
use weir_transport::TransportError;

/// Why a connection ended, when it was not its own side that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed in good order.
    ByPeer,
    /// The network or the peer's system ended it: reset, refused, timed out.
    Error(Errno),
    /// A layer could not go on.
    Transport(TransportError),
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
pub(crate) enum Descriptor {
    /// An open file of the process, in the reactor's epoll.
    File(OwnedFd),
    /// A direct descriptor of one of the reactor's rings.
    Direct(Slot),
    /// Given away, as the file it was.
    Gone,
}

/// 40 bytes and no heap while idle, if it is plain TCP.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) descriptor: Descriptor,
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
    /// Not read until its output has left: the peer does not take it.
    pub(crate) held_back: bool,
    /// The error of a send, by its number: the peer takes nothing any more. What it said before is
    /// still read, as soon as the handler wants it; then its end is told.
    broken: Option<NonZeroU8>,
    /// Output as the handler wrote it, while there is some; its memory comes from the pool.
    pub(crate) out: Option<Box<Output>>,
    /// Boxed, because few plain connections have some.
    pub(crate) input: Option<Box<Input>>,
}

/// What is between a socket and its handler. All of an idle connection with one layer but the
/// layer's own is in one allocation of 64 bytes.
#[derive(Debug)]
pub(crate) enum Input {
    /// What the handler of a plain connection has not consumed: the start of a packet whose end
    /// has not come.
    Partial(Vec<u8>),
    Layered(Layered),
}

impl Input {
    pub(crate) fn partial(&self) -> &[u8] {
        match self {
            Self::Partial(partial) => partial,
            Self::Layered(layered) => layered.partial(),
        }
    }
}

impl Socket {
    pub(crate) fn new(descriptor: Descriptor, serial: u32, state: State) -> Self {
        Self {
            descriptor,
            serial,
            state,
            blocked: false,
            dirty: false,
            gathers: false,
            pace: Pace::default(),
            again: false,
            reading: false,
            paused: false,
            held_back: false,
            broken: None,
            out: None,
            input: None,
        }
    }

    /// Bytes of output that are not sent, in the form they have now.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        let plain = self.out.as_ref().map_or(0, |out| out.pending());
        match self.input.as_deref() {
            Some(Input::Layered(layered)) => plain + layered.pending(),
            _ => plain,
        }
    }

    /// Output has failed: what waits is dropped, and nothing is added.
    pub(crate) fn set_broken(&mut self, errno: Errno) {
        let number = u8::try_from(errno.raw_os_error()).ok().and_then(NonZeroU8::new);
        self.broken = self.broken.or(number).or(Some(NonZeroU8::MAX));
        (self.blocked, self.held_back) = (false, false);
        self.drop_output();
    }

    /// Why output has failed, if it has.
    #[inline]
    pub(crate) fn broken(&self) -> Option<Errno> {
        self.broken.map(|number| Errno::from_raw_os_error(number.get().into()))
    }

    pub(crate) fn drop_output(&mut self) {
        self.out = None;
        if let Some(layered) = self.layered() {
            layered.network = None;
        }
    }

    /// Whether the peer has to take some of its output before more is read of it.
    #[inline]
    pub(crate) fn is_to_be_held_back(&self, output_bytes_max: usize) -> bool {
        self.blocked && self.state == State::Live && self.pending() > output_bytes_max
    }

    #[inline]
    pub(crate) fn layered(&mut self) -> Option<&mut Layered> {
        match self.input.as_deref_mut()? {
            Input::Layered(layered) => Some(layered),
            Input::Partial(_) => None,
        }
    }

    /// Layers that are done leave. Without any it is plain TCP from now on.
    pub(crate) fn shed_layers(&mut self) {
        if self.layered().is_some_and(Layered::shed) {
            // The partial packet is with whoever reads now.
            self.input = None;
        }
    }

    /// The output whose bytes go to the network.
    #[inline]
    pub(crate) fn leaving(&mut self) -> Option<&mut Output> {
        match self.input.as_deref_mut() {
            Some(Input::Layered(layered)) => layered.network.as_deref_mut(),
            _ => self.out.as_deref_mut(),
        }
    }

    /// What the handler has not consumed.
    pub(crate) fn take_partial(&mut self) -> Vec<u8> {
        match self.input.as_deref_mut() {
            Some(Input::Layered(layered)) => layered.take_partial(),
            Some(Input::Partial(partial)) => {
                let partial = std::mem::take(partial);
                self.input = None;
                partial
            }
            None => Vec::new(),
        }
    }

    pub(crate) fn put_partial(&mut self, partial: Vec<u8>) {
        match self.layered() {
            Some(layered) => layered.put_partial(partial),
            None => self.input = Some(Box::new(Input::Partial(partial))),
        }
    }
}

const _: () = assert!(size_of::<Socket>() <= 40, "an idle socket costs 40 bytes");
const _: () = assert!(size_of::<Input>() <= 56, "of 64 bytes the allocator takes 8");
