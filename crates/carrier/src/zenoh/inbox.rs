//! What Zenoh's threads have received, on its way to the thread that has the links.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_cluster::Slot;
use weir_reactor::Waker;
use zenoh::bytes::ZBytes;

/// Bytes that wait, of all nodes. It is more than the windows of the links that use it: what is
/// dropped here is of somebody who keeps to none, and is a gap to his link.
const BYTES_MAX: usize = 1024 * 1024 * 1024;

/// From whom, and what.
pub(super) type Came = (Slot, ZBytes);

#[derive(Debug)]
pub(super) struct Inbox {
    to: Sender<Came>,
    waker: Waker,
    sleeps: AtomicBool,
    /// Puts that the thread has not received.
    puts: AtomicUsize,
    /// Bytes of puts that it has not taken.
    bytes: AtomicUsize,
}

impl Inbox {
    pub(super) fn new(waker: Waker) -> (Self, Receiver<Came>) {
        let (to, came) = channel();
        let (puts, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        (Self { to, waker, sleeps: AtomicBool::new(false), puts, bytes }, came)
    }

    /// From one of Zenoh's threads.
    pub(super) fn put(&self, from: Slot, bytes: ZBytes) {
        let count = bytes.len();
        if self.bytes.fetch_add(count, Ordering::Relaxed) + count > BYTES_MAX {
            self.taken(count);
            tracing::warn!(node = from.0, "a node sends more than its window; a put is dropped");
            return;
        }
        self.puts.fetch_add(1, Ordering::Relaxed);
        // It goes with the receiver, which is nobody's any more then.
        let _ = self.to.send((from, bytes));
        // Either the thread sees the put before it sleeps, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// One was received.
    pub(super) fn received(&self) {
        self.puts.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many bytes of those that were received are done with.
    pub(super) fn taken(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Says that the thread is about to wait. False if something is there already.
    pub(super) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_empty = self.puts.load(Ordering::Relaxed) == 0;
        if !is_empty {
            self.wake_up();
        }
        is_empty
    }

    pub(super) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }
}
