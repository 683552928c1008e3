//! One io_uring with its table of direct descriptors: the unsafe part of the back end.

use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, cqueue, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::marker::PhantomData;

/// Requests that are queued before they are handed to the system.
const REQUESTS: u32 = 512;

/// Completions that have room. The system keeps more, at a cost; the hash that finds a poll when
/// its connection closes is sized by this as well.
const COMPLETIONS: u32 = 8192;

/// A completion: what its request was named, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) name: u64,
    pub(super) result: i32,
    /// The request goes on: more completions will come.
    pub(super) more: bool,
}

impl Completion {
    pub(super) fn result(&self) -> Result<usize, Errno> {
        usize::try_from(self.result).map_err(|_| Errno::from_raw_os_error(-self.result))
    }
}

/// An io_uring of this thread, and which of its slots are free.
pub(super) struct Ring {
    ring: IoUring,
    slots: u16,
    /// Slots below this have been used at least once.
    used: u16,
    free: Vec<u16>,
    /// Requests awaited that are not completed.
    awaited: usize,
    /// Only the thread that made a ring may enter it (`IORING_SETUP_SINGLE_ISSUER`).
    thread: PhantomData<*const ()>,
}

impl Ring {
    /// A ring with a table of `slots` direct descriptors, which signals `event` while it is told
    /// to.
    pub(super) fn new(slots: u16, event: &OwnedFd) -> io::Result<Self> {
        let mut ring = IoUring::builder()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(REQUESTS)?;
        ring.submitter().register_files_sparse(u32::from(slots))?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        ring.completion().disable_eventfd();
        let free = Vec::new();
        Ok(Self { ring, slots, used: 0, free, awaited: 0, thread: PhantomData })
    }

    /// Whether the system knows every operation that is used here. `BIND` is the youngest that
    /// can be asked for; the flags of `ACCEPT` are older.
    pub(super) fn is_young_enough(&self) -> io::Result<bool> {
        let mut probe = Probe::new();
        self.ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(opcode::Bind::CODE))
    }

    pub(super) fn take_slot(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| {
            let slot = self.used;
            (slot < self.slots).then(|| {
                self.used += 1;
                slot
            })
        })
    }

    pub(super) fn free_slot(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Has the ring signal its event from now on when something happens, or not.
    pub(super) fn set_signals(&mut self, signals: bool) {
        let completion = self.ring.completion();
        match signals {
            true => completion.enable_eventfd(),
            false => completion.disable_eventfd(),
        }
    }

    /// Queues a request. Those that are awaited are completed before [`Ring::run`] returns.
    ///
    /// # Safety
    /// What the request points at must stay valid, and what it writes to must not be touched,
    /// until its completion; for a request that is not awaited: until it is submitted, if the
    /// system copies it then, else for ever.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(super) unsafe fn push(&mut self, entry: &Entry, is_awaited: bool) {
        loop {
            // SAFETY: the caller's promise.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.awaited += usize::from(is_awaited);
                return;
            }
            self.submit(0);
        }
    }

    /// Whether there is something to submit, to run or to take.
    pub(super) fn has_work(&mut self) -> bool {
        let submission = self.ring.submission();
        let has_requests = !submission.is_empty() || submission.taskrun();
        drop(submission);
        has_requests || !self.ring.completion().is_empty()
    }

    /// Submits what is queued, waits for what is awaited, and hands over all completions.
    /// `is_awaited` says of a completion whether its request was.
    pub(super) fn run(&mut self, mut take: impl FnMut(Completion) -> bool) {
        self.submit(0);
        loop {
            for entry in self.ring.completion() {
                let more = cqueue::more(entry.flags());
                let (name, result) = (entry.user_data(), entry.result());
                self.awaited -= usize::from(take(Completion { name, result, more }));
            }
            if self.awaited == 0 {
                return;
            }
            // Requests that may not block are done at once; this is for a system that was short
            // of memory then.
            self.submit(self.awaited);
        }
    }

    /// Enters the ring until nothing is queued.
    fn submit(&mut self, want: usize) {
        loop {
            match self.ring.submit_and_wait(want) {
                Ok(_) if self.ring.submission().is_empty() => return,
                Ok(_) => {}
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::INTR) => {}
                    // No memory for a request now.
                    Some(Errno::AGAIN | Errno::NOMEM) => std::thread::yield_now(),
                    // Buffers are lent to what is queued: nobody may go on.
                    _ => panic!("io_uring_enter: {error}"),
                },
            }
        }
    }

    /// Puts an open file into a slot.
    pub(super) fn install(&mut self, slot: u16, fd: &OwnedFd) -> io::Result<()> {
        let submitter = self.ring.submitter();
        submitter.register_files_update(u32::from(slot), &[fd.as_raw_fd()]).map(drop)
    }
}

/// A slot as the target of a request that opens one.
pub(super) fn target(slot: u16) -> types::DestinationSlot {
    types::DestinationSlot::try_from_slot_target(u32::from(slot)).expect("a slot is 16 bits wide")
}

/// A slot as what a request is about.
pub(super) fn fixed(slot: u16) -> types::Fixed {
    types::Fixed(u32::from(slot))
}
