//! Reads a log on a thread of its own: its bytes come and are checked while somebody else makes of
//! them what they say. That halves the time of a start that has two processors.

use super::no_store::NoStore;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use weir_store::disk::Folder;
use weir_store::{Body, Found, Kind, Log, Lsn, NotOpened, OnDamage, Record, SegmentNumber};

/// Bytes of records that are handed over at a time, unless one is longer.
const BATCH_BYTES: usize = 256 << 10;

/// Batches that are ready at a time.
const BATCHES_MAX: usize = 8;

/// Records on their way from one thread to the other.
#[derive(Default)]
struct Batch {
    /// Their bodies, one behind the other.
    bytes: Vec<u8>,
    records: Vec<Place>,
}

/// What a record has beside its body.
struct Place {
    lsn: Lsn,
    kind: Kind,
    body_bytes: usize,
    bytes: u32,
    segment: SegmentNumber,
    offset: u32,
}

/// Tells of each record of a log, in order. Only heads are not in use: all of a body is its tail.
pub(super) fn scan(
    (mut disk, path): (Folder, &Path),
    shard: u16,
    on_damage: OnDamage,
    mut tell: impl FnMut(&Record<'_>),
) -> Result<Found, NoStore> {
    let (full, batches) = sync_channel(BATCHES_MAX);
    let (back, used) = channel();
    let found = std::thread::scope(|threads| {
        let reader = threads.spawn(move || read(&mut disk, shard, on_damage, &full, &used));
        for batch in batches {
            batch.tell(&mut tell);
            // Once the reader is done it takes none back.
            let _ = back.send(batch);
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    found.map_err(|why| NoStore::log(path, why))
}

fn read(
    disk: &mut Folder,
    shard: u16,
    on_damage: OnDamage,
    full: &SyncSender<Batch>,
    used: &Receiver<Batch>,
) -> Result<Found, NotOpened> {
    let mut batch = Batch::default();
    let found = Log::scan(disk, shard, on_damage, |record| {
        batch.push(record);
        if batch.bytes.len() >= BATCH_BYTES {
            let next = used.try_recv().unwrap_or_default();
            // Whoever takes them waits for the end.
            let _ = full.send(std::mem::replace(&mut batch, next.emptied()));
        }
    });
    let _ = full.send(batch);
    found
}

impl Batch {
    fn push(&mut self, record: &Record<'_>) {
        let &Record { lsn, kind, body, bytes, segment, offset, .. } = record;
        self.bytes.extend_from_slice(body.tail);
        let body_bytes = body.tail.len();
        self.records.push(Place { lsn, kind, body_bytes, bytes, segment, offset });
    }

    fn tell(&self, tell: &mut impl FnMut(&Record<'_>)) {
        let mut rest = &self.bytes[..];
        for &Place { lsn, kind, body_bytes, bytes, segment, offset } in &self.records {
            let (tail, behind) = rest.split_at(body_bytes);
            rest = behind;
            let (body, since, has_tail) = (Body { head: &[], tail }, None, true);
            tell(&Record { lsn, kind, since, body, has_tail, bytes, segment, offset });
        }
    }

    fn emptied(mut self) -> Self {
        self.bytes.clear();
        self.records.clear();
        self
    }
}
