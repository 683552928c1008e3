//! What is between shards, as the records of one log have it.

use crate::keys::{Lsn, ShardId};
use crate::message::Message;
use crate::outbox::{Handling, MailTarget, Mark};
use crate::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Mailed messages and marks, as the records of one log have them so far.
#[derive(Debug, Default)]
pub(super) struct Mailed {
    /// By name, with the place of the record.
    open: BTreeMap<Lsn, (Lsn, Arc<Message>, Vec<MailTarget>)>,
    /// By sender, with the place of the record.
    marks: BTreeMap<ShardId, (Lsn, Lsn)>,
    /// Those of these letters that were not handled as a whole, with the place of the record.
    not_whole: BTreeMap<(ShardId, Lsn), (Lsn, Handling)>,
    /// The same as marks, of what shards of other nodes have mailed.
    far: BTreeMap<ShardId, (Lsn, Lsn)>,
}

impl Mailed {
    pub(super) fn add(
        &mut self,
        lsn: Lsn,
        number: Lsn,
        message: Arc<Message>,
        targets: Vec<MailTarget>,
    ) {
        let name = if number == Lsn::NONE { lsn } else { number };
        self.open.insert(name, (lsn, message, targets));
    }

    pub(super) fn done(&mut self, number: Lsn) {
        self.open.remove(&number);
    }

    pub(super) fn mark(&mut self, lsn: Lsn, record: &Record<'_>) {
        let Some(Mark { from, number, handling }) = record.as_mark() else { return };
        let marks = match handling {
            Handling::Mailed => &mut self.far,
            _ => &mut self.marks,
        };
        let mark = marks.entry(from).or_insert((lsn, number));
        *mark = (lsn, number.max(mark.1));
        match handling {
            Handling::Mailed => None,
            Handling::Whole => self.not_whole.remove(&(from, number)),
            Handling::Refused | Handling::PutOff => {
                self.not_whole.insert((from, number), (lsn, handling))
            }
        };
    }

    /// All that was there has been logged anew.
    pub(super) fn end_base(&mut self, base: Lsn) -> Result<(), &'static str> {
        let mut places = self.open.values().map(|&(lsn, ..)| lsn);
        let mut marks = self.marks.values().chain(self.far.values());
        if places.any(|lsn| lsn < base) || marks.any(|&(lsn, _)| lsn < base) {
            return Err("a mailed message, or a mark, was not logged anew");
        }
        // Of these the oldest are left out when they are many.
        self.not_whole.retain(|_, &mut (lsn, _)| lsn >= base);
        Ok(())
    }

    pub(super) fn has_marked(&self, from: ShardId, number: Lsn) -> bool {
        self.marks.get(&from).is_some_and(|&(_, marked)| number <= marked)
    }

    pub(super) fn marks(&self) -> impl Iterator<Item = Mark> {
        let (marks, others) = (self.marks.iter(), self.not_whole.iter());
        let handling = Handling::Whole;
        let marks = marks.map(move |(&from, &(_, number))| Mark { from, number, handling });
        let marks = marks.filter(|mark| !self.not_whole.contains_key(&(mark.from, mark.number)));
        let far = self.far.iter().map(|(&from, &(_, number))| (from, number));
        let far = far.map(|(from, number)| Mark { from, number, handling: Handling::Mailed });
        far.chain(marks).chain(others.map(|(&(from, number), &(_, handling))| Mark {
            from,
            number,
            handling,
        }))
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (Lsn, &Arc<Message>, &[MailTarget])> {
        self.open.iter().map(|(&number, (_, message, targets))| (number, message, &**targets))
    }
}
