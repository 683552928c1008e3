//! The log of pages with its disk. It does what it is told at once, but for writing: what waits is
//! written together.

use super::super::StoreConfig;
use super::super::generations::{Generations, PAGES};
use super::super::no_store::NoStore;
use super::super::room::Room;
use super::super::seeded::seeded;
use super::PageCounts;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weir_core::{BadPage, PageId, PageIn, PageTicket, Wall};
use weir_store::disk::{Disk, FileName, Folder};
use weir_store::{Body, Damage, Kind, Log, Lsn, OnDamage, Page, Scan, Settings};

/// The kind of a page's record.
const PAGE: Kind = 1;

/// Bytes of pages that are written at a time.
const WRITE_BYTES: usize = 4 << 20;

/// Bytes that are read beside a page: the place of a record is known to a part of a segment.
const BESIDE_BYTES: usize = 32 << 10;

/// By how much a page is longer than what counts of its messages, mostly.
const LONGER: u64 = 2;

/// Why a page was not read.
#[derive(Debug, thiserror::Error)]
enum NotRead {
    #[error("{0}")]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error(transparent)]
    Bad(#[from] BadPage),
    #[error("it is not there")]
    Missing,
}

/// Removes what a first start has left that did not come to its end: no session has pages then.
fn clear_unused(path: &Path) -> Result<(), NoStore> {
    let mut pages = 0;
    Log::scan(&mut Folder::open_to_read(path)?, 0, OnDamage::Salvage, |_| pages += 1)
        .map_err(|why| NoStore::log(path, why))?;
    if pages > 0 {
        let why = "it has pages of queues, and the generation whose they are is not there".into();
        return Err(NoStore::NotWhole { path: path.into(), why });
    }
    std::fs::remove_dir_all(path).map_err(NoStore::disk(path))
}

/// Leaves out what is damaged in the pages of a broker's folder, if they are there.
pub(in super::super) fn repair(root: &Path, store: u64) -> Result<(), NoStore> {
    let path = root.join(PAGES);
    if !path.exists() {
        return Ok(());
    }
    let mut disk = Folder::open(&path)?;
    let settings = seeded(StoreConfig::default().pages(0, 1), store)?;
    Log::open(&mut disk, settings, OnDamage::Salvage, Scan::Records, |_| ())
        .map_err(|why| NoStore::log(&path, why))?;
    Ok(())
}

/// Copies the pages of a broker's folder, if they are there, into another.
pub(in super::super) fn copy(root: &Path, to: &Path) -> Result<(), NoStore> {
    let (from, to) = (root.join(PAGES), to.join(PAGES));
    if !from.exists() {
        return Ok(());
    }
    let copy = || {
        std::fs::create_dir(&to)?;
        for (name, _) in Folder::open_to_read(&from).map_err(io::Error::other)?.list()? {
            if let FileName::Segment(_) = name {
                let name = name.to_string();
                std::fs::copy(from.join(&name), to.join(&name))?;
                File::open(to.join(&name))?.sync_all()?;
            }
        }
        File::open(&to)?.sync_all()
    };
    copy().map_err(NoStore::disk(&to))
}

/// All pages of a broker.
#[derive(Debug)]
pub(in super::super) struct PageStore {
    log: Log,
    disk: Folder,
    wall: Wall,
    /// Those that somebody names.
    live: BTreeSet<Lsn>,
    /// To be written, by whom each was asked for.
    waiting: VecDeque<(u16, PageTicket, Vec<u8>)>,
    /// On their way, oldest first.
    written: VecDeque<(u16, PageTicket, Lsn)>,
    is_stuck: bool,
    has_chores: bool,
    counts: Arc<PageCounts>,
    room: Arc<Room>,
}

impl PageStore {
    /// Opens the pages in a folder, or begins there.
    pub(in super::super) fn open(
        generations: &Generations,
        settings: Settings,
        room: Arc<Room>,
        wall: Wall,
    ) -> Result<Self, NoStore> {
        let path = generations.root().join(PAGES);
        if path.exists() {
            if generations.current() > 0 {
                generations.refuse_strangers(&path)?;
            } else {
                clear_unused(&path)?;
            }
        }
        let mut disk = Folder::open(&path)?;
        let mut live = BTreeSet::new();
        let tell = |record: &weir_store::Record<'_>| {
            live.insert(record.lsn);
        };
        let opened = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Heads, tell);
        let (log, _) = opened.map_err(|why| NoStore::log(disk.path(), why))?;
        let counts = Arc::default();
        let (waiting, written) = (VecDeque::new(), VecDeque::new());
        let (is_stuck, has_chores) = (false, true);
        Ok(Self { log, disk, wall, live, waiting, written, is_stuck, has_chores, counts, room })
    }

    pub(in super::super) fn counts(&self) -> Arc<PageCounts> {
        Arc::clone(&self.counts)
    }

    /// Keeps the pages that are named, and no others.
    pub(in super::super) fn keep(&mut self, named: BTreeSet<PageId>) -> Result<(), NoStore> {
        let named: BTreeSet<Lsn> =
            named.into_iter().map(|PageId(bits)| Lsn::from_bits(bits)).collect();
        if let Some(missing) = named.difference(&self.live).next() {
            let (path, page) = (self.disk.path().into(), missing.to_string());
            return Err(NoStore::Page { path, page, why: "it is not there".into() });
        }
        named.iter().for_each(|&page| self.log.adopt(page, 1));
        self.live = named;
        self.count();
        Ok(())
    }

    /// What is on a page. Its messages have about so many bytes.
    pub(in super::super) fn read(&mut self, page: PageId, bytes: u64) -> io::Result<PageIn> {
        let lsn = Lsn::from_bits(page.0);
        self.find(lsn, BESIDE_BYTES + (bytes * LONGER) as usize).map_err(|why| {
            let path = self.disk.path().display();
            io::Error::other(format!("{path}: page {lsn}: {why}"))
        })
    }

    fn find(&mut self, page: Lsn, mut bytes: usize) -> Result<PageIn, NotRead> {
        loop {
            let mut read = self.log.read(page, bytes).ok_or(NotRead::Missing)?;
            read.perform(&mut self.disk)?;
            let mut found = None;
            let tell = |record: &weir_store::Record<'_>| {
                if record.lsn == page {
                    found = Some(PageIn::decode(record.body.tail, self.wall));
                }
            };
            match (self.log.page(&read, tell)?, found) {
                (_, Some(page)) => return Ok(page?),
                (Page::TooShort(more), None) => bytes = more,
                (Page::Next(_) | Page::Moved, None) => return Err(NotRead::Missing),
            }
        }
    }

    /// A page is to be written.
    pub(super) fn push(&mut self, shard: u16, ticket: PageTicket, bytes: Vec<u8>) {
        self.waiting.push_back((shard, ticket, bytes));
    }

    /// Nobody names a page any more.
    pub(super) fn free(&mut self, page: PageId) {
        let lsn = Lsn::from_bits(page.0);
        if self.live.remove(&lsn) {
            self.log.release(lsn);
            self.has_chores = true;
        }
    }

    /// Writes what waits, unless the disk has no room: then nothing is appended, because what could
    /// not be committed would keep dead segments from being reclaimed.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while !self.log.is_short() && self.log.pending_bytes() < WRITE_BYTES {
            let Some((shard, ticket, bytes)) = self.waiting.pop_front() else { break };
            let body = Body { head: &[], tail: &bytes };
            let lsn = self.log.append(PAGE, body, 1).map_err(io::Error::other)?;
            self.live.insert(lsn);
            self.written.push_back((shard, ticket, lsn));
        }
        while self.log.pending_bytes() > 0 {
            if let Some(commit) = self.log.take_commit() {
                commit.perform(&mut self.disk)?;
                self.log.committed(commit);
                self.has_chores = true;
            } else if !self.do_chore()? {
                break;
            }
        }
        self.is_stuck = self.log.pending_bytes() > 0;
        self.count();
        Ok(())
    }

    /// The next page that was written, and is safe.
    pub(super) fn next_written(&mut self) -> Option<(u16, PageTicket, PageId)> {
        let durable = self.log.durable();
        let (shard, ticket, lsn) = self.written.pop_front_if(|(.., lsn)| *lsn <= durable)?;
        Some((shard, ticket, PageId(lsn.bits())))
    }

    /// What the log has to have done beside.
    pub(super) fn look_after(&mut self, is_idle: bool) -> io::Result<()> {
        if is_idle && (self.log.is_short() || self.is_stuck) {
            self.log.retry_space();
        }
        if is_idle && let Some(closing) = self.log.take_closing() {
            closing.perform(&mut self.disk)?;
            self.log.committed(closing);
        }
        self.has_chores = self.do_chore()?;
        self.count();
        Ok(())
    }

    /// Says whether there was one.
    fn do_chore(&mut self) -> io::Result<bool> {
        let Some(mut chore) = self.log.take_chore() else { return Ok(false) };
        chore.perform(&mut self.disk)?;
        self.room.look();
        let Self { log, live, .. } = self;
        log.chore_done(chore, |record| live.contains(&record.lsn)).map_err(io::Error::other)?;
        Ok(true)
    }

    /// Whether there is something to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.has_chores || (!self.waiting.is_empty() && !self.log.is_short() && !self.is_stuck)
    }

    /// How long nothing may come before there is something to do.
    pub(super) fn wait(&self, idle: Duration, space: Duration) -> Option<Duration> {
        match () {
            () if self.log.is_short() || self.is_stuck => Some(space),
            () if self.log.wants_closing() => Some(idle),
            () => None,
        }
    }

    fn count(&self) {
        let PageCounts { is_short, pages, disk_bytes, rewritten_bytes } = &*self.counts;
        is_short.store(self.log.is_short() || self.is_stuck, Relaxed);
        pages.store(self.live.len() as u64, Relaxed);
        disk_bytes.store(self.log.disk_bytes(), Relaxed);
        rewritten_bytes.store(self.log.rewritten_bytes(), Relaxed);
    }
}
