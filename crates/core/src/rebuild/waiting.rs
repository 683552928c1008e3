//! What waits for a session as its records have it: in memory, on pages, and in memory again.
//!
//! What was fetched from a page is not read until the end: most of it has been sent by then, and a
//! page may be gone that only records of an earlier base name.

use crate::keys::{Micros, PageId};
use crate::message::Queued;
use crate::page::{PageIn, PageRef};
use crate::queue::{Paged, Queue};
use crate::window::{DeliveryState, InFlight};
use std::collections::VecDeque;
use std::fmt;
use weir_wire::{PacketId, QoS};

const QUEUE_IS_EMPTY: &str = "the session's queue is empty";
const OTHER_PLACE: &str = "what is on the page was not where it says";

/// A page that is wanted cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPage<E> {
    /// It cannot be read.
    Unread(PageId, E),
    /// There is less on it than was.
    Short(PageId),
}

impl<E: fmt::Display> fmt::Display for NoPage<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(_, why) => write!(out, "{why}"),
            Self::Short(page) => write!(out, "page {} has less on it than it should", page.0),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for NoPage<E> {}

/// A message that waits, or must be kept.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Here(Queued),
    /// So many from the end of a page that was fetched.
    Fetched(PageId, u32),
}

/// A delivery in flight; without a message, only its identifier is owed.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) packet_id: PacketId,
    pub(super) message: Option<Kept>,
}

/// What of the head is in memory.
#[derive(Debug)]
enum Part {
    Here(Queued),
    Fetched(PageRef),
}

/// As [`Queue`].
#[derive(Debug, Default)]
pub(super) struct Waiting {
    head: VecDeque<Part>,
    pages: VecDeque<PageRef>,
    tail: VecDeque<Queued>,
}

impl Waiting {
    pub(super) fn push(&mut self, queued: Queued) {
        if self.pages.is_empty() {
            self.head.push_back(Part::Here(queued));
        } else {
            self.tail.push_back(queued);
        }
    }

    pub(super) fn push_page(&mut self, page: PageRef) -> Result<(), &'static str> {
        if !self.tail.is_empty() {
            return Err("a page behind what came after it");
        }
        self.pages.push_back(page);
        Ok(())
    }

    /// The oldest, which has to be in memory.
    pub(super) fn oldest(&self) -> Result<Kept, &'static str> {
        match self.head.front() {
            Some(Part::Here(queued)) => Ok(Kept::Here(queued.clone())),
            Some(Part::Fetched(page)) => Ok(Kept::Fetched(page.id, page.messages)),
            None if self.pages.is_empty() => Err(QUEUE_IS_EMPTY),
            None => Err("what was sent is on a page"),
        }
    }

    pub(super) fn drop_oldest(&mut self) -> Result<(), &'static str> {
        match self.head.front_mut() {
            Some(Part::Fetched(page)) if page.messages > 1 => {
                page.skip_one();
            }
            Some(_) => {
                self.head.pop_front();
            }
            None => {
                let page = self.pages.front_mut().ok_or(QUEUE_IS_EMPTY)?;
                page.skip_one();
                self.pages.pop_front_if(|page| page.messages == 0);
                self.join();
            }
        }
        Ok(())
    }

    /// The pages whose content is wanted at the end: what was fetched and is still there.
    pub(super) fn fetched(&self) -> impl Iterator<Item = PageId> {
        self.head.iter().filter_map(|part| match part {
            Part::Here(_) => None,
            Part::Fetched(page) => Some(page.id),
        })
    }

    /// Goes on without these pages. Returns how many messages were on them.
    pub(super) fn forget(&mut self, is_lost: impl Fn(PageId) -> bool) -> u64 {
        let mut messages = 0;
        let mut stays = |page: &PageRef| {
            let is_lost = is_lost(page.id);
            messages += if is_lost { u64::from(page.messages) } else { 0 };
            !is_lost
        };
        self.head.retain(|part| match part {
            Part::Here(_) => true,
            Part::Fetched(page) => stays(page),
        });
        self.pages.retain(|page| stays(page));
        self.join();
        messages
    }

    /// Without pages, all is the head.
    fn join(&mut self) {
        if self.pages.is_empty() {
            self.head.extend(self.tail.drain(..).map(Part::Here));
        }
    }

    /// The oldest behind the last page are on this one now, but for so many.
    pub(super) fn put_on_page(&mut self, page: PageRef, behind: u64) -> Result<(), &'static str> {
        let messages = page.messages as usize;
        let behind = usize::try_from(behind).map_err(|_| OTHER_PLACE)?;
        if self.pages.is_empty() {
            let end = self.head.len().checked_sub(behind).ok_or(OTHER_PLACE)?;
            let begin = end.checked_sub(messages).ok_or(OTHER_PLACE)?;
            let is_here = |part: &Part| matches!(part, Part::Here(_));
            if !self.head.range(begin..).all(is_here) {
                return Err(OTHER_PLACE);
            }
            let tail = self.head.split_off(end).into_iter();
            self.tail = tail.filter_map(Part::here).collect();
            self.head.truncate(begin);
        } else if self.tail.len().checked_sub(behind) == Some(messages) {
            self.tail.drain(..messages);
        } else {
            return Err(OTHER_PLACE);
        }
        self.pages.push_back(page);
        Ok(())
    }

    /// What is on the first page is in memory again.
    pub(super) fn fetch(&mut self, page: PageId) -> Result<(), &'static str> {
        let first = self.pages.pop_front_if(|first| first.id == page);
        self.head.push_back(Part::Fetched(first.ok_or("it is not the first page of its queue")?));
        self.join();
        Ok(())
    }

    /// The queue of the session, without what has expired in memory.
    pub(super) fn resolve<E, R: FnMut(PageId) -> Result<PageIn, E>>(
        self,
        now: Micros,
        fetched: &mut Fetched<'_, R>,
    ) -> Result<Queue, NoPage<E>> {
        let mut deliveries = VecDeque::new();
        for part in self.head {
            match part {
                Part::Here(queued) => deliveries.push_back(queued),
                Part::Fetched(PageRef { id, messages, .. }) => {
                    for from_end in (1..=messages).rev() {
                        deliveries.push_back(fetched.find(id, from_end)?);
                    }
                }
            }
        }
        deliveries.retain(|queued| !queued.message.is_expired(now));
        let mut tail = self.tail;
        tail.retain(|queued| !queued.message.is_expired(now));
        let mut queue = Queue::of(deliveries);
        if !self.pages.is_empty() {
            let mut paged = Box::<Paged>::default();
            self.pages.into_iter().for_each(|page| paged.push_page(page));
            queue.paged = Some(paged);
        }
        tail.into_iter().for_each(|queued| queue.push(queued));
        Ok(queue)
    }
}

impl Part {
    fn here(self) -> Option<Queued> {
        match self {
            Self::Here(queued) => Some(queued),
            Self::Fetched(_) => None,
        }
    }
}

impl Open {
    /// The page that its message was fetched from.
    pub(super) fn page(&self) -> Option<PageId> {
        match self.message {
            Some(Kept::Fetched(page, _)) => Some(page),
            Some(Kept::Here(_)) | None => None,
        }
    }

    pub(super) fn resolve<E, R: FnMut(PageId) -> Result<PageIn, E>>(
        self,
        fetched: &mut Fetched<'_, R>,
    ) -> Result<InFlight, NoPage<E>> {
        let message = match self.message {
            None => None,
            Some(Kept::Here(queued)) => Some(queued),
            Some(Kept::Fetched(page, from_end)) => Some(fetched.find(page, from_end)?),
        };
        let state = match message.as_ref().map(|queued| queued.qos) {
            None => DeliveryState::AwaitPubComp,
            Some(QoS::ExactlyOnce) => DeliveryState::AwaitPubRec,
            Some(QoS::AtLeastOnce | QoS::AtMostOnce) => DeliveryState::AwaitPubAck,
        };
        Ok(InFlight { packet_id: self.packet_id, state, message })
    }
}

/// Pages that were fetched, one at a time: a session's are wanted in order.
pub(super) struct Fetched<'a, R> {
    pub(super) read: &'a mut R,
    pub(super) last: Option<(PageId, PageIn)>,
}

impl<E, R: FnMut(PageId) -> Result<PageIn, E>> Fetched<'_, R> {
    fn find(&mut self, page: PageId, from_end: u32) -> Result<Queued, NoPage<E>> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != page) {
            let read = (self.read)(page).map_err(|why| NoPage::Unread(page, why))?;
            self.last = Some((page, read));
        }
        let all = self.last.as_ref().map_or(&[][..], |(_, page)| &page.0);
        let at = all.len().checked_sub(from_end as usize).ok_or(NoPage::Short(page))?;
        Ok(all[at].clone())
    }
}
