//! What the shell has done with pages, and what follows from it.

use super::Shard;
use super::due::Overflowed;
use super::outlet::Outlet;
use crate::keys::{Lsn, Micros, PageId, PageTicket, SessionKey};
use crate::page::{PageIn, PageRef};
use crate::paging::{PageSizes, PagedBounds};
use crate::queue::{Queue, Way};
use crate::record::Record;
use crate::sink::Sink;

/// Deliveries that are copied in a step.
const COPIED_PER_STEP: u64 = 2;

impl Shard {
    /// Keeps what waits for sessions that are in the log on the disk, beyond a small part. Comes
    /// with [`Shard::keep_log`].
    pub fn keep_pages(&mut self, bounds: PagedBounds) {
        self.keep_pages_of(PageSizes::default(), bounds);
    }

    /// As [`Shard::keep_pages`], with pages of another size: small ones let a few messages do what
    /// otherwise takes thousands.
    pub fn keep_pages_of(&mut self, sizes: PageSizes, bounds: PagedBounds) {
        self.paging.keep(sizes);
        self.bounds.on_disk = Some(bounds);
    }

    /// A page that [`Sink::page_out`] was asked for is on the disk.
    pub fn paged_out(
        &mut self,
        ticket: PageTicket,
        page: PageId,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        let asked = self.paging.take_out(ticket);
        let is_taken = asked
            .is_some_and(|(key, messages)| self.put_on_page(key, ticket, (page, messages), sink));
        if !is_taken {
            // No record has ever named it.
            sink.free_page(page);
        }
        if let Some((key, _)) = asked {
            // More may have come meanwhile than a page takes.
            self.look_at_length(key, sink);
        }
        while let Some(key) = self.paging.next_out() {
            self.page_out(key, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// What is on the page now leaves memory, unless it was needed there meanwhile.
    fn put_on_page(
        &mut self,
        key: SessionKey,
        ticket: PageTicket,
        (id, messages): (PageId, u32),
        sink: &mut impl Sink,
    ) -> bool {
        let Self { clients, log, slices, stats, .. } = self;
        let queue = clients.get_mut(key).and_then(|session| session.window.queue_mut());
        let Some(queue) = queue else { return false };
        let Some(paged) = queue.paged.as_mut().filter(|paged| paged.out == Way::Asked(ticket))
        else {
            return false;
        };
        if log.session(key).is_none() {
            paged.out = Way::Idle;
            return false;
        }
        let taken = paged.tail.iter().take(messages as usize);
        let bytes = taken.map(|queued| queued.message.bytes()).sum();
        let behind = (paged.tail.len() - messages as usize) as u64;
        let record = |session| Record::Paged { session, page: id, messages, bytes, behind };
        log.append_of(key, record, sink);
        queue.put_on_page(PageRef { id, messages, bytes });
        slices.add(u64::from(messages) / COPIED_PER_STEP);
        stats.pages_out += 1;
        true
    }

    /// A page that [`Sink::page_in`] was asked for was read.
    pub fn paged_in(
        &mut self,
        ticket: PageTicket,
        page: PageIn,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        if let Some(way) = self.claims.pages.remove(&ticket) {
            self.page_of_leaving(way, page, sink);
        } else if let Some(key) = self.paging.take_fetch(ticket)
            && self.take_from_page(key, ticket, page, sink)
        {
            self.pump(key, now, sink);
        }
        while let Some(key) = self.paging.next_fetch() {
            self.fetch_in_turn(key, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Says whether it was taken: not if the client has left meanwhile, so that it would wait in
    /// memory again.
    fn take_from_page(
        &mut self,
        key: SessionKey,
        ticket: PageTicket,
        page: PageIn,
        sink: &mut impl Sink,
    ) -> bool {
        let Self { clients, log, paging, slices, stats, .. } = self;
        let Some(session) = clients.get_mut(key) else { return false };
        let is_connected = session.attachment.is_some();
        let Some(queue) = session.window.queue_mut() else { return false };
        let Some(paged) = queue.paged.as_mut().filter(|paged| paged.fetch == Way::Asked(ticket))
        else {
            return false;
        };
        paged.fetch = Way::Idle;
        if !is_connected {
            return false;
        }
        slices.add(page.messages() as u64 / COPIED_PER_STEP);
        let Some(PageRef { id, messages, bytes }) = queue.take_from_page(page.0) else {
            return false;
        };
        log.append_of(key, |session| Record::Fetched { session, page: id }, sink);
        paging.bury(PageRef { id, messages, bytes }, log.last());
        stats.pages_in += 1;
        true
    }

    fn fetch_in_turn(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Self { clients, paging, .. } = self;
        let Some(session) = clients.get_mut(key) else { return };
        let is_connected = session.attachment.is_some();
        let Some(queue) = session.window.queue_mut() else { return };
        if let Some(paged) = queue.paged.as_mut().filter(|paged| paged.fetch == Way::Waiting) {
            paged.fetch = Way::Idle;
            if is_connected {
                paging.fetch(key, queue, sink);
            }
        }
    }

    /// No record before this one is in the log any more, and none comes back: pages that only such
    /// ones name are freed.
    pub fn forgotten(&mut self, before: Lsn, sink: &mut impl Sink) {
        self.paging.forgotten(before, sink);
    }

    /// Bytes on pages that are freed once the log was written anew.
    pub fn dead_page_bytes(&self) -> u64 {
        self.paging.dead_bytes()
    }

    /// Has the oldest of a long tail written, in turn.
    pub(super) fn page_out(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Self { clients, log, paging, .. } = self;
        let queue = clients.get_mut(key).and_then(|session| session.window.queue_mut());
        let paged = queue.and_then(|queue| queue.paged.as_mut());
        let Some(paged) = paged.filter(|paged| paged.out == Way::Waiting) else { return };
        if paged.tail.is_empty() || log.session(key).is_none() {
            paged.out = Way::Idle;
        } else {
            paging.page_out(key, paged, sink);
        }
    }

    /// Has a durable session's queue written if it is long, wherever it came from.
    #[inline]
    pub(super) fn look_at_length(&mut self, key: SessionKey, sink: &mut impl Sink) {
        if self.paging.is_on() && self.log.session(key).is_some() {
            self.have_written_if_long(key, sink);
        }
    }

    #[cold]
    fn have_written_if_long(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Self { clients, bounds, paging, .. } = self;
        let Some(session) = clients.get_mut(key) else { return };
        let is_connected = session.attachment.is_some();
        let Some(queue) = session.window.queue_mut() else { return };
        if paging.wants_page(queue, is_connected, bounds.is_short) {
            self.page_out(key, sink);
        }
    }

    /// The queue goes with its session: what is on pages is dead.
    #[inline]
    pub(super) fn bury_queue(&mut self, key: SessionKey) {
        let Self { clients, log, paging, .. } = self;
        if paging.is_on() {
            paging.bury_all(clients[key].queue(), log.last());
        }
    }
}

impl Outlet<'_> {
    /// A durable session has got one more that waits.
    #[cold]
    pub(super) fn note_length(&mut self, key: SessionKey) {
        let Self { clients, due, bounds, paging, .. } = self;
        let session = &mut clients[key];
        let is_connected = session.attachment.is_some();
        let Some(queue) = session.window.queue_mut() else { return };
        if paging.wants_page(queue, is_connected, bounds.is_short) {
            due.overflowed.push(Overflowed::Long(key));
        }
    }

    /// A page that was dropped from a queue as a whole.
    pub(super) fn bury(&mut self, page: PageRef) {
        self.paging.bury(page, self.log.last());
    }

    /// Has the next page fetched, if there is one and little is before it.
    #[inline]
    pub(super) fn fetch_ahead(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let queue = self.clients[key].window.queue_mut();
        if let Some(queue @ Queue { paged: Some(_), .. }) = queue {
            self.paging.fetch(key, queue, sink);
        }
    }
}
