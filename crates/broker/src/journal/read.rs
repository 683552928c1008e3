//! A store as whoever looks into it sees it: its logs, record by record, and what is wrong with
//! them. Nothing is changed, and no broker can have the store meanwhile.

use super::FIRST_OF_INPUT;
use super::clock::{WALL, wall_now};
use super::generations::{Generations, file_bytes};
use super::no_store::{Damaged, NoStore};
use super::pages::PagesThere;
use super::progress::Progress;
use super::start::end_of_unfinished;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_core::{Lsn, PageId, Parcel, Rebuild, Record, Renamed};
use weir_store::disk::Folder;
use weir_store::{Found, OnDamage, SegmentNumber};

/// A store that is read. It is locked for as long as this is there.
#[derive(Debug)]
pub struct StoreReader {
    generations: Generations,
    logs: Vec<(u16, PathBuf)>,
}

/// A record of a log.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Its place in the order of its log.
    pub lsn: Lsn,
    /// In which segment of the log it is.
    pub(super) segment: SegmentNumber,
    /// Where in it.
    pub(super) offset: u32,
    /// Whether it is the first of what one input led to.
    pub(super) is_first: bool,
    /// The record, or why its bytes are none.
    pub record: Result<Record<'a>, String>,
}

/// What is in a log.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// The shard that wrote it.
    pub shard: u16,
    /// Its files with records.
    pub segments: usize,
    /// Bytes of all its files, with those that are ready for use.
    pub file_bytes: u64,
    /// Records that are whole.
    pub records: u64,
    /// Bytes of a commit that was on its way in a crash. Nobody was told that it was safe.
    pub cut_bytes: u64,
    /// What was acknowledged and is not there as it was written.
    pub damages: Vec<Damaged>,
    /// What the records say, as far as they can be read.
    pub amounts: Amounts,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Sessions.
    pub sessions: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Messages that wait for their clients.
    pub queued: u64,
    /// Deliveries that were sent and not acknowledged.
    pub in_flight: u64,
    /// Retained messages.
    pub retained: u64,
}

impl Amounts {
    pub(super) fn add(&mut self, parcel: &Parcel) {
        parcel.tell_records(&mut Renamed::default(), &mut |record| {
            self.count(record);
            Lsn(1)
        });
    }

    fn count(&mut self, record: &Record<'_>) {
        match record {
            Record::Session { .. } => self.sessions += 1,
            Record::Subscribed { .. } => self.subscriptions += 1,
            Record::Queued { packet_id: None, .. } => self.queued += 1,
            Record::Page { messages, .. } => self.queued += u64::from(*messages),
            Record::Queued { .. } | Record::Received { .. } => self.in_flight += 1,
            Record::Retained { .. } => self.retained += 1,
            _ => {}
        }
    }

    /// What both are together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            subscriptions: self.subscriptions + other.subscriptions,
            queued: self.queued + other.queued,
            in_flight: self.in_flight + other.in_flight,
            retained: self.retained + other.retained,
        }
    }
}

impl StoreReader {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// It cannot be read, is none, or is in use by a broker.
    pub fn open(root: &Path) -> Result<Self, NoStore> {
        let generations = Generations::open_to_read(root)?;
        let logs = generations.logs()?;
        Ok(Self { generations, logs })
    }

    /// The number of the generation that counts.
    pub fn generation(&self) -> u64 {
        self.generations.current()
    }

    /// The shards that have a log, with its folder.
    pub fn logs(&self) -> &[(u16, PathBuf)] {
        &self.logs
    }

    /// Reads all that is there, once, and says of each log what is in it and what is damaged. Files
    /// of pages that are damaged are told with the first log.
    ///
    /// # Errors
    /// A log cannot be read.
    pub fn check(&self) -> Result<Vec<LogCheck>, NoStore> {
        let (mut checks, mut rebuilds) = (Vec::new(), Vec::new());
        for (shard, path) in &self.logs {
            let (check, rebuild) = check_log(*shard, path)?;
            checks.push(check);
            rebuilds.push(rebuild);
        }
        let pages = PagesThere::read(self.generations.root(), &fetched(&rebuilds))?;
        if let Some(first) = checks.first_mut() {
            first.damages.extend(pages.damages().iter().cloned());
        }
        for (LogCheck { damages, amounts, .. }, rebuild) in checks.iter_mut().zip(rebuilds) {
            let parcels = parcels_there(&pages, rebuild, |lost| damages.push(lost))?;
            parcels.iter().for_each(|parcel| amounts.add(parcel));
        }
        Ok(checks)
    }

    /// Tells of every record of a log that is whole.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn records(
        &self,
        shard: u16,
        path: &Path,
        tell: impl FnMut(Entry<'_>),
    ) -> Result<(), NoStore> {
        scan(shard, path, tell).map(drop)
    }

    /// Tells of the sessions and retained messages that the logs amount to, as records that say the
    /// same. Those of a session follow each other, with numbers of their own.
    ///
    /// # Errors
    /// A log cannot be read, or is damaged.
    pub fn amounts_to(&self, mut each: impl FnMut(Lsn, &Record<'_>)) -> Result<(), NoStore> {
        let mut progress = Progress::of(&self.logs)?;
        let read = |(shard, path): &(u16, PathBuf)| {
            super::start::read((*shard, false), path, WALL, &mut progress)
        };
        let rebuilds = self.logs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let root = self.generations.root();
        let pages = PagesThere::read(root, &fetched(&rebuilds))?;
        let mut damaged = pages.damages().first().cloned();
        for rebuild in rebuilds {
            let parcels = parcels_there(&pages, rebuild, |lost| damaged = Some(lost))?;
            if let Some(damaged) = damaged {
                return Err(NoStore::damaged(root, damaged));
            }
            for parcel in parcels {
                let mut last = Lsn::NONE;
                parcel.tell_records(&mut Renamed::default(), &mut |record| {
                    last.0 += 1;
                    each(last, record);
                    last
                });
            }
        }
        Ok(())
    }
}

/// Reads all of a log. What it amounts to is not counted yet.
fn check_log(shard: u16, path: &Path) -> Result<(LogCheck, Rebuild), NoStore> {
    let Walked { found, rebuild, unfit } = walk(shard, path, |_| ())?;
    let Found { segments, records, cut_bytes, damages, .. } = found;
    let damages = damages.iter().map(|damage| Damaged::new(path, damage.segment, damage.offset));
    let damages = damages.chain(unfit).collect();
    let (file_bytes, amounts) = (file_bytes(path)?, Amounts::default());
    let check = LogCheck { shard, segments, file_bytes, records, cut_bytes, damages, amounts };
    Ok((check, rebuild))
}

/// What a log that was read amounts to.
pub(super) struct Walked {
    pub(super) found: Found,
    pub(super) rebuild: Rebuild,
    /// The first record that does not fit, and why, if no bytes are damaged: else that is what
    /// follows from the damage.
    pub(super) unfit: Option<Damaged>,
}

/// Reads all of a log, whatever is damaged, and makes of it what fits; tells of each record first.
pub(super) fn walk(
    shard: u16,
    path: &Path,
    mut tell: impl FnMut(&Entry<'_>),
) -> Result<Walked, NoStore> {
    let mut rebuild = Rebuild::default();
    let mut unfit: Option<Damaged> = None;
    let mut place = (SegmentNumber(1), 0);
    let found = scan(shard, path, |entry| {
        tell(&entry);
        place = (entry.segment, entry.offset);
        if entry.is_first {
            rebuild.commit_end();
        }
        let applied = entry
            .record
            .and_then(|record| rebuild.apply(entry.lsn, record).map_err(|unfit| unfit.what.into()));
        // What follows from the first fault is none of its own.
        if let (Err(why), None) = (applied, &unfit) {
            unfit = Some(Damaged { why: Some(why), ..Damaged::new(path, place.0, place.1) });
        }
    })?;
    let unfit = unfit.or_else(|| end_of_unfinished(path, place, &rebuild));
    let unfit = unfit.filter(|_| found.damages.is_empty());
    Ok(Walked { found, rebuild, unfit })
}

/// The pages whose content these logs need.
pub(super) fn fetched<'a>(rebuilds: impl IntoIterator<Item = &'a Rebuild>) -> BTreeSet<PageId> {
    rebuilds.into_iter().flat_map(Rebuild::fetched).collect()
}

/// What a log amounts to, without what is on pages that cannot be had: tells of those.
pub(super) fn parcels_there(
    pages: &PagesThere,
    mut rebuild: Rebuild,
    mut lost: impl FnMut(Damaged),
) -> Result<Vec<Parcel>, NoStore> {
    rebuild.forget_pages(
        |page| !pages.has(page),
        |client_id, messages| lost(pages.lost(client_id, messages)),
    );
    rebuild.finish(wall_now(), |page| pages.content(page)).map_err(NoStore::from)
}

/// Tells of all records of a log that are whole, whatever is damaged.
pub(super) fn scan(
    shard: u16,
    path: &Path,
    mut tell: impl FnMut(Entry<'_>),
) -> Result<Found, NoStore> {
    let disk = Folder::open_to_read(path)?;
    let each = |record: &weir_store::Record<'_>| {
        let kind = record.kind & (FIRST_OF_INPUT - 1);
        let decoded = Record::decode(kind, record.body.tail, WALL);
        tell(Entry {
            lsn: Lsn(record.lsn.bits()),
            segment: record.segment,
            offset: record.offset,
            is_first: record.kind >= FIRST_OF_INPUT,
            record: decoded.map_err(|bad| bad.to_string()),
        });
    };
    super::scan::scan((disk, path), shard, OnDamage::Salvage, each)
}
