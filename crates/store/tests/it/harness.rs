//! A log on a fake disk, what it was told and what it must remember, from a seed.

use std::collections::BTreeMap;
use std::io;
use weir_chance::Chance;
use weir_store::disk::{Crash, FakeDisk, Faults};
use weir_store::{
    Body, Disk, FileName, Log, Lsn, NotOpened, OnDamage, Page, Record, Scan, Settings,
};

/// What is done wrong on purpose, to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Commits count before they are synced.
    AckBeforeSync,
    /// A failed sync is tried again.
    RetrySync,
    /// The disk syncs nothing although it says so.
    LyingSync,
    /// The folder is never synced.
    NoFolderSync,
    /// The last segment is taken as it was found.
    OldTail,
    /// A tombstone is kept like any record that nobody refers to.
    NoTombstones,
    /// A message is released, and nothing says so.
    EarlyRelease,
    /// A bit turns in what was acknowledged.
    Rot,
    /// Every record says that it is the last of its commit.
    AllLast,
}

pub(crate) const PLANTS: &[Plant] = &[
    Plant::AckBeforeSync,
    Plant::RetrySync,
    Plant::LyingSync,
    Plant::NoFolderSync,
    Plant::OldTail,
    Plant::NoTombstones,
    Plant::EarlyRelease,
    Plant::Rot,
    Plant::AllLast,
];

/// What happened in all lives of a seed.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) crashes: u64,
    pub(crate) acknowledged: u64,
    pub(crate) recovered: u64,
    pub(crate) rewritten_bytes: u64,
    pub(crate) recycled: u64,
    pub(crate) pages: u64,
    pub(crate) cut_bytes: u64,
    pub(crate) full: u64,
}

const PUT: u8 = 1;
const GONE: u8 = 2;
const MESSAGE: u8 = 3;
const DONE: u8 = 4;
const KEYS: usize = 6;

#[derive(Clone, Debug)]
enum Op {
    Put { key: u8, body: Vec<u8> },
    Gone { key: u8 },
    Message { body: Vec<u8> },
    Done { message: Lsn },
}

/// What the log keeps for its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    keys: BTreeMap<u8, (Lsn, Vec<u8>)>,
    messages: BTreeMap<Lsn, Vec<u8>>,
}

impl State {
    fn apply(&mut self, lsn: Lsn, op: &Op) {
        match op {
            Op::Put { key, body } => drop(self.keys.insert(*key, (lsn, body.clone()))),
            Op::Gone { key } => drop(self.keys.remove(key)),
            Op::Message { body } => drop(self.messages.insert(lsn, body.clone())),
            Op::Done { message } => drop(self.messages.remove(message)),
        }
    }

    fn is_live(&self, record: &Record<'_>) -> bool {
        match record.kind {
            PUT => self.keys.get(&record.body.head[0]).is_some_and(|&(lsn, _)| lsn == record.lsn),
            MESSAGE => self.messages.contains_key(&record.lsn),
            _ => false,
        }
    }
}

/// A disk on which some things are not done.
pub(crate) struct Planted {
    pub(crate) disk: FakeDisk,
    plant: Option<Plant>,
}

/// Where a segment's salt is.
const SALT_AT: std::ops::Range<usize> = 40..48;
/// In front of the body of a record.
const FRAME_BYTES: usize = 28;

/// These records, each with the bit that it is the last of its commit.
fn all_last(bytes: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(length) = bytes[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) {
        let end = at + length as usize;
        if (length as usize) < FRAME_BYTES || end > bytes.len() {
            break;
        }
        let record = &mut bytes[at..end];
        record[16] |= 0x80;
        let crc = crc32c::crc32c_append(crc32c::crc32c(salt), &record[..4]);
        let crc = crc32c::crc32c_append(crc, &record[8..]);
        record[4..8].copy_from_slice(&crc.to_be_bytes());
        at = end;
    }
    bytes
}

impl Disk for Planted {
    fn list(&mut self) -> io::Result<Vec<(FileName, u64)>> {
        self.disk.list()
    }
    fn create(&mut self, name: FileName, bytes: u64) -> io::Result<()> {
        self.disk.create(name, bytes)
    }
    fn write_at(&mut self, name: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.plant == Some(Plant::AllLast)
            && matches!(name, FileName::Segment(_))
            && let Some(content) = self.disk.content(name)
        {
            let salt = content[SALT_AT].to_vec();
            return self.disk.write_at(name, offset, &all_last(bytes, &salt));
        }
        self.disk.write_at(name, offset, bytes)
    }
    fn sync(&mut self, name: FileName) -> io::Result<()> {
        match (self.plant, self.disk.sync(name)) {
            (Some(Plant::RetrySync), Err(_)) if !self.disk.has_stopped() => self.disk.sync(name),
            (_, other) => other,
        }
    }
    fn read_at(&mut self, name: FileName, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(name, offset, into)
    }
    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        if self.plant == Some(Plant::OldTail) && from == FileName::Unfinished(0) {
            return Ok(());
        }
        self.disk.rename(from, to)
    }
    fn remove(&mut self, name: FileName) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_folder(&mut self) -> io::Result<()> {
        if self.plant == Some(Plant::NoFolderSync) { Ok(()) } else { self.disk.sync_folder() }
    }
}

/// One seed's world.
pub(crate) struct World {
    disk: Planted,
    chance: Chance,
    settings: Settings,
    plant: Option<Plant>,
    /// What is safe, whatever happens.
    safe: State,
    /// What came after it, in order.
    since: Vec<(Lsn, Op)>,
    /// The last records of the commits that came after it.
    commits: Vec<Lsn>,
    /// What is safe from the end of the process.
    durable: Lsn,
    /// The power has failed since the log was open.
    has_power_failed: bool,
    /// All of it.
    state: State,
    /// The first version of a key behind its last tombstone.
    first: BTreeMap<u8, Lsn>,
    highest: Lsn,
    pub(crate) totals: Totals,
}

impl World {
    pub(crate) fn new(seed: u64, plant: Option<Plant>) -> Self {
        let mut chance = Chance::new(seed);
        let mut disk = FakeDisk::new(chance.bits());
        disk.faults = Faults {
            write_back: [0, 2, 8][chance.below(3)],
            failing_sync: [0, 0, 40][chance.below(3)],
            short_write: [0, 0, 60][chance.below(3)],
            lying_sync: if plant == Some(Plant::LyingSync) { 3 } else { 0 },
            no_space: [0, 0, 3][chance.below(3)],
            bytes_max: None,
        };
        if plant == Some(Plant::RetrySync) {
            disk.faults.failing_sync = 10;
        }
        let settings = Settings {
            segment_bytes: [8 << 10, 12 << 10, 16 << 10][chance.below(3)],
            commit_bytes_max: [300, 2_000, 100_000][chance.below(3)],
            commit_align: [1, 1, 512, 4096][chance.below(4)],
            is_synced: chance.below(4) > 0,
            seed: 0,
            ..Settings::default()
        };
        Self {
            disk: Planted { disk, plant },
            chance,
            settings,
            plant,
            safe: State::default(),
            since: Vec::new(),
            commits: Vec::new(),
            durable: Lsn::ZERO,
            has_power_failed: false,
            state: State::default(),
            first: BTreeMap::new(),
            highest: Lsn::ZERO,
            totals: Totals::default(),
        }
    }

    /// A life of the log, up to a crash, and what is there after it. An error is a finding.
    pub(crate) fn live(&mut self) -> Result<(), String> {
        let operations = [20, 100, 400][self.chance.below(3)];
        let mut log = self.open()?;
        let fuse = self.chance.below(operations);
        self.disk.disk.stop_after(fuse);
        for _ in 0..operations * 2 {
            if self.act(&mut log)?.is_err() {
                break;
            }
        }
        self.totals.rewritten_bytes += log.rewritten_bytes();
        self.crash();
        self.totals.crashes += 1;
        if self.plant == Some(Plant::Rot) {
            self.rot();
        }
        Ok(())
    }

    fn crash(&mut self) {
        let how = if self.chance.below(3) == 0 { Crash::Process } else { Crash::Power };
        self.has_power_failed |= how == Crash::Power;
        self.disk.disk.crash(how);
    }

    fn rot(&mut self) {
        let files = self.disk.list().unwrap_or_default();
        let logs: Vec<_> =
            files.into_iter().filter(|(name, _)| matches!(name, FileName::Segment(_))).collect();
        if let Some(&(name, bytes)) = logs.get(self.chance.below(logs.len().max(1))) {
            let at = self.chance.below(bytes as usize) as u64;
            self.disk.disk.rot(name, at, self.chance.bits() as u8);
        }
    }

    /// Opens the log and compares.
    fn open(&mut self) -> Result<Log, String> {
        loop {
            // A start may be cut short like anything else.
            if self.chance.below(4) == 0 {
                let fuse = self.chance.below(20);
                self.disk.disk.stop_after(fuse);
            }
            let mut found = State::default();
            let mut first = BTreeMap::new();
            let mut heads = Vec::new();
            let mut previous = Lsn::ZERO;
            let mut is_ordered = true;
            self.settings.seed = self.chance.bits();
            let scan = if self.chance.below(2) == 0 { Scan::Heads } else { Scan::Records };
            let opened = Log::open(
                &mut self.disk,
                self.settings.clone(),
                OnDamage::Refuse,
                scan,
                |record| {
                    is_ordered &= record.lsn > previous;
                    previous = record.lsn;
                    tell(&mut found, &mut first, &mut heads, record);
                },
            );
            let (mut log, report) = match opened {
                Ok(opened) => opened,
                Err(NotOpened::Disk(_)) => {
                    self.crash();
                    continue;
                }
                Err(error) => return Err(format!("not opened: {error}")),
            };
            self.disk.disk.stop_after(usize::MAX);
            if !is_ordered {
                return Err("records are not in order".into());
            }
            if log.next_lsn() <= self.highest {
                return Err(format!("{} was given before", log.next_lsn()));
            }
            self.fill(&log, &mut found, &heads)?;
            self.compare(&found)?;
            self.totals.recovered += report.records;
            self.totals.cut_bytes += report.cut_bytes;
            for &(lsn, _) in found.keys.values() {
                log.adopt(lsn, 1);
            }
            found.messages.keys().for_each(|&lsn| log.adopt(lsn, 1));
            (self.safe, self.state, self.first) = (found.clone(), found, first);
            self.since.clear();
            self.commits.clear();
            (self.durable, self.has_power_failed) = (log.durable(), false);
            return Ok(log);
        }
    }

    /// Tails that the start did not read are read now.
    fn fill(&mut self, log: &Log, found: &mut State, heads: &[Lsn]) -> Result<(), String> {
        for &lsn in heads {
            let is_wanted = found.messages.contains_key(&lsn)
                || found.keys.values().any(|&(version, _)| version == lsn);
            if !is_wanted {
                continue;
            }
            let body = self.read(log, lsn)?.ok_or_else(|| format!("{lsn} cannot be read"))?;
            if let Some(message) = found.messages.get_mut(&lsn) {
                *message = body;
            } else if let Some((_, value)) =
                found.keys.values_mut().find(|(version, _)| *version == lsn)
            {
                *value = body;
            }
        }
        Ok(())
    }

    fn read(&mut self, log: &Log, lsn: Lsn) -> Result<Option<Vec<u8>>, String> {
        let mut page_bytes = 64;
        for _ in 0..20 {
            let Some(mut read) = log.read(lsn, page_bytes) else { return Ok(None) };
            read.perform(&mut self.disk).map_err(|error| format!("reading: {error}"))?;
            self.totals.pages += 1;
            let mut body = None;
            let page = log.page(&read, |record| {
                if record.lsn == lsn {
                    body = Some(record.body.tail.to_vec());
                }
            });
            match page.map_err(|damage| damage.to_string())? {
                Page::TooShort(bytes) => page_bytes = bytes,
                Page::Moved => return Err("moved without a chore".into()),
                Page::Next(_) => return Ok(body),
            }
        }
        Err("a record does not fit any page".into())
    }

    /// What was found is what was safe, and perhaps some of what came after it: whole commits, in
    /// order.
    fn compare(&self, found: &State) -> Result<(), String> {
        let mut expected = self.safe.clone();
        let floor = if self.has_power_failed { Lsn::ZERO } else { self.durable };
        let is_enough = self.since.first().is_none_or(|&(lsn, _)| lsn > floor);
        if is_enough && &expected == found {
            return Ok(());
        }
        let mut later = self.since.iter().peekable();
        for &last in &self.commits {
            while let Some((lsn, op)) = later.next_if(|one| one.0 <= last) {
                expected.apply(*lsn, op);
            }
            if last >= floor && &expected == found {
                return Ok(());
            }
        }
        Err(format!("found {}, safe was {}", brief(found), brief(&self.safe)))
    }

    fn act(&mut self, log: &mut Log) -> Result<Result<(), ()>, String> {
        match self.chance.below(10) {
            0..5 => self.append(log),
            5..7 => return Ok(self.commit(log)),
            7..9 => return self.chore(log),
            _ if self.chance.below(4) == 0 => return self.reread(log).map(Ok),
            _ if self.chance.below(2) == 0 => return Ok(self.sync(log)),
            _ => {
                if let Some(commit) = log.take_closing() {
                    return Ok(self.perform(log, commit));
                }
            }
        }
        Ok(Ok(()))
    }

    fn append(&mut self, log: &mut Log) {
        let mut body = vec![0; [10, 60, 300, 3_000][self.chance.below(4)]];
        body.iter_mut().for_each(|byte| *byte = self.chance.bits() as u8);
        let key = self.chance.below(KEYS) as u8;
        let (state, first) = (&self.state, &mut self.first);
        let version = state.keys.get(&key).map(|&(lsn, _)| lsn);
        let (op, lsn) = match self.chance.below(4) {
            0 => {
                let lsn = log.append(PUT, Body { head: &[key], tail: &body }, 1);
                if let (Ok(_), Some(old)) = (lsn, version) {
                    log.release(old);
                }
                (Op::Put { key, body }, lsn)
            }
            1 => {
                let Some(old) = version else { return };
                let since = first.get(&key).copied().unwrap_or(old);
                let body = Body { head: &[key], tail: &[] };
                let lsn = if self.plant == Some(Plant::NoTombstones) {
                    log.append(GONE, body, 0)
                } else {
                    log.append_tombstone(GONE, since, body)
                };
                if lsn.is_ok() {
                    log.release(old);
                }
                (Op::Gone { key }, lsn)
            }
            2 if state.messages.len() > 3 => {
                let at = self.chance.below(state.messages.len());
                let message = *state.messages.keys().nth(at).expect("it is below the length");
                if self.plant == Some(Plant::EarlyRelease) {
                    log.release(message);
                    self.state.messages.remove(&message);
                    return;
                }
                let head = message.bits().to_be_bytes();
                let lsn = log.append_tombstone(DONE, message, Body { head: &head, tail: &[] });
                if lsn.is_ok() {
                    log.release(message);
                }
                (Op::Done { message }, lsn)
            }
            _ => {
                let lsn = log.append(MESSAGE, Body { head: &[], tail: &body }, 1);
                (Op::Message { body }, lsn)
            }
        };
        let Ok(lsn) = lsn else {
            self.totals.full += 1;
            return;
        };
        match &op {
            Op::Put { key, .. } => {
                self.first.entry(*key).or_insert(lsn);
            }
            Op::Gone { key } => {
                self.first.remove(key);
            }
            Op::Message { .. } | Op::Done { .. } => {}
        }
        self.highest = lsn;
        self.state.apply(lsn, &op);
        self.since.push((lsn, op));
    }

    fn commit(&mut self, log: &mut Log) -> Result<(), ()> {
        match log.take_commit() {
            Some(commit) => self.perform(log, commit),
            None => Ok(()),
        }
    }

    fn perform(&mut self, log: &mut Log, commit: weir_store::Commit) -> Result<(), ()> {
        self.commits.push(commit.last());
        if self.plant == Some(Plant::AckBeforeSync) {
            self.acknowledge(commit.last());
        }
        commit.perform(&mut self.disk).map_err(drop)?;
        self.durable = log.committed(commit);
        self.acknowledge(log.synced());
        Ok(())
    }

    fn sync(&mut self, log: &mut Log) -> Result<(), ()> {
        if let Some(sync) = log.take_sync() {
            sync.perform(&mut self.disk).map_err(drop)?;
            log.sync_done(&sync);
            self.acknowledge(log.synced());
        }
        Ok(())
    }

    fn acknowledge(&mut self, synced: Lsn) {
        let count = self.since.partition_point(|&(lsn, _)| lsn <= synced);
        for (lsn, op) in self.since.drain(..count) {
            self.safe.apply(lsn, &op);
        }
        self.commits.retain(|&last| last > synced);
        self.totals.acknowledged += count as u64;
    }

    fn chore(&mut self, log: &mut Log) -> Result<Result<(), ()>, String> {
        if self.chance.below(8) == 0 {
            log.retry_space();
        }
        let Some(mut chore) = log.take_chore() else { return Ok(Ok(())) };
        self.totals.recycled += u64::from(format!("{chore:?}").contains("Recycle"));
        if chore.perform(&mut self.disk).is_err() {
            return Ok(Err(()));
        }
        let state = &self.state;
        let done = log.chore_done(chore, |record| state.is_live(record));
        done.map(Ok).map_err(|damage| damage.to_string())
    }

    /// What is safe can be read, wherever it has gone.
    fn reread(&mut self, log: &Log) -> Result<(), String> {
        let count = self.safe.messages.len();
        if count == 0 || self.disk.disk.has_stopped() {
            return Ok(());
        }
        let at = self.chance.below(count);
        let (lsn, body) = self
            .safe
            .messages
            .iter()
            .nth(at)
            .map(|(&lsn, body)| (lsn, body.clone()))
            .expect("it is below the length");
        if !self.state.messages.contains_key(&lsn) {
            return Ok(());
        }
        match self.read(log, lsn) {
            Ok(Some(found)) if found == body => Ok(()),
            Err(error) if error.starts_with("reading") => Ok(()),
            other => Err(format!("{lsn} was read as {:?}", other.map(|one| one.map(|b| b.len())))),
        }
    }
}

fn tell(
    found: &mut State,
    first: &mut BTreeMap<u8, Lsn>,
    heads: &mut Vec<Lsn>,
    record: &Record<'_>,
) {
    let Record { lsn, body: Body { head, tail }, .. } = *record;
    if !record.has_tail {
        heads.push(lsn);
    }
    let op = match record.kind {
        PUT => {
            first.entry(head[0]).or_insert(lsn);
            Op::Put { key: head[0], body: tail.to_vec() }
        }
        GONE => {
            first.remove(&head[0]);
            Op::Gone { key: head[0] }
        }
        MESSAGE => Op::Message { body: tail.to_vec() },
        _ => {
            let bits = head.first_chunk().map(|bits| u64::from_be_bytes(*bits));
            Op::Done { message: Lsn::from_bits(bits.unwrap_or(0)) }
        }
    };
    found.apply(lsn, &op);
}

fn brief(state: &State) -> String {
    let keys: Vec<_> = state.keys.iter().map(|(key, (lsn, _))| format!("{key}@{lsn}")).collect();
    let messages: Vec<_> = state.messages.keys().map(ToString::to_string).collect();
    format!("keys {keys:?} messages {messages:?}")
}
