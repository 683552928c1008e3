//! The copies of a shard's log at other nodes: what the core records goes there too, and once a
//! copy is whole, nothing is safe before it is on that node's disk as well.
//!
//! A copy begins in the middle of the log. All that is there is logged anew then, by a base; with
//! the end of that base on the other's disk the copy has all that the log has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_core::{LogMail, Lsn, Record, ShardId};
use weir_store::Kind;

/// Bytes of records that go in one letter, unless one is longer.
const LETTER_BYTES: usize = 256 << 10;

/// Bytes in front of a record: its kind, and how long the rest is.
const HEAD_BYTES: usize = 5;

/// Bytes of its number, in front of its body.
const NUMBER_BYTES: usize = 8;

/// Where a copy goes.
#[derive(Debug)]
pub(crate) struct CopyTo {
    /// The shard of the other node that takes it.
    pub(crate) to: ShardId,
    /// What names it.
    pub(crate) copy: u64,
    /// Where the shard says what is not safe there.
    pub(crate) waiting: Waiting,
    /// Its number among those of this node.
    pub(crate) own: usize,
}

/// What of each shard's log is on its way to the other node's disk, and what is there. The shards
/// write it, and the post reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<[OfShard]>);

/// Shards do not share a line of the cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OfShard {
    records: AtomicU64,
    bytes: AtomicU64,
    safe: AtomicU64,
}

impl Waiting {
    pub(crate) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| OfShard::default()).collect())
    }

    /// Records on their way, and their bytes.
    pub(crate) fn sum(&self) -> (u64, u64) {
        (self.sum_of(|shard| &shard.records), self.sum_of(|shard| &shard.bytes))
    }

    /// Records of this copy that are on the other's disk.
    pub(crate) fn safe(&self) -> u64 {
        self.sum_of(|shard| &shard.safe)
    }

    fn sum_of(&self, value: impl Fn(&OfShard) -> &AtomicU64) -> u64 {
        self.0.iter().map(|shard| value(shard).load(Ordering::Relaxed)).sum()
    }

    fn set(&self, shard: usize, all: Count, safe: Count) {
        if let Some(shard) = self.0.get(shard) {
            shard.records.store(all.records - safe.records, Ordering::Relaxed);
            shard.bytes.store(all.bytes - safe.bytes, Ordering::Relaxed);
            shard.safe.store(safe.records, Ordering::Relaxed);
        }
    }
}

/// So many records, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    records: u64,
    bytes: u64,
}

/// A copy on its way.
#[derive(Debug)]
pub(crate) struct LogCopy {
    way: CopyTo,
    letters: VecDeque<LogMail>,
    /// Records that are in no letter yet.
    records: Vec<u8>,
    /// Letters of records that there were.
    closed: u64,
    stage: Stage,
    /// What the other has on its disk.
    safe: Lsn,
    /// The last record, and how many there were; the same at the end of each letter that is not
    /// safe, and of the last one that is.
    last: (Lsn, Count),
    ends: VecDeque<(Lsn, Count)>,
    safe_count: Count,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No base has begun since.
    Begun,
    /// One has.
    Basing,
    /// It ended with this record.
    Based(Lsn),
    /// All is there.
    Whole,
}

impl LogCopy {
    pub(super) fn new(way: CopyTo) -> Self {
        Self {
            letters: VecDeque::from([LogMail::Begin { copy: way.copy }]),
            way,
            records: Vec::new(),
            closed: 0,
            stage: Stage::Begun,
            safe: Lsn::NONE,
            last: (Lsn::NONE, Count::default()),
            ends: VecDeque::new(),
            safe_count: Count::default(),
        }
    }

    /// What names it.
    pub(super) fn name(&self) -> u64 {
        self.way.copy
    }

    /// Whether all that is there is to be logged anew.
    pub(super) fn wants_base(&self) -> bool {
        self.stage == Stage::Begun
    }

    /// The log has this record, encoded as a kind and a body.
    pub(super) fn push(&mut self, lsn: Lsn, record: &Record<'_>, (kind, body): (Kind, &[u8])) {
        match (record, self.stage) {
            (Record::Base, Stage::Begun) => self.stage = Stage::Basing,
            (Record::BaseEnd, Stage::Basing) => self.stage = Stage::Based(lsn),
            _ => {}
        }
        put(&mut self.records, lsn, kind, body);
        let (last, count) = &mut self.last;
        *last = lsn;
        count.records += 1;
        count.bytes += (HEAD_BYTES + NUMBER_BYTES + body.len()) as u64;
        if self.records.len() >= LETTER_BYTES {
            self.close_letter();
        }
    }

    fn close_letter(&mut self) {
        let records = std::mem::take(&mut self.records).into();
        let (copy, nth) = (self.way.copy, self.closed);
        self.closed += 1;
        self.letters.push_back(LogMail::Records { copy, nth, records });
        self.ends.push_back(self.last);
        self.say_waiting();
    }

    fn say_waiting(&self) {
        self.way.waiting.set(self.way.own, self.last.1, self.safe_count);
    }

    /// The next letter of a turn that ends.
    pub(super) fn take_letter(&mut self) -> Option<(ShardId, LogMail)> {
        if self.letters.is_empty() && !self.records.is_empty() {
            self.close_letter();
        }
        Some((self.way.to, self.letters.pop_front()?))
    }

    /// The other has all up to this record on its disk. Says whether that makes the copy whole.
    pub(super) fn note_safe(&mut self, copy: u64, last: Lsn) -> bool {
        if copy != self.way.copy {
            return false;
        }
        self.safe = last.max(self.safe);
        while let Some((_, count)) = self.ends.pop_front_if(|(end, _)| *end <= self.safe) {
            self.safe_count = count;
        }
        self.say_waiting();
        let is_whole = matches!(self.stage, Stage::Based(end) if end <= self.safe);
        if is_whole {
            self.stage = Stage::Whole;
        }
        is_whole
    }

    /// Up to where all is safe that is so on this node's disk up to `local`.
    pub(super) fn bound(&self, local: Lsn) -> Lsn {
        if self.stage == Stage::Whole { self.safe.min(local) } else { local }
    }
}

/// Adds a record to those of a letter.
fn put(out: &mut Vec<u8>, lsn: Lsn, kind: Kind, body: &[u8]) {
    out.push(kind);
    out.extend(((NUMBER_BYTES + body.len()) as u32).to_be_bytes());
    out.extend(lsn.0.to_be_bytes());
    out.extend_from_slice(body);
}

/// The records of a letter, each with its kind and its body behind its number; nothing behind one
/// that is not whole.
pub(crate) fn records_of(mut bytes: &[u8]) -> impl Iterator<Item = (Kind, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, a, b, c, d], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (numbered, rest) = rest.split_at_checked(u32::from_be_bytes([a, b, c, d]) as usize)?;
        bytes = rest;
        Some((kind, numbered))
    })
}

/// What the record is called in the log that it was copied from, and its body.
pub(crate) fn number_of(numbered: &[u8]) -> Option<(Lsn, &[u8])> {
    let (number, body) = numbered.split_first_chunk::<NUMBER_BYTES>()?;
    Some((Lsn(u64::from_be_bytes(*number)), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: ShardId = ShardId(4);

    fn begun() -> (LogCopy, Waiting) {
        let waiting = Waiting::new(2);
        let way = CopyTo { to: TO, copy: 7, waiting: waiting.clone(), own: 1 };
        (LogCopy::new(way), waiting)
    }

    fn gone(copy: &mut LogCopy, lsn: u64) {
        copy.push(Lsn(lsn), &Record::Gone { session: Lsn(1) }, (3, b"body"));
    }

    #[test]
    fn a_copy_is_whole_with_the_end_of_a_base_that_began_behind_it() {
        let (mut copy, _) = begun();
        // Of a base that was on its way.
        copy.push(Lsn(1), &Record::BaseEnd, (14, b""));
        assert!(copy.wants_base() && !copy.note_safe(7, Lsn(1)));
        copy.push(Lsn(2), &Record::Base, (13, b""));
        gone(&mut copy, 3);
        copy.push(Lsn(4), &Record::BaseEnd, (14, b""));
        assert!(!copy.wants_base() && !copy.note_safe(7, Lsn(3)));
        assert_eq!(copy.bound(Lsn(9)), Lsn(9), "nobody waits for what is not whole");
        assert!(!copy.note_safe(6, Lsn(9)), "of another copy");
        assert!(copy.note_safe(7, Lsn(4)) && !copy.note_safe(7, Lsn(5)), "it is so once");
        assert_eq!((copy.bound(Lsn(9)), copy.bound(Lsn(2))), (Lsn(5), Lsn(2)));
    }

    #[test]
    fn records_come_out_of_letters_as_they_went_in() {
        let (mut copy, _) = begun();
        gone(&mut copy, 5);
        copy.push(Lsn(6), &Record::Base, (13, b""));
        assert_eq!(copy.take_letter(), Some((TO, LogMail::Begin { copy: 7 })));
        let Some((TO, LogMail::Records { copy: 7, nth: 0, records })) = copy.take_letter() else {
            panic!("no records");
        };
        let read = |(kind, numbered)| (kind, number_of(numbered).unwrap());
        let all: Vec<_> = records_of(&records).map(read).collect();
        assert_eq!(all, [(3, (Lsn(5), &b"body"[..])), (13, (Lsn(6), b""))]);
        assert_eq!(records_of(&records[..records.len() - 1]).count(), 1, "a part is none");
        assert_eq!(copy.take_letter(), None);
        copy.push(Lsn(7), &Record::Base, (13, &[0; LETTER_BYTES]));
        gone(&mut copy, 8);
        assert_eq!(std::iter::from_fn(|| copy.take_letter()).count(), 2);
    }

    #[test]
    fn what_is_in_letters_and_not_safe_there_waits() {
        let (mut copy, waiting) = begun();
        let send = |copy: &mut LogCopy| std::iter::from_fn(|| copy.take_letter()).count();
        gone(&mut copy, 5);
        gone(&mut copy, 6);
        let each = (HEAD_BYTES + NUMBER_BYTES + b"body".len()) as u64;
        assert_eq!((waiting.sum(), send(&mut copy)), ((0, 0), 2));
        assert_eq!(waiting.sum(), (2, 2 * each));
        gone(&mut copy, 7);
        assert_eq!((send(&mut copy), waiting.sum()), (1, (3, 3 * each)));
        copy.note_safe(6, Lsn(7));
        assert_eq!(waiting.sum(), (3, 3 * each), "of another copy");
        copy.note_safe(7, Lsn(6));
        assert_eq!((waiting.sum(), waiting.safe()), ((1, each), 2));
        copy.note_safe(7, Lsn(7));
        assert_eq!(waiting.sum(), (0, 0));
    }
}
