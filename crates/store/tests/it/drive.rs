//! What whoever has the disk does, at once.

use weir_store::disk::FakeDisk;
use weir_store::{
    Body, Disk, Found, Log, Lsn, NotOpened, OnDamage, Record, Scan, SegmentNumber, Settings,
};

/// A log on a disk.
pub(crate) struct Drive<D> {
    pub(crate) disk: D,
    pub(crate) log: Log,
}

/// What a start was told: number, kind and tail.
pub(crate) type Told = Vec<(Lsn, u8, Vec<u8>)>;

pub(crate) fn small() -> Settings {
    Settings { segment_bytes: 16 << 10, ..Settings::default() }
}

/// Opens a log, and refers once to each of its records.
pub(crate) fn open<D: Disk>(
    mut disk: D,
    settings: Settings,
) -> Result<(Drive<D>, Told, Found), NotOpened> {
    let mut told = Vec::new();
    let tell = |record: &Record<'_>| {
        told.push((record.lsn, record.kind, record.body.tail.to_vec()));
    };
    let (mut log, found) = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Records, tell)?;
    told.iter().for_each(|&(lsn, ..)| log.adopt(lsn, 1));
    Ok((Drive { disk, log }, told, found))
}

impl Drive<FakeDisk> {
    /// An empty log of small segments.
    pub(crate) fn empty() -> Self {
        open(FakeDisk::new(1), small()).expect("the disk is empty").0
    }
}

impl<D: Disk> Drive<D> {
    /// A record that so many refer to.
    pub(crate) fn append(&mut self, tail: &[u8], references: u32) -> Lsn {
        let body = Body { head: &[], tail };
        self.log.append(1, body, references).expect("it is short, and little waits")
    }

    /// Commits all that waits, and does all chores. `is_wanted` as [`Log::chore_done`] has it.
    pub(crate) fn settle(&mut self, is_wanted: impl Fn(Lsn) -> bool) {
        // Far more steps than a few segments can need: they come to an end.
        for _ in 0..100_000 {
            if let Some(commit) = self.log.take_commit() {
                commit.perform(&mut self.disk).expect("the disk has no faults");
                self.log.committed(commit);
            } else if let Some(mut chore) = self.log.take_chore() {
                chore.perform(&mut self.disk).expect("the disk has no faults");
                let done = self.log.chore_done(chore, |record| is_wanted(record.lsn));
                done.expect("nothing is damaged");
            } else {
                return;
            }
        }
        panic!("the chores do not end");
    }

    /// The segments' files, in order.
    pub(crate) fn segments(&mut self) -> Vec<SegmentNumber> {
        let files = self.disk.list().expect("the disk has no faults");
        let mut all: Vec<_> = files
            .into_iter()
            .filter_map(|(name, _)| match name {
                weir_store::FileName::Segment(number) => Some(number),
                _ => None,
            })
            .collect();
        all.sort();
        all
    }
}
