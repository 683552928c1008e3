//! One io_uring: receives that go on by themselves, into buffers that are lent to the system, and
//! all sends of a turn with one submission.
#![expect(unsafe_code, reason = "the system is told addresses")]

use super::{Ends, Failure, MESSAGE_BYTES, Watch};
use io_uring::types::{BufRingEntry, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fd::AsRawFd;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers that are lent, and the bytes of each.
const BUFFERS: u16 = 4096;
const BUFFER_BYTES: usize = 256;

const GROUP: u16 = 0;

/// Names a completion of a send; others are those of receives, by their end.
const SEND: u64 = u64::MAX;

/// Buffers that the system takes in order, and gets back.
struct Buffers {
    entries: *mut BufRingEntry,
    bytes: Vec<u8>,
    tail: u16,
}

impl Buffers {
    fn new(ring: &IoUring) -> Result<Self, Failure> {
        let layout = Layout::from_size_align(usize::from(BUFFERS) * 16, 4096)?;
        // SAFETY: the layout has a size. The memory is never given back: the ring may use it.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        // SAFETY: so many entries are there, and they stay.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0)?;
        }
        let bytes = vec![0; usize::from(BUFFERS) * BUFFER_BYTES];
        let mut buffers = Self { entries, bytes, tail: 0 };
        (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
        buffers.publish();
        Ok(buffers)
    }

    fn give(&mut self, buffer: u16) {
        let place = usize::from(self.tail % BUFFERS);
        // SAFETY: the place is in the ring, and the system does not look at it before `publish`.
        let entry = unsafe { &mut *self.entries.add(place) };
        let from = usize::from(buffer) * BUFFER_BYTES;
        entry.set_addr(self.bytes[from..].as_ptr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail of the ring, which the system reads at any time.
        let tail = unsafe { &*BufRingEntry::tail(self.entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

pub(super) fn serve(ends: &Ends, watch: &mut Watch) -> Result<(), Failure> {
    let mut ring: IoUring = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(32_768)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(4096)?;
    let files: Vec<_> = ends.sockets.iter().map(AsRawFd::as_raw_fd).collect();
    ring.submitter().register_files(&files)?;
    let mut buffers = Buffers::new(&ring)?;
    let receive = |at: usize| opcode::RecvMulti::new(Fixed(at as u32), GROUP).build();
    for at in 0..files.len() {
        push(&mut ring, &receive(at).user_data(at as u64))?;
    }
    let payload = [7u8; 16 * MESSAGE_BYTES];
    let tick = Timespec::new().nsec(100_000_000);
    let mut out = Vec::new();
    loop {
        match ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&tick)) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
            Err(error) => return Err(error.into()),
        }
        let (mut messages, mut again) = (0, Vec::new());
        for completion in ring.completion() {
            if completion.user_data() == SEND {
                continue;
            }
            let (at, flags) = (completion.user_data() as usize, completion.flags());
            if !cqueue::more(flags) {
                again.push(at);
            }
            if let Some(buffer) = cqueue::buffer_select(flags) {
                buffers.give(buffer);
            }
            let Ok(read) = usize::try_from(completion.result()) else { continue };
            messages += if at < ends.pairs { (read / MESSAGE_BYTES) as u64 } else { 0 };
            out.extend(ends.answers(at, read).into_iter().flatten());
        }
        buffers.publish();
        for at in again {
            push(&mut ring, &receive(at).user_data(at as u64))?;
        }
        for (to, bytes) in out.drain(..) {
            let send = opcode::Send::new(Fixed(to as u32), payload.as_ptr(), bytes as u32);
            let entry = send.flags(libc::MSG_NOSIGNAL).build().user_data(SEND);
            push(&mut ring, &entry.flags(squeue::Flags::SKIP_SUCCESS))?;
        }
        if watch.is_over(messages) {
            return Ok(());
        }
    }
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> Result<(), Failure> {
    // SAFETY: what it points at is there as long as the ring.
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit()?;
    }
    Ok(())
}
