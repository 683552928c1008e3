//! Queues on the disk: one log of pages for all shards, and the thread that has it.
//!
//! The log is no part of a generation: a start opens it in place, so that no page is copied,
//! however many shards there are. A page is a record of it, named by its number, and is there
//! until a shard frees it. Nothing is written to say that one is free: what no session names at a
//! start is.

mod store;
mod there;

pub(super) use store::{PageStore, copy, repair};
pub(super) use there::PagesThere;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_core::{PageId, PageIn, PageOut, PageTicket, Wall};
use weir_reactor::{Mailbox, Outside, outside};

/// Letters on their way to a shard: it asks for no more pages at a time than half of them.
const LETTERS_MAX: usize = 64;

/// What is taken up before what was asked for is written.
const BATCH_MAX: usize = 256;

/// How often a disk that had no room is asked again.
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// How long there was nothing to write before an empty commit says that the last one was whole.
const IDLE: Duration = Duration::from_millis(10);

/// What a shard asks for.
#[derive(Debug)]
pub(super) enum PageWork {
    Write {
        shard: u16,
        ticket: PageTicket,
        bytes: Vec<u8>,
    },
    Read {
        shard: u16,
        ticket: PageTicket,
        page: PageId,
        bytes: u64,
    },
    Free(PageId),
    /// The broker ends.
    End,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Paged {
    Out(PageTicket, PageId),
    In(PageTicket, PageIn),
    /// The disk has failed, or what was on it is not there any more.
    Failed(io::Error),
}

/// What everybody may know of the pages.
#[derive(Debug, Default)]
pub(super) struct PageCounts {
    pub(super) is_short: AtomicBool,
    pub(super) pages: AtomicU64,
    pub(super) disk_bytes: AtomicU64,
    pub(super) rewritten_bytes: AtomicU64,
}

/// A shard's way to the pages. What it says before the thread runs waits.
#[derive(Clone, Debug)]
pub(super) struct PageWay {
    pub(super) shard: u16,
    pub(super) to: Sender<PageWork>,
    pub(super) wall: Wall,
    pub(super) counts: Arc<PageCounts>,
}

impl PageWay {
    /// Of a log that is written without a broker: nobody asks for pages.
    pub(super) fn nowhere(wall: Wall) -> Self {
        Self { shard: 0, to: channel().0, wall, counts: Arc::default() }
    }

    // A thread that has ended has said so: what is sent to it then is lost with it.

    pub(super) fn write(&self, ticket: PageTicket, page: &PageOut<'_>) {
        let mut bytes = Vec::new();
        page.encode(self.wall, &mut bytes);
        let _ = self.to.send(PageWork::Write { shard: self.shard, ticket, bytes });
    }

    pub(super) fn read(&self, ticket: PageTicket, page: PageId, bytes: u64) {
        let _ = self.to.send(PageWork::Read { shard: self.shard, ticket, page, bytes });
    }

    pub(super) fn free(&self, page: PageId) {
        let _ = self.to.send(PageWork::Free(page));
    }

    pub(super) fn is_short(&self) -> bool {
        self.counts.is_short.load(Ordering::Relaxed)
    }
}

/// The thread that has the pages: it ends with this.
#[derive(Debug)]
pub(crate) struct Pager {
    to: Sender<PageWork>,
    thread: Option<JoinHandle<()>>,
}

impl Pager {
    /// A thread that does what the shards of these mailboxes ask for.
    ///
    /// # Errors
    /// What the system says of a thread and two open files.
    pub(super) fn start<T: From<Paged> + Send + 'static>(
        store: PageStore,
        (to, given): (Sender<PageWork>, Receiver<PageWork>),
        mailboxes: &mut [Mailbox<T>],
    ) -> io::Result<Self> {
        let (back, _) = outside::<T, ()>(mailboxes, LETTERS_MAX)?;
        let run = move || Turns { store, given, back }.run();
        let thread = std::thread::Builder::new().name("pages".into()).spawn(run)?;
        Ok(Self { to, thread: Some(thread) })
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        let _ = self.to.send(PageWork::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Turns<T> {
    store: PageStore,
    given: Receiver<PageWork>,
    back: Outside<T, ()>,
}

impl<T: From<Paged>> Turns<T> {
    fn run(mut self) {
        while let Some(works) = self.next_works() {
            match self.turn(works) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // One shard is enough to end the broker.
                    let _ = self.back.send(0, Paged::Failed(error).into());
                    return;
                }
            }
        }
    }

    /// What has come, once there is something to do. Nothing at the end.
    fn next_works(&self) -> Option<Vec<PageWork>> {
        let first = if self.store.is_busy() {
            match self.given.try_recv() {
                Err(TryRecvError::Disconnected) => return None,
                first => first.ok(),
            }
        } else if let Some(wait) = self.store.wait(IDLE, SPACE_EVERY) {
            match self.given.recv_timeout(wait) {
                Err(RecvTimeoutError::Disconnected) => return None,
                first => first.ok(),
            }
        } else {
            Some(self.given.recv().ok()?)
        };
        Some(first.into_iter().chain(self.given.try_iter()).take(BATCH_MAX).collect())
    }

    /// Reads come first: a client waits for them. Says whether there is another turn.
    fn turn(&mut self, works: Vec<PageWork>) -> io::Result<bool> {
        let is_idle = works.is_empty();
        for work in works {
            match work {
                PageWork::Read { shard, ticket, page, bytes } => {
                    let page = self.store.read(page, bytes)?;
                    self.tell(shard, Paged::In(ticket, page))?;
                }
                PageWork::Write { shard, ticket, bytes } => {
                    self.store.push(shard, ticket, bytes);
                }
                PageWork::Free(page) => self.store.free(page),
                PageWork::End => return Ok(false),
            }
        }
        self.store.write()?;
        while let Some((shard, ticket, page)) = self.store.next_written() {
            self.tell(shard, Paged::Out(ticket, page))?;
        }
        self.store.look_after(is_idle)?;
        Ok(true)
    }

    fn tell(&mut self, shard: u16, paged: Paged) -> io::Result<()> {
        let sent = self.back.send(shard.into(), paged.into());
        sent.map_err(|_| io::Error::other("a shard has asked for too many pages"))
    }
}
