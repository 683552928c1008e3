//! Connections as direct descriptors: places in the file tables of several io_urings.
//!
//! The limit on open files bounds each table, not their sum, so a ring is added when the last is
//! full. Readiness is a multishot poll a connection, edge-triggered like epoll's. Reads and sends
//! are requests that may not block, so each is completed when the system was entered with it, and
//! nothing is lent to the system beyond that. Not for several threads.

mod connect;
mod ring;

use crate::token::Token;
pub(crate) use connect::{ACCEPTS_MAX, Accepted};
use io_uring::opcode;
use io_uring::squeue::Entry;
use ring::{Completion, Ring, fixed};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{Ordering, fence};

/// Rings of one reactor; each is an open file.
const RINGS_MAX: usize = 1024;

/// Slots of a ring: the fewer, the faster a poll is found when its connection closes.
const RING_SLOTS_MAX: usize = 32 * 1024;

/// Events that are taken before they are handled, and that there is always room for.
const READY_KEPT: usize = 4096;

const POLL_EVENTS: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;

/// Connections that one reactor can hold by direct descriptors.
pub(crate) fn slots_max() -> usize {
    // Each ring takes a place in the table of open files, of which the reserve is left to them.
    let files_max = crate::files::files_max();
    ring_slots() * RINGS_MAX.min(files_max / 4)
}

fn ring_slots() -> usize {
    crate::files::files_max().min(RING_SLOTS_MAX)
}

/// Where a direct descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    ring: u16,
    slot: u16,
}

/// What a request is for; the upper bits of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody waits for the result.
    Forgotten,
    /// The end of a connect, or readiness after it: the one request that each connection has
    /// under way.
    Going,
    /// A request whose result is taken at once.
    Awaited,
}

const KINDS: [Kind; 3] = [Kind::Forgotten, Kind::Going, Kind::Awaited];

/// A token is used again; what is said of its former connection must not reach the present one.
const SERIAL_BITS: u32 = 28;

fn name(kind: Kind, serial: u32, token: u32) -> u64 {
    (kind as u64) << (32 + SERIAL_BITS) | u64::from(serial) << 32 | u64::from(token)
}

/// Something happened on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    /// Of the connection that is meant.
    pub(crate) serial: u32,
    /// What poll says, or zero where a connect succeeded.
    pub(crate) result: Result<u16, Errno>,
    /// The system polls no more: [`Rings::poll`] begins again.
    pub(crate) is_last: bool,
}

/// The rings of one reactor.
pub(crate) struct Rings {
    rings: Vec<Ring>,
    /// Signalled by every ring on which something happens while the reactor sleeps.
    event: OwnedFd,
    is_asleep: bool,
    /// The ring that had a free slot last.
    roomy: usize,
    serial: u32,
    /// What happened and is not handled yet.
    pub(crate) ready: VecDeque<Ready>,
    /// Results of awaited requests: what they were named in the lower half, and what came of it.
    pub(crate) results: Vec<(u32, Result<usize, Errno>)>,
}

impl Rings {
    /// With a first ring.
    ///
    /// # Errors
    /// The system has no io_uring, forbids it, or is too old.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let ring = Ring::new(ring_slots() as u16, &event).map_err(explain)?;
        if !ring.is_young_enough()? {
            return Err(explain(Errno::INVAL.into()));
        }
        let (ready, results) = (VecDeque::new(), Vec::new());
        let rings = vec![ring];
        Ok(Self { rings, event, is_asleep: false, roomy: 0, serial: 0, ready, results })
    }

    /// What to wait for, edge-triggered: nobody reads it.
    pub(crate) fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// The reactor is about to wait, so the rings are to signal. False if something has happened
    /// already, and it must not wait.
    ///
    /// That they are silent else saves a signal for each request that is completed at once.
    pub(crate) fn fall_asleep(&mut self) -> bool {
        self.is_asleep = true;
        self.rings.iter_mut().for_each(|ring| ring.set_signals(true));
        fence(Ordering::SeqCst);
        !self.rings.iter_mut().any(Ring::has_work)
    }

    /// The reactor waits no more: takes what has happened. The system hands over a few events
    /// each time it is entered, and there is more to gain from many.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.rings.iter_mut().for_each(|ring| ring.set_signals(false));
        }
        while self.ready.len() < READY_KEPT {
            let known = self.ready.len();
            self.run_all();
            if self.ready.len() == known {
                return;
            }
        }
    }

    /// Gives back what a storm of events has taken.
    pub(crate) fn trim(&mut self) {
        if self.ready.is_empty() {
            self.ready.shrink_to(READY_KEPT);
        }
    }

    /// A slot in a ring that is there, if one is free.
    pub(crate) fn take_slot(&mut self) -> Option<Slot> {
        let count = self.rings.len();
        for step in 0..count {
            let ring = (self.roomy + step) % count;
            if let Some(slot) = self.rings[ring].take_slot() {
                self.roomy = ring;
                return Some(Slot { ring: ring as u16, slot });
            }
        }
        None
    }

    /// Adds a ring.
    ///
    /// # Errors
    /// The bound of rings, or what the system says: no more files, no memory.
    pub(crate) fn grow(&mut self) -> io::Result<()> {
        if self.rings.len() >= RINGS_MAX {
            return Err(Errno::MFILE.into());
        }
        self.rings.push(Ring::new(ring_slots() as u16, &self.event)?);
        Ok(())
    }

    /// A slot that was taken and never filled is free again.
    pub(crate) fn free_slot(&mut self, slot: Slot) {
        self.ring(slot).free_slot(slot.slot);
    }

    /// A number that names the next connection beside its token.
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = (self.serial + 1) & ((1 << SERIAL_BITS) - 1);
        self.serial
    }

    fn ring(&mut self, slot: Slot) -> &mut Ring {
        &mut self.rings[usize::from(slot.ring)]
    }

    /// Submits what is queued and takes what has come, of every ring with either.
    pub(crate) fn run_all(&mut self) {
        for ring in 0..self.rings.len() {
            if self.rings[ring].has_work() {
                self.run(ring);
            }
        }
    }

    /// Submits what is queued on a ring and takes what has come.
    fn run(&mut self, ring: usize) {
        let Self { rings, ready, results, .. } = self;
        rings[ring].run(|completion| take(completion, ready, results));
    }

    /// Queues a request that points at nothing, and whose result nobody waits for.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    fn forget(&mut self, slot: Slot, entry: &Entry) {
        // SAFETY: it points at nothing.
        unsafe { self.ring(slot).push(entry, false) }
    }

    /// Does one request and returns what came of it.
    ///
    /// # Safety
    /// What the request points at must be valid during the call, and the request must be one that
    /// completes without waiting for a peer.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    unsafe fn call(&mut self, slot: Slot, entry: Entry) -> Result<usize, Errno> {
        const MARK: u32 = u32::MAX;
        let entry = entry.user_data(name(Kind::Awaited, 0, MARK));
        // SAFETY: the caller's promise; awaited, so that it is over before `run` returns.
        unsafe { self.ring(slot).push(&entry, true) };
        self.run(usize::from(slot.ring));
        // Sends that were queued before are completed as well; their results wait for the flush.
        let place = self.results.iter().position(|&(mark, _)| mark == MARK);
        place.map_or(Err(Errno::IO), |place| self.results.swap_remove(place).1)
    }

    /// Asks to be told of readiness, from the next submission on.
    pub(crate) fn poll(&mut self, slot: Slot, serial: u32, token: Token) {
        let entry = opcode::PollAdd::new(fixed(slot.slot), POLL_EVENTS as u32).multi(true).build();
        self.forget(slot, &entry.user_data(name(Kind::Going, serial, token.0)));
    }

    /// Queues a read, which may not wait. `results` has what came of it, under `index`, after
    /// [`Rings::run_all`].
    ///
    /// # Safety
    /// So many bytes at `space` must be the request's alone until [`Rings::run_all`] has returned.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(crate) unsafe fn recv(&mut self, slot: Slot, index: u32, space: *mut u8, length: usize) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let entry = opcode::Recv::new(fixed(slot.slot), space, length)
            .flags(libc::MSG_DONTWAIT)
            .build()
            .user_data(name(Kind::Awaited, 0, index));
        // SAFETY: the caller's promise.
        unsafe { self.ring(slot).push(&entry, true) }
    }

    /// Queues a send of a connection's output, which may not wait. `results` has what came of it,
    /// under its token, after [`Rings::run_all`].
    ///
    /// # Safety
    /// The bytes must stay where they are, unchanged, until [`Rings::run_all`] has returned.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(crate) unsafe fn send(&mut self, slot: Slot, token: Token, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(fixed(slot.slot), bytes.as_ptr(), length)
            .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            .build()
            .user_data(name(Kind::Awaited, 0, token.0));
        // SAFETY: the caller's promise.
        unsafe { self.ring(slot).push(&entry, true) }
    }

    /// Makes an open file of a direct descriptor, which stays.
    ///
    /// # Errors
    /// What the system says: no more files.
    #[expect(unsafe_code, reason = "the system is told addresses, and makes a file")]
    pub(crate) fn open_file(&mut self, slot: Slot) -> Result<OwnedFd, Errno> {
        let entry = opcode::FixedFdInstall::new(fixed(slot.slot), 0).build();
        // SAFETY: it points at nothing and waits for nobody.
        let fd = unsafe { self.call(slot, entry) }?;
        // SAFETY: the system has just made this file for us; without a flag, close-on-exec.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Puts an open file into a slot; the caller closes the file.
    ///
    /// # Errors
    /// What the system says of registering a file.
    pub(crate) fn install(&mut self, slot: Slot, fd: &OwnedFd) -> io::Result<()> {
        // The close of the slot's former socket may be queued; it must come before.
        self.run(usize::from(slot.ring));
        self.ring(slot).install(slot.slot, fd)
    }

    /// Makes a later close a reset.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(crate) fn set_reset(&mut self, slot: Slot) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let entry = opcode::SetSockOpt::new(
            fixed(slot.slot),
            libc::SOL_SOCKET as u32,
            libc::SO_LINGER as u32,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as u32,
        )
        .build();
        // SAFETY: the option lives through the call, which waits for nobody. A socket that
        // cannot linger is closed all the same.
        let _ = unsafe { self.call(slot, entry) };
    }

    /// Closes a direct descriptor, from the next submission on. What polls or connects it holds
    /// the socket open, so that is ended too.
    pub(crate) fn close(&mut self, slot: Slot, serial: u32, token: Token) {
        let forgotten = name(Kind::Forgotten, 0, 0);
        let cancel = opcode::AsyncCancel::new(name(Kind::Going, serial, token.0)).build();
        self.forget(slot, &cancel.user_data(forgotten));
        let close = opcode::Close::new(fixed(slot.slot)).build();
        self.forget(slot, &close.user_data(forgotten));
        self.free_slot(slot);
    }
}

impl std::fmt::Debug for Rings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Rings").field("rings", &self.rings.len()).finish_non_exhaustive()
    }
}

/// Says why there is no first ring, where the reason is not a shortage.
fn explain(error: io::Error) -> io::Error {
    let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => "this system has none",
        Some(Errno::PERM | Errno::ACCESS) => {
            "it is forbidden, by the sysctl kernel.io_uring_disabled or the container's seccomp \
             profile"
        }
        Some(Errno::INVAL) => "it needs Linux 6.11 or newer",
        _ => return error,
    };
    let text = format!("io_uring cannot be used: {hint}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Sorts a completion. Says whether its request was awaited.
fn take(
    completion: Completion,
    ready: &mut VecDeque<Ready>,
    results: &mut Vec<(u32, Result<usize, Errno>)>,
) -> bool {
    let kind = KINDS[(completion.name >> (32 + SERIAL_BITS)) as usize];
    let serial = (completion.name >> 32) as u32 & ((1 << SERIAL_BITS) - 1);
    let result = completion.result();
    match kind {
        Kind::Forgotten => false,
        Kind::Awaited => {
            results.push((completion.name as u32, result));
            true
        }
        Kind::Going => {
            let (token, result) = (Token(completion.name as u32), result.map(|mask| mask as u16));
            ready.push_back(Ready { token, serial, result, is_last: !completion.more });
            false
        }
    }
}
