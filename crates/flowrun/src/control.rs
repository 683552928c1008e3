//! What the threads of connections and the one that watches them share.

use crate::Error;
use crate::counts::{Counts, Shared};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_flow::RuleCounts;
use weir_reactor::Waker;

/// What a connection's thread tells.
#[derive(Debug)]
pub(crate) enum Notice {
    /// It is there for the first time: subscribed, if it subscribes.
    Ready,
    /// It has ended, and what each rule did there.
    Ended(Result<(), Error>, Vec<RuleCounts>),
}

/// Shared by all threads.
#[derive(Debug)]
pub(crate) struct Control {
    stop: AtomicBool,
    wakers: Vec<Waker>,
    counts: Vec<Shared>,
    notices: SyncSender<Notice>,
}

impl Control {
    /// For so many threads.
    ///
    /// # Errors
    /// What the system says of eventfd.
    pub(crate) fn new(threads: usize) -> io::Result<(Arc<Self>, Receiver<Notice>)> {
        // A thread says two things.
        let (notices, told) = sync_channel(2 * threads);
        let wakers: io::Result<Vec<Waker>> = (0..threads).map(|_| Waker::new()).collect();
        let counts = (0..threads).map(|_| Shared::default()).collect();
        let stop = AtomicBool::new(false);
        Ok((Arc::new(Self { stop, wakers: wakers?, counts, notices }), told))
    }

    pub(crate) fn waker(&self, thread: usize) -> Waker {
        self.wakers[thread].clone()
    }

    /// Asks all to end. Says whether that was asked before.
    pub(crate) fn stop(&self) -> bool {
        let was_asked = self.stop.swap(true, Ordering::AcqRel);
        self.wakers.iter().for_each(Waker::wake);
        was_asked
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self, notice: Notice) {
        // Who watched is gone: then there is nobody to tell.
        let _ = self.notices.send(notice);
    }

    pub(crate) fn publish(&self, thread: usize, counts: &Counts) {
        self.counts[thread].store(counts);
    }

    /// The sums of all threads.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.counts.iter().for_each(|counts| counts.add_to(&mut sum));
        sum
    }
}
