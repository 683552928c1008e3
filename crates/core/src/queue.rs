//! What waits for a session, oldest first: a head in memory, then pages on the disk, then a tail in
//! memory. Without pages, all of it is the head.

use crate::keys::PageTicket;
use crate::message::Queued;
use crate::page::PageRef;
use std::collections::VecDeque;

/// Deliveries that wait for the window, the socket or the client.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The head.
    pub(crate) deliveries: VecDeque<Queued>,
    /// What is in memory: head and tail.
    pub(crate) bytes: u64,
    /// Whether the client was absent since the queue was last empty.
    pub(crate) is_from_absence: bool,
    /// What is behind the head, once the head was long enough for that. While the head is empty,
    /// there is a page in it.
    pub(crate) paged: Option<Box<Paged>>,
}

/// Pages, and what is behind them.
#[derive(Debug, Default)]
pub(crate) struct Paged {
    pub(crate) pages: VecDeque<PageRef>,
    pub(crate) tail: VecDeque<Queued>,
    pub(crate) tail_bytes: u64,
    /// What is on the pages.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The oldest of the tail are on their way to the disk.
    pub(crate) out: Way,
    /// The first page is on its way to the head.
    pub(crate) fetch: Way,
}

/// Whether a page is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Idle,
    /// It waits until others are through.
    Waiting,
    Asked(PageTicket),
}

/// The oldest delivery, which will not be sent.
#[derive(Debug)]
pub(crate) enum Dropped {
    FromMemory(Queued),
    /// One that is on a page; the page too, if that was its last.
    FromPage(Option<PageRef>),
}

impl Queue {
    /// All that was there without pages.
    pub(crate) fn of(deliveries: VecDeque<Queued>) -> Self {
        let bytes = deliveries.iter().map(|queued| queued.message.bytes()).sum();
        Self { deliveries, bytes, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.paged.is_none()
    }

    /// Messages and bytes, in memory and on the disk.
    pub(crate) fn total(&self) -> (u64, u64) {
        let head = self.deliveries.len() as u64;
        let Some(paged) = &self.paged else { return (head, self.bytes) };
        let tail = paged.tail.len() as u64;
        (head + paged.messages + tail, self.bytes + paged.bytes)
    }

    /// Puts a delivery behind all others.
    pub(crate) fn push(&mut self, queued: Queued) {
        let bytes = queued.message.bytes();
        self.bytes += bytes;
        match &mut self.paged {
            None => self.deliveries.push_back(queued),
            Some(paged) => {
                paged.tail_bytes += bytes;
                paged.tail.push_back(queued);
            }
        }
    }

    /// Takes the oldest out, if it is in memory.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let queued = self.deliveries.pop_front()?;
        self.bytes -= queued.message.bytes();
        if self.deliveries.is_empty() {
            self.refill();
        }
        Some(queued)
    }

    /// The head is empty: what is behind it is the head, if there is no page between them. A page
    /// that is on its way out then comes too late.
    fn refill(&mut self) {
        if let Some(mut paged) = self.paged.take_if(|paged| paged.pages.is_empty()) {
            self.deliveries = std::mem::take(&mut paged.tail);
        }
    }

    /// Takes the oldest out, wherever it is.
    pub(crate) fn drop_oldest(&mut self) -> Option<Dropped> {
        if let Some(queued) = self.pop() {
            return Some(Dropped::FromMemory(queued));
        }
        let paged = self.paged.as_mut()?;
        let page = paged.pages.front_mut()?;
        let bytes = page.skip_one();
        (paged.messages, paged.bytes) = (paged.messages - 1, paged.bytes - bytes);
        let over = paged.pages.pop_front_if(|page| page.messages == 0);
        if over.is_some() {
            paged.fetch = Way::Idle;
            self.refill();
        }
        Some(Dropped::FromPage(over))
    }

    /// Has what comes next wait behind a head of so many deliveries, if there are as many.
    pub(crate) fn split(&mut self, head_max: usize) -> Option<&mut Paged> {
        if self.paged.is_none() && self.deliveries.len() >= head_max {
            let tail = self.deliveries.split_off(head_max);
            let tail_bytes = tail.iter().map(|queued| queued.message.bytes()).sum();
            self.paged = Some(Box::new(Paged { tail, tail_bytes, ..Paged::default() }));
        }
        self.paged.as_deref_mut()
    }

    /// The oldest of the tail are on a page now.
    pub(crate) fn put_on_page(&mut self, page: PageRef) {
        let Some(paged) = &mut self.paged else { return };
        let bytes: u64 =
            paged.tail.drain(..page.messages as usize).map(|queued| queued.message.bytes()).sum();
        crate::shrink::queue(&mut paged.tail);
        paged.out = Way::Idle;
        paged.tail_bytes -= bytes;
        self.bytes -= bytes;
        paged.push_page(page);
    }

    /// What was on the first page is in memory again, behind the head.
    pub(crate) fn take_from_page(&mut self, deliveries: Vec<Queued>) -> Option<PageRef> {
        let paged = self.paged.as_mut()?;
        let page = paged.pages.pop_front()?;
        paged.fetch = Way::Idle;
        paged.messages -= u64::from(page.messages);
        paged.bytes -= page.bytes;
        let at = deliveries.len().saturating_sub(page.messages as usize);
        self.deliveries.extend(deliveries.into_iter().skip(at).inspect(|queued| {
            self.bytes += queued.message.bytes();
        }));
        if self.deliveries.is_empty() {
            self.refill();
        }
        Some(page)
    }

    /// It goes to another shard: what was asked for comes to this one.
    pub(crate) fn forget_ways(&mut self) {
        if let Some(paged) = &mut self.paged {
            (paged.out, paged.fetch) = (Way::Idle, Way::Idle);
        }
    }
}

impl Paged {
    pub(crate) fn push_page(&mut self, page: PageRef) {
        self.messages += u64::from(page.messages);
        self.bytes += page.bytes;
        self.pages.push_back(page);
    }
}
