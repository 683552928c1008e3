//! Pages of queues, on a disk that does what it is asked for late.
//!
//! As the broker has it, a page that a shard was told of outlives a crash, until the shard frees
//! it; what was asked for and not done is gone, and so is what no session names at a start.

use super::{WALL, World};
use crate::chance::Chance;
use crate::finding::Checker;
use crate::plant::Plant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_core::{Lsn, PageId, PageIn, PageOut, PageSizes, PageTicket, PagedBounds, Parcel};

/// The stream of chance that says whether there are pages: no step has it.
const PAGES_STREAM: u64 = u64::MAX - 5;

/// Queues are bounded by others: by the run's settings where there are no pages.
const BOUNDS: PagedBounds = PagedBounds { queue_messages_max: 1_000_000, queue_bytes_max: 1 << 40 };

/// What a shard asked for.
#[derive(Debug)]
enum Work {
    Write(Vec<u8>),
    /// It is read before anything that the shard asks for later, such as that it be freed.
    Read(PageId, PageIn),
}

/// The disk of all shards.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// In a run with pages.
    sizes: Option<PageSizes>,
    on_disk: BTreeMap<PageId, Vec<u8>>,
    /// Told of before they were safe.
    unsafe_yet: BTreeSet<PageId>,
    /// By the shard that asked.
    works: VecDeque<(usize, PageTicket, Work)>,
    last: u64,
    /// What a shard did that it must not.
    wrong: Option<String>,
}

impl Pages {
    pub(super) fn new(has_crashes: bool, seed: u64) -> Self {
        let mut chance = Chance::new(seed, PAGES_STREAM);
        let is_on = has_crashes && chance.one_in(2);
        let sizes = is_on.then(|| PageSizes {
            head_absent: chance.pick(&[1, 2]),
            head_connected: chance.pick(&[1, 2]),
            tail: chance.pick(&[1, 1, 2]),
            short_tail: 1,
            page_max: chance.pick(&[1, 2, 3]),
        });
        Self { sizes, ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.sizes.is_some()
    }

    pub(super) fn write(&mut self, shard: usize, ticket: PageTicket, page: &PageOut<'_>) {
        let mut bytes = Vec::new();
        page.encode(WALL, &mut bytes);
        self.works.push_back((shard, ticket, Work::Write(bytes)));
    }

    pub(super) fn ask(&mut self, shard: usize, ticket: PageTicket, page: PageId) {
        match self.read(page) {
            Ok(read) => self.works.push_back((shard, ticket, Work::Read(page, read))),
            Err(what) => self.wrong = Some(what),
        }
    }

    pub(super) fn free(&mut self, page: PageId) {
        if self.on_disk.remove(&page).is_none() {
            self.wrong = Some(format!("page {} is freed, and is not there", page.0));
        }
    }

    /// What is on a page.
    pub(super) fn read(&self, page: PageId) -> Result<PageIn, String> {
        let bytes = self.on_disk.get(&page).ok_or(format!("page {} is not there", page.0))?;
        PageIn::decode(bytes, WALL).map_err(|bad| bad.to_string())
    }

    /// What was not safe is gone, as if it had never been.
    pub(super) fn crash(&mut self) {
        self.works.clear();
        let lost = std::mem::take(&mut self.unsafe_yet);
        self.on_disk.retain(|page, _| !lost.contains(page));
    }

    /// At a start: only what somebody names is kept, and all of that has to be there.
    pub(super) fn keep(&mut self, parcels: &[Parcel]) -> Result<(), String> {
        let named: BTreeSet<PageId> = parcels.iter().flat_map(Parcel::pages).collect();
        let missing = named.iter().find(|page| !self.on_disk.contains_key(page));
        let missing = missing.map(|page| format!("page {} is named, and is not there", page.0));
        self.on_disk.retain(|page, _| named.contains(page));
        missing.map_or(Ok(()), Err)
    }
}

impl World {
    /// Shards that keep a log keep pages too, if the run has any.
    pub(super) fn keep_pages(&mut self) {
        if let Some(sizes) = self.pages.sizes {
            self.shards.iter_mut().for_each(|shard| shard.keep_pages_of(sizes, BOUNDS));
        }
    }

    /// The disk does something that it was asked for: of each shard, reads and writes have their
    /// order each. Says whether there was something.
    pub(super) fn answer_page(&mut self) -> bool {
        if self.pages.works.is_empty() {
            return false;
        }
        let any = self.chance.below(self.pages.works.len());
        let (shard, _, work) = &self.pages.works[any];
        let is_write = matches!(work, Work::Write(_));
        let is_alike = |(of, _, work): &(usize, PageTicket, Work)| {
            of == shard && matches!(work, Work::Write(_)) == is_write
        };
        let first = self.pages.works.iter().position(is_alike).unwrap_or(any);
        let Some((shard, ticket, work)) = self.pages.works.remove(first) else { return false };
        let root = self.new_root();
        self.model.begin_call(root, shard);
        let events = match work {
            Work::Write(bytes) => {
                let page = self.written(bytes);
                self.trace.add(format_args!("  shard {shard}: page {} is written", page.0));
                self.act(shard, |shard, now, sink| shard.paged_out(ticket, page, now, sink)).1
            }
            Work::Read(page, read) => {
                let read = self.misread(page).unwrap_or(read);
                self.trace.add(format_args!("  shard {shard}: page {} is read", page.0));
                self.act(shard, |shard, now, sink| shard.paged_in(ticket, read, now, sink)).1
            }
        };
        self.carry_out(shard, root, events);
        true
    }

    fn written(&mut self, bytes: Vec<u8>) -> PageId {
        self.pages.last += 1;
        let page = PageId(self.pages.last);
        self.pages.on_disk.insert(page, bytes);
        if self.saboteur.strikes(Plant::TellOfPageEarly) {
            self.pages.unsafe_yet.insert(page);
        }
        page
    }

    /// Another page, if that is what is planted.
    fn misread(&mut self, page: PageId) -> Option<PageIn> {
        let other = self.pages.on_disk.keys().copied().find(|&other| other != page)?;
        self.saboteur.strikes(Plant::MisreadPage).then(|| self.pages.read(other).ok())?
    }

    /// Everything before this record of a shard's log is forgotten: so are pages that only that
    /// names.
    pub(super) fn forget_pages(&mut self, shard: usize, before: Lsn) {
        if self.pages.is_on() && !self.saboteur.strikes(Plant::KeepDeadPages) {
            let ((), events) = self.act(shard, |shard, _, sink| shard.forgotten(before, sink));
            debug_assert!(events.is_empty(), "pages are freed, and nothing else is done");
        }
    }

    /// No session is left, and the logs were written anew: neither is any page.
    pub(super) fn check_pages_are_gone(&mut self) {
        if !self.pages.is_on() {
            return;
        }
        for shard in 0..self.shards.len() {
            self.base_of(shard);
        }
        self.carry_until_quiet();
        if !self.pages.on_disk.is_empty() {
            let what = format!("pages {:?} are left at the end", self.pages.on_disk.keys());
            self.model.fail(Checker::Balance, what);
        }
    }

    /// What a shard asked of the pages that it must not.
    pub(super) fn check_pages(&mut self) {
        if let Some(what) = self.pages.wrong.take() {
            self.model.fail(Checker::Recovery, what);
        }
    }
}
