//! The log of a shard on its way to the disk: what the core records, in commits of a thread of its
//! own.
//!
//! The shard appends while it handles inputs. At the end of a turn a commit leaves for the flusher,
//! if none is on its way and the last one began long enough ago; when it comes back by the mailbox,
//! the core is told how far all is safe. Nothing here waits for the disk, except at the start and
//! at the end.

pub(crate) mod clock;
mod config;
mod copied;
mod flusher;
mod gap;
mod generations;
mod manifest;
mod no_store;
mod pages;
mod progress;
mod read;
mod reclaim;
mod room;
mod salvage;
mod scan;
mod seeded;
mod start;
mod write;

pub use config::{Durability, OnDamage, StoreConfig};
pub(crate) use copied::{CopyTo, Waiting, number_of, records_of};
pub(crate) use flusher::{Flushed, Flusher};
pub(crate) use generations::{ADDED_BANS_FILE, COPIES, Generations, STAND_INS, is_store};
pub use no_store::{Damaged, NoStore};
pub(crate) use pages::{Paged, Pager};
pub use read::{Amounts, Entry, LogCheck, StoreReader};
pub(crate) use salvage::salvage_at_start;
pub use salvage::{Loss, Salvaged, salvage};
pub(crate) use start::{Started, open_copy, start};
pub use write::StoreWriter;

use copied::LogCopy;
use flusher::Work;
use gap::{Gap, is_waited_for};
use pages::PageWay;
use reclaim::Reclaim;
use std::io;
use std::sync::atomic::Ordering;
use weir_core::{LogMail, Lsn, Micros, PageId, PageOut, PageTicket, Record, ShardId, Wall};
use weir_store::{Body, Chore, Commit, Disk, Kind, Log, Settings};

/// Bytes that may wait for the disk before connections are read no more.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// How long there was nothing to commit before an empty commit says that the last one was whole.
const IDLE: Micros = Micros(10_000);

/// How often commits are synced that are only written.
const SYNC_EVERY: Micros = Micros(1_000_000);

/// How often a disk that had no room is asked again.
const SPACE_EVERY: Micros = Micros(1_000_000);

/// Added to the kind of the first record of an input. A message may be referred to up to the end of
/// the input that it came with.
pub(crate) const FIRST_OF_INPUT: Kind = 64;

/// What may wait of records: connections are held back long before.
pub(crate) const PENDING_BYTES_MAX: usize = 1 << 30;

/// The log of one shard.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log,
    flusher: Option<Flusher>,
    wall: Wall,
    gap: Gap,
    is_synced: bool,
    /// A record is encoded here.
    body: Vec<u8>,
    is_first: bool,
    /// Whether somebody waits for what this input has recorded.
    is_request: bool,
    /// The last record of the core's. The log has empty ones of its own behind it.
    last: Lsn,
    /// The last that is safe on this node's disk.
    local: Lsn,
    /// At other nodes.
    copies: Vec<LogCopy>,
    last_sync_at: Micros,
    is_syncing: bool,
    reclaim: Reclaim,
    pages: PageWay,
    /// What waits has no file to go to: chores make one, if the disk has room.
    is_stuck: bool,
    asked_for_space_at: Micros,
    /// Why the disk cannot be used any more.
    failed: Option<io::Error>,
    counts: JournalCounts,
}

/// What a shard's log has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JournalCounts {
    pub(crate) records: u64,
    pub(crate) commits: u64,
    pub(crate) committed_bytes: u64,
    /// How often the log was written anew.
    pub(crate) bases: u64,
    pub(crate) disk_bytes: u64,
    /// How long the slowest commit took, in microseconds.
    pub(crate) commit_us_max: u64,
    /// How long all of them took together.
    pub(crate) commit_us_sum: u64,
    /// Pages of queues on the disk, and what their files take: those of all shards, as the first
    /// one says it.
    pub(crate) pages: u64,
    pub(crate) page_disk_bytes: u64,
    /// Bytes of pages that were copied so that their files could be reclaimed.
    pub(crate) page_rewritten_bytes: u64,
}

impl JournalCounts {
    /// Each with its name.
    pub(crate) fn by_name(self) -> [(&'static str, u64); 10] {
        let Self { records, commits, committed_bytes, bases, disk_bytes, commit_us_max, .. } = self;
        let Self { commit_us_sum, pages, page_disk_bytes, page_rewritten_bytes, .. } = self;
        [
            ("store_records", records),
            ("store_commits", commits),
            ("store_committed_bytes", committed_bytes),
            ("store_bases", bases),
            ("store_disk_bytes", disk_bytes),
            ("store_commit_us_max", commit_us_max),
            ("store_commit_us_sum", commit_us_sum),
            ("store_pages", pages),
            ("store_page_disk_bytes", page_disk_bytes),
            ("store_page_rewritten_bytes", page_rewritten_bytes),
        ]
    }
}

impl Journal {
    fn new(log: Log, settings: &Settings, pages: PageWay, gap_ms: u16) -> Self {
        let wall = pages.wall;
        let Settings { segment_bytes, disk_bytes_max, is_synced, .. } = *settings;
        Self {
            log,
            flusher: None,
            wall,
            gap: Gap::new(Micros(u64::from(gap_ms) * 1_000)),
            is_synced,
            body: Vec::new(),
            is_first: true,
            is_request: false,
            last: Lsn::NONE,
            local: Lsn::NONE,
            copies: Vec::new(),
            last_sync_at: Micros(0),
            is_syncing: false,
            reclaim: Reclaim::new(segment_bytes.into(), disk_bytes_max),
            pages,
            is_stuck: false,
            asked_for_space_at: Micros(0),
            failed: None,
            counts: JournalCounts::default(),
        }
    }

    /// Its commits are performed by this thread from now on.
    pub(crate) fn flush_by(&mut self, flusher: Flusher) {
        self.flusher = Some(flusher);
    }

    /// An input of the shard begins.
    #[inline]
    pub(crate) fn begin_input(&mut self) {
        (self.is_first, self.is_request) = (true, false);
    }

    /// Takes a record. One that cannot be taken ends the broker at the end of the turn, since
    /// nothing may be answered that is not in the log.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> Lsn {
        self.body.clear();
        record.encode(self.wall, &mut self.body);
        let first = if std::mem::take(&mut self.is_first) { FIRST_OF_INPUT } else { 0 };
        if !self.is_request && is_waited_for(record) {
            self.is_request = true;
            self.gap.note_request();
        }
        let (kind, body) = (record.kind() | first, Body { head: &[], tail: &self.body });
        match self.log.append(kind, body, 1) {
            Ok(lsn) => {
                self.counts.records += 1;
                self.last = Lsn(lsn.bits());
                for copy in &mut self.copies {
                    copy.push(self.last, record, (kind, &self.body));
                }
                self.last
            }
            Err(not_appended) => {
                self.failed.get_or_insert_with(|| io::Error::other(not_appended));
                // What waits for it waits until the end.
                Lsn(u64::MAX)
            }
        }
    }

    /// Whether so much waits for the disk that no more should come.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.log.pending_bytes() > WAITING_BYTES_MAX
    }

    /// Whether the disk has no room for more than what makes some.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.log.is_short() || self.reclaim.is_tight() || self.pages.is_short()
    }

    /// Whether the disk is to be asked again for room.
    fn wants_space(&self) -> bool {
        self.log.is_short() || self.reclaim.is_cramped()
    }

    pub(crate) fn counts(&self) -> JournalCounts {
        let mut counts = JournalCounts { disk_bytes: self.log.disk_bytes(), ..self.counts };
        if self.pages.shard == 0 {
            let of_pages = &self.pages.counts;
            counts.pages = of_pages.pages.load(Ordering::Relaxed);
            counts.page_disk_bytes = of_pages.disk_bytes.load(Ordering::Relaxed);
            counts.page_rewritten_bytes = of_pages.rewritten_bytes.load(Ordering::Relaxed);
        }
        counts
    }

    /// Has a page written, read or freed by the thread that has them.
    pub(crate) fn write_page(&self, ticket: PageTicket, page: &PageOut<'_>) {
        self.pages.write(ticket, page);
    }

    /// As [`Journal::write_page`].
    pub(crate) fn read_page(&self, ticket: PageTicket, page: PageId, bytes: u64) {
        self.pages.read(ticket, page, bytes);
    }

    /// As [`Journal::write_page`].
    pub(crate) fn free_page(&self, page: PageId) {
        self.pages.free(page);
    }

    /// The thread that has the pages cannot go on.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// Why the shard has to end.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Whether the shard is to log anew what is there. Pages of so many bytes are freed by the
    /// next base.
    pub(crate) fn wants_base(&mut self, dead_page_bytes: u64, now: Micros) -> bool {
        self.reclaim.note_pages(dead_page_bytes, self.pages.is_short());
        self.reclaim.note_segments(self.log.segments());
        if let Some(flusher) = &self.flusher {
            self.reclaim.note_room(flusher.room().of_each(), self.counts.committed_bytes);
        }
        let is_wanted = self.copies.iter().any(LogCopy::wants_base);
        self.reclaim.begins(self.counts.committed_bytes, now) || is_wanted
    }

    /// Begins a copy of this log at a shard of another node.
    pub(crate) fn copy_to(&mut self, to: CopyTo) {
        self.copies.push(LogCopy::new(to));
    }

    /// There is no copy of this name any more; without one, there is none at all. Says up to where
    /// all is safe then.
    pub(crate) fn end_copy(&mut self, copy: Option<u64>) -> Lsn {
        self.copies.retain(|it| copy.is_some_and(|copy| copy != it.name()));
        self.safe()
    }

    /// The next letter of the copies, at the end of a turn.
    #[inline]
    pub(crate) fn take_copied(&mut self) -> Option<(ShardId, LogMail)> {
        self.copies.iter_mut().find_map(LogCopy::take_letter)
    }

    /// Another node has all up to this record on its disk. Says up to where all is safe, and
    /// whether the copy has become whole.
    pub(crate) fn copied(&mut self, copy: u64, last: Lsn) -> (Lsn, bool) {
        let its = self.copies.iter_mut().find(|it| it.name() == copy);
        let is_whole = its.is_some_and(|it| it.note_safe(copy, last));
        (self.safe(), is_whole)
    }

    /// On the disks of this node, and of all that have whole copies.
    fn safe(&self) -> Lsn {
        self.copies.iter().fold(self.local, |safe, copy| copy.bound(safe))
    }

    /// What comes before the last base that is whole goes, once that is safe. Says which record is
    /// the first that stays, if some go.
    pub(crate) fn reclaim(&mut self, base: Option<(Lsn, Lsn)>, now: Micros) -> Option<Lsn> {
        let (safe, bytes) = (Lsn(self.log.synced().bits()), self.counts.committed_bytes);
        let begin = self.reclaim.committed(safe, base, bytes, now)?;
        self.counts.bases += 1;
        self.log.forget(weir_store::Lsn::from_bits(begin.0));
        Some(begin)
    }

    /// The end of a turn: hands the flusher what is due.
    pub(crate) fn turn_end(&mut self, now: Micros) {
        let Some(flusher) = &self.flusher else { return };
        if self.failed.is_some() || self.log.is_committing() {
            return;
        }
        if self.wants_space() && now >= self.asked_for_space_at + SPACE_EVERY {
            self.asked_for_space_at = now;
            if self.log.is_short() {
                self.log.retry_space();
            }
            flusher.give(Work::Look);
        }
        if let Some(chore) = self.log.take_chore() {
            flusher.give(Work::Chore(chore));
        }
        let is_due = self.log.pending_bytes() > 0 && now >= self.gap.ends_at();
        let commit = if is_due { self.log.take_commit() } else { None };
        self.is_stuck = is_due && commit.is_none();
        if let Some(commit) = commit {
            self.counts.commits += 1;
            self.counts.committed_bytes += commit.bytes().len() as u64;
            self.gap.begun(now);
            return flusher.give(Work::Commit(commit));
        }
        if !self.is_synced
            && !self.is_syncing
            && now >= self.last_sync_at + SYNC_EVERY
            && let Some(sync) = self.log.take_sync()
        {
            (self.is_syncing, self.last_sync_at) = (true, now);
            return flusher.give(Work::Sync(sync));
        }
        if now >= self.gap.begun_at() + IDLE
            && let Some(commit) = self.log.take_closing()
        {
            self.gap.begun(now);
            flusher.give(Work::Commit(commit));
        }
    }

    /// When a turn has to end though nothing happens.
    pub(crate) fn due(&self) -> Option<Micros> {
        if self.log.is_committing() {
            return None;
        }
        let space = self.wants_space().then_some(self.asked_for_space_at + SPACE_EVERY);
        let look = self.reclaim.due(self.counts.committed_bytes);
        if self.is_stuck {
            return space;
        }
        if self.log.pending_bytes() > 0 {
            return Some(self.gap.ends_at());
        }
        let sync = self.log.synced() < self.log.durable() && !self.is_syncing;
        let sync = sync.then_some(self.last_sync_at + SYNC_EVERY);
        let closing = self.log.wants_closing().then_some(self.gap.begun_at() + IDLE);
        [sync, closing, space, look].into_iter().flatten().min()
    }

    /// The flusher has done something. Says how far all is safe, if that was a commit.
    pub(crate) fn flushed(&mut self, flushed: Flushed, now: Micros) -> Option<Lsn> {
        match flushed {
            Flushed::Commit(commit) => {
                let took_us = now.0.saturating_sub(self.gap.begun_at().0);
                self.gap.done();
                self.counts.commit_us_max = self.counts.commit_us_max.max(took_us);
                self.counts.commit_us_sum += took_us;
                self.local = Lsn(self.log.committed(commit).bits()).min(self.last);
                Some(self.safe())
            }
            Flushed::Sync(sync) => {
                self.is_syncing = false;
                self.log.sync_done(&sync);
                None
            }
            Flushed::Chore(chore) => {
                self.chore_done(chore);
                None
            }
            Flushed::Looked => None,
            Flushed::Failed(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    fn chore_done(&mut self, chore: Chore) {
        // Every record is wanted until all before a base go together.
        if let Err(damage) = self.log.chore_done(chore, |_| true) {
            self.failed.get_or_insert_with(|| io::Error::other(damage));
        }
    }

    /// Whether everything that was recorded is as safe as it gets.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_written = self.log.pending_bytes() == 0 && !self.log.is_committing();
        is_written && self.log.synced() >= self.log.durable()
    }

    /// Writes all that waits, on this thread: at the start.
    ///
    /// # Errors
    /// Of the disk, which has no space left among others.
    fn write_out(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        while self.log.pending_bytes() > 0 {
            let commit = self.log.take_commit();
            let chore = if commit.is_none() { self.log.take_chore() } else { None };
            match (commit, chore) {
                (Some(commit), _) => {
                    Commit::perform(&commit, disk)?;
                    self.counts.commits += 1;
                    self.counts.committed_bytes += commit.bytes().len() as u64;
                    self.log.committed(commit);
                }
                (None, Some(mut chore)) => {
                    chore.perform(disk)?;
                    self.chore_done(chore);
                }
                (None, None) => return Err(io::ErrorKind::StorageFull.into()),
            }
        }
        if let Some(sync) = self.log.take_sync() {
            sync.perform(disk)?;
            self.log.sync_done(&sync);
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}
