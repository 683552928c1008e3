//! The log of one shard: its records, how far they were committed, and what the books said.

use crate::chance::Chance;
use crate::model::Kept;
use std::collections::VecDeque;
use weir_core::{Lsn, Record, Wall};

/// Between the clock of the run and that of the records.
const WALL: Wall = Wall(0);

/// A record in a log.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) lsn: Lsn,
    kind: u8,
    body: Vec<u8>,
    /// It is the first of an input: what came before may have been committed without it.
    pub(super) is_first: bool,
}

impl Logged {
    pub(super) fn record(&self) -> Record<'_> {
        Record::decode(self.kind, &self.body, WALL).expect("it was encoded")
    }
}

/// A log that may be cut behind any input that was not committed for certain.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) records: VecDeque<Logged>,
    last: Lsn,
    /// Up to here the shard was told that all is committed.
    pub(super) told: Lsn,
    is_new_input: bool,
    /// The books after each call, with the last record by then. The first is that of what was
    /// committed.
    kept: VecDeque<(Lsn, Kept)>,
}

impl Journal {
    pub(super) fn begin_input(&mut self) {
        self.is_new_input = true;
    }

    pub(super) fn append(&mut self, record: &Record<'_>) -> Lsn {
        // Each log begins with the same numbers.
        self.last = Lsn(self.last.0 + 1);
        let mut body = Vec::new();
        record.encode(WALL, &mut body);
        let is_first = std::mem::take(&mut self.is_new_input);
        self.records.push_back(Logged { lsn: self.last, kind: record.kind(), body, is_first });
        self.last
    }

    pub(super) fn last(&self) -> Lsn {
        self.last
    }

    pub(super) fn behind(&self, lsn: Lsn) -> impl Iterator<Item = &Logged> {
        let count = self.records.iter().rev().take_while(|record| record.lsn > lsn).count();
        self.records.range(self.records.len() - count..)
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        match self.kept.back_mut() {
            Some((lsn, last)) if *lsn == self.last => *last = kept,
            _ => self.kept.push_back((self.last, kept)),
        }
    }

    pub(super) fn keep_only(&mut self, kept: Kept) {
        self.kept.clear();
        self.kept.push_back((self.last, kept));
    }

    /// The end of one of the inputs that are not committed, or of the last that is.
    pub(super) fn any_end(&self, chance: &mut Chance) -> Lsn {
        let ends = self.records.iter().filter(|record| record.is_first && record.lsn > self.told);
        let ends = ends.map(|record| Lsn(record.lsn.0 - 1)).filter(|&end| end > self.told);
        let ends: Vec<Lsn> = ends.chain([self.told, self.last]).collect();
        chance.pick(&ends)
    }

    /// All up to this record is committed.
    pub(super) fn commit(&mut self, to: Lsn) {
        self.told = to.max(self.told);
        while self.kept.get(1).is_some_and(|&(lsn, _)| lsn <= self.told) {
            self.kept.pop_front();
        }
    }

    /// Drops what comes before this record, or a part of it.
    pub(super) fn forget(&mut self, base: Lsn, chance: &mut Chance) {
        let before = self.records.iter().take_while(|record| record.lsn < base).count();
        let count = if chance.one_in(2) { before } else { chance.between(0, before) };
        self.records.drain(..count);
    }

    /// What is left if nothing behind `end` was written, and the books of then; later ones if it
    /// had been promised that they hold.
    pub(super) fn cut(self, end: Lsn, promised: u64) -> (Vec<Logged>, Kept) {
        let Self { records, mut kept, .. } = self;
        let records = records.into_iter().filter(|record| record.lsn <= end).collect();
        while let [(_, present), (lsn, _), ..] = kept.make_contiguous()
            && (*lsn <= end || present.at < promised)
        {
            kept.pop_front();
        }
        (records, kept.pop_front().map(|(_, kept)| kept).unwrap_or_default())
    }
}
