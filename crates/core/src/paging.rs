//! Queues of durable sessions on the disk: what a shard has asked for, and what it no longer needs.
//!
//! A page is a run of deliveries of one session. The shell writes, reads and frees pages behind
//! [`Sink`]; here is only which of them are on their way, and for whom. What is on a page is named
//! by records of the log, so that it must outlive all of these.

use crate::keys::{Lsn, PageTicket, SessionKey};
use crate::page::{PageOut, PageRef};
use crate::queue::{Paged, Queue, Way};
use crate::sink::Sink;
use std::collections::{BTreeMap, VecDeque};

/// So many bytes behind the head are worth a page, however few deliveries they are.
const TAIL_BYTES: u64 = 256 * 1024;

/// What one page takes at most.
const PAGE_BYTES_MAX: u64 = 512 * 1024;

/// Pages of a shard that are on their way at a time, each way.
const ON_THEIR_WAY_MAX: usize = 16;

/// What may wait for a session that is kept on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedBounds {
    /// Messages in its queue, in memory and on the disk.
    pub queue_messages_max: u64,
    /// Payload, topic and properties of them.
    pub queue_bytes_max: u64,
}

/// How many deliveries stay in memory, and how many are on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSizes {
    /// Those of an absent session that stay, so that it has something at once when it is back.
    pub head_absent: usize,
    /// Those of a connected one, whose next page is fetched before these are sent.
    pub head_connected: usize,
    /// So many behind the head are worth a page.
    pub tail: usize,
    /// The same while memory is short.
    pub short_tail: usize,
    /// What one page takes if more has come by then.
    pub page_max: usize,
}

impl Default for PageSizes {
    fn default() -> Self {
        Self { head_absent: 64, head_connected: 1_024, tail: 512, short_tail: 32, page_max: 2_048 }
    }
}

/// Which pages of a shard are on their way, and which are dead.
#[derive(Debug, Default)]
pub(crate) struct Paging {
    is_on: bool,
    sizes: PageSizes,
    last: u64,
    outs: Lane,
    fetches: Lane,
    /// Pages that nobody waits for, each with the last record by then: older ones may name it.
    dead: VecDeque<(Lsn, PageRef)>,
    dead_bytes: u64,
}

/// What goes one way.
#[derive(Debug, Default)]
struct Lane {
    /// For whom, and how many messages.
    asked: BTreeMap<PageTicket, (SessionKey, u32)>,
    /// Some may be over by now, or have their turn without this.
    waiting: VecDeque<SessionKey>,
}

impl Lane {
    fn has_room(&self) -> bool {
        self.asked.len() < ON_THEIR_WAY_MAX
    }
}

impl Paging {
    pub(crate) fn keep(&mut self, sizes: PageSizes) {
        (self.is_on, self.sizes) = (true, sizes);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Bytes on pages that nobody waits for, which are freed after the next base.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.dead_bytes
    }

    pub(crate) fn next_ticket(&mut self) -> PageTicket {
        self.last += 1;
        PageTicket(self.last)
    }

    /// Whether what is behind the head is long enough for a page, and none is on its way. If so,
    /// one is wanted.
    pub(crate) fn wants_page(&self, queue: &mut Queue, is_connected: bool, is_short: bool) -> bool {
        let PageSizes { head_absent, head_connected, tail, short_tail, .. } = self.sizes;
        let head_max = if is_connected { head_connected } else { head_absent };
        let Some(paged) = queue.split(head_max) else { return false };
        let tail_max = if is_short { short_tail } else { tail };
        let is_long = paged.tail.len() >= tail_max || paged.tail_bytes >= TAIL_BYTES;
        let wants = is_long && paged.out == Way::Idle;
        if wants {
            paged.out = Way::Waiting;
        }
        wants
    }

    /// Asks for the oldest of a session's tail to be written, or notes that it waits for that.
    pub(crate) fn page_out(&mut self, key: SessionKey, paged: &mut Paged, sink: &mut impl Sink) {
        if !self.outs.has_room() {
            return self.outs.waiting.push_back(key);
        }
        let ticket = self.next_ticket();
        paged.out = Way::Asked(ticket);
        let page = PageOut::of(&paged.tail, self.sizes.page_max, PAGE_BYTES_MAX);
        self.outs.asked.insert(ticket, (key, page.messages() as u32));
        sink.page_out(ticket, page);
    }

    /// Asks for the next page of a session whose head is nearly empty, if there is one.
    #[cold]
    pub(crate) fn fetch(&mut self, key: SessionKey, queue: &mut Queue, sink: &mut impl Sink) {
        let Queue { deliveries, paged: Some(paged), .. } = queue else { return };
        let Some(page) = paged.pages.front() else { return };
        if deliveries.len() >= self.sizes.head_connected || matches!(paged.fetch, Way::Asked(_)) {
            return;
        }
        if !self.fetches.has_room() {
            if std::mem::replace(&mut paged.fetch, Way::Waiting) == Way::Idle {
                self.fetches.waiting.push_back(key);
            }
            return;
        }
        let ticket = self.next_ticket();
        paged.fetch = Way::Asked(ticket);
        self.fetches.asked.insert(ticket, (key, page.messages));
        sink.page_in(ticket, page.id, page.bytes);
    }

    /// A page was written: whose it is, and with how many messages.
    pub(crate) fn take_out(&mut self, ticket: PageTicket) -> Option<(SessionKey, u32)> {
        self.outs.asked.remove(&ticket)
    }

    /// A page was read: whose it is.
    pub(crate) fn take_fetch(&mut self, ticket: PageTicket) -> Option<SessionKey> {
        self.fetches.asked.remove(&ticket).map(|(key, _)| key)
    }

    /// Who has waited longest to have a page written, if there is room for it.
    pub(crate) fn next_out(&mut self) -> Option<SessionKey> {
        if self.outs.has_room() { self.outs.waiting.pop_front() } else { None }
    }

    /// Who has waited longest for a page.
    pub(crate) fn next_fetch(&mut self) -> Option<SessionKey> {
        if self.fetches.has_room() { self.fetches.waiting.pop_front() } else { None }
    }

    /// Nobody waits for a page any more. Records up to this one may still name it.
    pub(crate) fn bury(&mut self, page: PageRef, last: Lsn) {
        self.dead_bytes += page.bytes.max(1);
        self.dead.push_back((last, page));
    }

    /// All that a session has on pages is not wanted any more.
    pub(crate) fn bury_all(&mut self, queue: Option<&Queue>, last: Lsn) {
        let paged = queue.and_then(|queue| queue.paged.as_deref());
        for &page in paged.iter().flat_map(|paged| &paged.pages) {
            self.bury(page, last);
        }
    }

    /// No record before this one is there any more: frees what only such ones name.
    pub(crate) fn forgotten(&mut self, before: Lsn, sink: &mut impl Sink) {
        while let Some((_, page)) = self.dead.pop_front_if(|(last, _)| *last < before) {
            self.dead_bytes -= page.bytes.max(1);
            sink.free_page(page.id);
        }
        crate::shrink::queue(&mut self.dead);
    }
}
