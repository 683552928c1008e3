//! The log of one shard: its records, how far they were committed, and what the books said.

use super::WALL;
use crate::chance::Chance;
use crate::model::Kept;
use std::collections::VecDeque;
use weir_core::{Lsn, Record};

/// A record in a log.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) lsn: Lsn,
    kind: u8,
    body: Vec<u8>,
    /// It is the first of an input: what came before may have been committed without it.
    pub(super) is_first: bool,
    /// It is of a base, in or behind the copy of a session, which may be longer than a file of the
    /// log: a commit may end before it.
    is_divided: bool,
    /// It begins a copy, of the session with this name.
    pub(super) copy_of: Option<Lsn>,
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
    is_basing: bool,
    /// The last session that began in this input, which may be the copy of another.
    begun: Option<Lsn>,
    /// This input has copied a session.
    has_copied: bool,
    /// The books after each call, with the last record by then. The first is that of what was
    /// committed.
    kept: VecDeque<(Lsn, Kept)>,
}

impl Journal {
    pub(super) fn begin_input(&mut self) {
        self.is_new_input = true;
        (self.begun, self.has_copied) = (None, false);
    }

    pub(super) fn append(&mut self, record: &Record<'_>) -> Lsn {
        // Each log begins with the same numbers.
        self.last = Lsn(self.last.0 + 1);
        let mut body = Vec::new();
        record.encode(WALL, &mut body);
        let is_first = std::mem::take(&mut self.is_new_input);
        self.records.push_back(Logged {
            lsn: self.last,
            kind: record.kind(),
            body,
            is_first,
            is_divided: self.has_copied,
            copy_of: None,
        });
        self.note_copy(record);
        self.last
    }

    /// In a base a session begins anew before it is gone under its old name: between the two is its
    /// copy.
    fn note_copy(&mut self, record: &Record<'_>) {
        match *record {
            Record::Base => self.is_basing = true,
            Record::BaseEnd => self.is_basing = false,
            Record::Session { session: Lsn::NONE, .. } => self.begun = Some(self.last),
            Record::Gone { session } if self.is_basing => {
                let Some(begun) = self.begun.take() else { return };
                self.has_copied = true;
                let first = self.records.partition_point(|logged| logged.lsn < begun);
                self.records.range_mut(first..).for_each(|logged| logged.is_divided = true);
                if let Some(logged) = self.records.get_mut(first) {
                    logged.copy_of = Some(session);
                }
            }
            _ => {}
        }
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

    /// Where a crash ends the log: at the end of a commit, or anywhere if that is what is planted.
    pub(super) fn end_of_crash(&self, is_anywhere: bool, chance: &mut Chance) -> Lsn {
        let uncommitted = (self.last.0 - self.told.0) as usize;
        if is_anywhere {
            return Lsn(self.told.0 + chance.between(0, uncommitted) as u64);
        }
        self.any_end(chance)
    }

    /// The end of a commit: of one of the inputs that are not committed, or of the last that is, or
    /// some place in the copy of a session.
    pub(super) fn any_end(&self, chance: &mut Chance) -> Lsn {
        let divides = chance.one_in(2);
        let may_begin = |record: &&Logged| record.is_first || divides && record.is_divided;
        let ends = self.records.iter().filter(|record| record.lsn > self.told).filter(may_begin);
        let ends = ends.map(|record| Lsn(record.lsn.0 - 1)).filter(|&end| end > self.told);
        let ends: Vec<Lsn> = ends.chain([self.told, self.last]).collect();
        chance.pick(&ends)
    }

    /// Whether a log that ends here has a part of a session's copy.
    pub(super) fn is_in_copy(&self, end: Lsn) -> bool {
        let next = self.records.iter().find(|record| record.lsn > end);
        next.is_some_and(|record| record.is_divided && record.copy_of.is_none())
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
