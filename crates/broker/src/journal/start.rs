//! What a start does with the broker's folder: it reads the logs that are there, gives every
//! session to the shard that holds it now, and writes a log for each shard anew.
//!
//! Nobody is served meanwhile. The logs that were there stay as they are until the new ones are
//! whole and on the disk, so a crash in the middle costs nothing, and the number of shards may be
//! another one than before.

use super::clock::wall;
use super::copied::number_of;
use super::generations::Generations;
use super::no_store::{Damaged, NoStore};
use super::pages::{PageStore, PageWay, PageWork, Paged, Pager};
use super::progress::Progress;
use super::room::Room;
use super::scan::scan;
use super::seeded::seeded;
use super::{FIRST_OF_INPUT, Journal, StoreConfig};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_core::{
    ConnKey, Lsn, Mail, Mark, Micros, Notice, PageId, PageOut, PageTicket, Parcel, Partitions,
    Rebuild, Record, Shard, ShardId, Sink, Undelivered, Wall,
};
use weir_reactor::Mailbox;
use weir_store::disk::Folder;
use weir_store::{Log, OnDamage, Scan, SegmentNumber, Settings};

/// Bytes of records that are written at a time.
const WRITE_BYTES: usize = 4 << 20;

/// Copies begin and end: their files are small, so that one is there soon.
const COPY_SEGMENT_BYTES_MAX: u32 = 16 << 20;

/// The logs of all shards, in their order, each with its disk.
pub(crate) struct Started {
    pub(crate) logs: Vec<(Journal, Folder)>,
    pub(crate) room: Arc<Room>,
    /// Locked for as long as the broker runs.
    pub(crate) generations: Generations,
    pub(crate) pages: StartedPages,
}

/// The pages of all queues, before their thread runs.
pub(crate) struct StartedPages {
    store: PageStore,
    to: Sender<PageWork>,
    given: Receiver<PageWork>,
}

impl StartedPages {
    /// Has a thread of its own do what the shards ask for.
    pub(crate) fn run<T: From<Paged> + Send + 'static>(
        self,
        mailboxes: &mut [Mailbox<T>],
    ) -> io::Result<Pager> {
        Pager::start(self.store, (self.to, self.given), mailboxes)
    }
}

/// Brings `shards` to where the broker was when it ended; where there is no store yet, to where
/// another node was, by the copies of its shards' logs.
pub(crate) fn start(
    config: &StoreConfig,
    (root, copies): (&Path, &[(u16, PathBuf)]),
    packet_bytes_max: u32,
    (shards, first): (&mut [Shard], u16),
    partitions: &Partitions,
) -> Result<Started, NoStore> {
    let now = Micros(weir_reactor::now_us());
    let wall = wall(now);
    let (mut generations, logs) = Generations::open(root)?;
    let is_copy = logs.is_empty() && !copies.is_empty();
    let logs = if is_copy { copies.to_vec() } else { logs };
    let count = shards.len() as u16;
    let room = Room::of(root, count).map(Arc::new).map_err(NoStore::disk(root))?;
    let settings = seeded(config.pages(packet_bytes_max, count), generations.store())?;
    let mut store = PageStore::open(&generations, settings, Arc::clone(&room), wall)?;
    let mut progress = Progress::of(&logs)?;
    let mut rebuilt = Vec::new();
    for (shard, path) in logs {
        let rebuild = read((shard, is_copy), &path, wall, &mut progress)?;
        // Copies have the numbers that shards have among those of all nodes.
        rebuilt.push((ShardId(if is_copy { shard } else { first + shard }), rebuild));
    }
    let late = Undelivered::of(&rebuilt, now);
    let own = first..first + count;
    let marks = marks_of(&rebuilt, &own);
    let mut parcels = Vec::new();
    for (_, rebuild) in rebuilt {
        let read = rebuild.finish(now, |page| store.read(page, 0));
        parcels.extend(read.map_err(|why| NoStore::disk(root)(io::Error::other(why)))?);
    }
    store.keep(parcels.iter().flat_map(Parcel::pages).collect())?;
    let (to, given) = channel();
    let mut logs = Vec::new();
    for own in 0..count {
        let settings = seeded(config.log(own, packet_bytes_max, count), generations.store())?;
        let pages = PageWay { shard: own, to: to.clone(), wall, counts: store.counts() };
        logs.push(open(generations.next(own)?, &settings, pages, config)?);
    }
    let parcels_read = parcels.len();
    let mut anew = Anew { shards, first, logs, letters: VecDeque::new(), now };
    let read = Read { parcels, late, marks };
    anew.write(read, partitions, &mut progress).map_err(NoStore::disk(root))?;
    let logs = anew.logs;
    generations.finish()?;
    room.look();
    let (records, took) = (progress.records(), progress.took());
    tracing::info!(parcels = parcels_read, records, ?took, "the store was read");
    Ok(Started { logs, room, generations, pages: StartedPages { store, to, given } })
}

/// What the logs say.
struct Read {
    parcels: Vec<Parcel>,
    /// What shards had mailed to each other.
    late: Vec<Undelivered>,
    /// What each shard had handled of what those of other nodes had mailed.
    marks: Vec<(ShardId, Mark)>,
}

/// The marks of shards that are there again, of other nodes' letters.
fn marks_of(rebuilt: &[(ShardId, Rebuild)], own: &Range<u16>) -> Vec<(ShardId, Mark)> {
    let is_there = |(shard, _): &&(ShardId, Rebuild)| own.contains(&shard.0);
    let of = |(shard, rebuild): &(ShardId, Rebuild)| {
        let far = rebuild.marks().filter(|mark| !own.contains(&mark.from.0));
        far.map(|mark| (*shard, mark)).collect::<Vec<_>>()
    };
    rebuilt.iter().filter(is_there).flat_map(of).collect()
}

/// What a log says.
pub(super) fn read(
    (shard, is_copy): (u16, bool),
    path: &Path,
    wall: Wall,
    progress: &mut Progress,
) -> Result<Rebuild, NoStore> {
    let disk = Folder::open_to_read(path)?;
    let mut rebuild = Rebuild::default();
    let mut unfit = None;
    let mut place = (SegmentNumber(1), 0);
    let tell = |record: &weir_store::Record<'_>| {
        if unfit.is_some() {
            return;
        }
        progress.record(record.bytes);
        place = (record.segment, record.offset);
        if record.kind >= FIRST_OF_INPUT {
            rebuild.commit_end();
        }
        let kind = record.kind & (FIRST_OF_INPUT - 1);
        let own = (Lsn(record.lsn.bits()), record.body.tail);
        let (lsn, body) = if is_copy { number_of(own.1).unwrap_or(own) } else { own };
        let applied = Record::decode(kind, body, wall)
            .map_err(|bad| format!("record {}: {bad}", record.lsn))
            .and_then(|decoded| rebuild.apply(lsn, decoded).map_err(|unfit| unfit.to_string()));
        let damaged = |why| Damaged { why: Some(why), ..Damaged::new(path, place.0, place.1) };
        unfit = applied.err().map(damaged);
    };
    scan((disk, path), shard, OnDamage::Refuse, tell)?;
    match unfit.or_else(|| end_of_unfinished(path, place, &rebuild)) {
        Some(damaged) => Err(NoStore::damaged(path, damaged)),
        None => Ok(rebuild),
    }
}

/// The damage of a log that ends before all is there that it begins with: behind its last record.
pub(super) fn end_of_unfinished(
    path: &Path,
    (segment, offset): (SegmentNumber, u32),
    rebuild: &Rebuild,
) -> Option<Damaged> {
    let why = Some("it ends before all is there that it begins with".into());
    (!rebuild.is_whole()).then(|| Damaged { why, ..Damaged::new(path, segment, offset) })
}

/// A log for the copy of another's, which is not written by a shard.
pub(crate) fn open_copy(
    path: &Path,
    config: &StoreConfig,
    packet_bytes_max: u32,
    shard: u16,
) -> Result<(Log, Folder), NoStore> {
    let segment_bytes = config.segment_bytes.min(COPY_SEGMENT_BYTES_MAX);
    let config = StoreConfig { segment_bytes, disk_bytes_max: 0, ..config.clone() };
    let settings = seeded(config.log(shard, packet_bytes_max, 1), 0)?;
    let mut folder = Folder::open(path)?;
    let opened = Log::open(&mut folder, settings, OnDamage::Refuse, Scan::Heads, |_| ());
    let (log, _) = opened.map_err(|why| NoStore::log(path, why))?;
    Ok((log, folder))
}

pub(super) fn open(
    mut folder: Folder,
    settings: &Settings,
    pages: PageWay,
    config: &StoreConfig,
) -> Result<(Journal, Folder), NoStore> {
    let opened = Log::open(&mut folder, settings.clone(), OnDamage::Refuse, Scan::Heads, |_| ());
    let (log, _) = opened.map_err(|why| NoStore::log(folder.path(), why))?;
    Ok((Journal::new(log, settings, pages, config.gap_ms), folder))
}

/// The logs that are written anew.
struct Anew<'a> {
    shards: &'a mut [Shard],
    /// The number of the first of them.
    first: u16,
    logs: Vec<(Journal, Folder)>,
    /// Between the shards: to whom, from whom.
    letters: VecDeque<(ShardId, ShardId, Mail)>,
    now: Micros,
}

impl Anew<'_> {
    fn write(
        &mut self,
        Read { parcels, late, marks }: Read,
        partitions: &Partitions,
        progress: &mut Progress,
    ) -> io::Result<()> {
        let (now, all) = (self.now, parcels.len());
        self.each(|shard, sink| shard.begin_base(now, sink));
        for (at, parcel) in parcels.into_iter().enumerate() {
            progress.written(at, all);
            let owner = parcel.name().map_or(0, |name| partitions.owner(name).0);
            let owner = ShardId(self.first + owner);
            self.tell(owner, |shard, sink| shard.restored(parcel, now, sink));
            self.deliver();
            self.write_out(owner, WRITE_BYTES)?;
        }
        for (own, mark) in marks {
            self.tell(own, |shard, sink| shard.restored_mark(mark, sink));
        }
        for late in &late {
            for own in self.all() {
                // Any shard may choose members of groups, but only one.
                let chooses = own == ShardId(self.first);
                self.tell(own, |shard, sink| shard.redelivered(late, chooses, now, sink));
                self.deliver();
                self.write_out(own, WRITE_BYTES)?;
            }
        }
        self.each(|shard, sink| shard.end_base(now, sink));
        for own in self.all() {
            self.write_out(own, 0)?;
            let last = self.logs[self.at(own)].0.last;
            self.tell(own, |shard, sink| shard.committed(last, now, sink));
        }
        self.each(|shard, sink| shard.turn_end(sink));
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (self.first..self.first + self.shards.len() as u16).map(ShardId)
    }

    /// Where a shard is among them.
    fn at(&self, shard: ShardId) -> usize {
        usize::from(shard.0 - self.first)
    }

    /// Tells a shard something, with its log at hand.
    fn tell(&mut self, to: ShardId, say: impl FnOnce(&mut Shard, &mut StartSink<'_>)) {
        let at = self.at(to);
        let journal = &mut self.logs[at].0;
        journal.begin_input();
        say(&mut self.shards[at], &mut StartSink { own: to, journal, letters: &mut self.letters });
    }

    fn each(&mut self, mut say: impl FnMut(&mut Shard, &mut StartSink<'_>)) {
        for own in self.all() {
            self.tell(own, &mut say);
        }
        self.deliver();
    }

    /// What the shards have to tell each other: filters that matter to all.
    fn deliver(&mut self) {
        let now = self.now;
        while let Some((to, from, mail)) = self.letters.pop_front() {
            self.tell(to, |shard, sink| shard.mail(from, mail, now, sink));
        }
    }

    /// Writes what waits, once it is more than so many bytes.
    fn write_out(&mut self, own: ShardId, bytes: usize) -> io::Result<()> {
        let at = self.at(own);
        let (journal, disk) = &mut self.logs[at];
        if journal.log.pending_bytes() > bytes { journal.write_out(disk) } else { Ok(()) }
    }
}

/// A shard's sink while nobody is connected.
struct StartSink<'a> {
    own: ShardId,
    journal: &'a mut Journal,
    letters: &'a mut VecDeque<(ShardId, ShardId, Mail)>,
}

impl Sink for StartSink<'_> {
    fn write(&mut self, _conn: ConnKey, _bytes: &[u8]) {}

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, _conn: ConnKey) {}

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {}

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.letters.push_back((to, self.own, mail));
    }

    fn log(&mut self, record: &Record<'_>) -> Lsn {
        self.journal.append(record)
    }

    fn page_out(&mut self, ticket: PageTicket, page: PageOut<'_>) {
        self.journal.write_page(ticket, &page);
    }

    fn page_in(&mut self, ticket: PageTicket, page: PageId, bytes: u64) {
        self.journal.read_page(ticket, page, bytes);
    }

    fn free_page(&mut self, page: PageId) {
        self.journal.free_page(page);
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}
