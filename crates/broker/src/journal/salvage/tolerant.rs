//! The records of a damaged log, of which those that fit are taken.
//!
//! Bases are not looked at: a session that a base has left out may only be lost in it. So a session
//! ends when a record says so, or when its client begins another one.

use super::Loss;
use crate::journal::read::Entry;
use std::collections::BTreeMap;
use weir_core::{Lsn, Rebuild, Record};
use weir_store::{Damage, SegmentNumber};

/// A seal that is not there may hide lost records up to the end of its segment.
const SEAL_AT: u32 = 512;

pub(super) struct Tolerant<'a> {
    rebuild: Rebuild,
    damages: &'a [Damage],
    /// The record before, and where it is.
    last: (Lsn, SegmentNumber, u32),
    /// From the first record that is lost to the one behind the last.
    gaps: Vec<(Lsn, Lsn)>,
    /// Client identifiers of the sessions that are there.
    names: BTreeMap<Lsn, Box<str>>,
    by_client: BTreeMap<Box<str>, Lsn>,
    /// What later records say of sessions whose first record is lost.
    nameless: BTreeMap<Lsn, Nameless>,
}

#[derive(Default)]
struct Nameless {
    filters: Vec<String>,
    messages: u64,
}

impl<'a> Tolerant<'a> {
    pub(super) fn new(damages: &'a [Damage]) -> Self {
        let mut rebuild = Rebuild::default();
        // All records are taken as those of one base, so that messages are kept to the end and no
        // session has to be logged anew. It is the first record, so it fits.
        let _ = rebuild.apply(Lsn(1), Record::Base);
        Self {
            rebuild,
            damages,
            last: (Lsn(weir_store::Lsn::new(1, 0).bits()), SegmentNumber(0), 0),
            gaps: Vec::new(),
            names: BTreeMap::new(),
            by_client: BTreeMap::new(),
            nameless: BTreeMap::new(),
        }
    }

    pub(super) fn apply(&mut self, entry: Entry<'_>, lost: &mut impl FnMut(&Loss)) {
        let Entry { lsn, segment, offset, is_first, record } = entry;
        if is_first {
            self.rebuild.commit_end();
        }
        let (last, ..) = self.last;
        if lsn.0 > last.0 + 1 && self.is_damaged_before(segment, offset) {
            let first = Lsn(last.0 + 1);
            self.gaps.push((first, lsn));
            lost(&Loss::Records { first, count: Some(lsn.0 - first.0) });
        }
        self.last = (lsn, segment, offset);
        let record = match record {
            Ok(Record::Base | Record::BaseEnd) => return,
            Ok(record) => record,
            Err(why) => return lost(&Loss::Record { client_id: None, lsn, why }),
        };
        if let Some(session) = record.session()
            && self.is_lost(session)
        {
            return self.note_nameless(session, &record);
        }
        let client_id = record.session().and_then(|session| self.names.get(&session));
        let client_id = client_id.map(ToString::to_string);
        if let Record::Queued { message, .. } = record
            && self.is_lost(message)
            && client_id.is_some()
        {
            return lost(&Loss::Message { client_id, lsn: message });
        }
        self.note_names(lsn, &record);
        if let Err(unfit) = self.rebuild.apply(lsn, record) {
            lost(&Loss::Record { client_id, lsn, why: unfit.what.into() });
        }
    }

    /// Says what is lost behind the last record, and who is in doubt.
    pub(super) fn finish(self, lost: &mut impl FnMut(&Loss)) -> Rebuild {
        let (last, segment, offset) = self.last;
        let is_behind = |damage: &Damage| (damage.segment, damage.offset) > (segment, offset);
        let mut ends: Vec<Lsn> = self.gaps.iter().map(|&(_, end)| end).collect();
        if self.damages.iter().any(is_behind) {
            lost(&Loss::Records { first: Lsn(last.0 + 1), count: None });
            ends.push(Lsn(u64::MAX));
        }
        for (lsn, Nameless { filters, messages }) in self.nameless {
            lost(&Loss::Session { lsn, filters, messages });
        }
        let end = ends.into_iter().max().unwrap_or(Lsn::NONE);
        for (_, client_id) in self.names.range(..end) {
            lost(&Loss::InDoubt { client_id: client_id.to_string() });
        }
        self.rebuild
    }

    /// Whether something is damaged between the record before and this one.
    fn is_damaged_before(&self, segment: SegmentNumber, offset: u32) -> bool {
        let (_, last_segment, last_offset) = self.last;
        self.damages.iter().any(|damage| {
            let at = if damage.offset == SEAL_AT { u32::MAX } else { damage.offset };
            let at = (damage.segment, at);
            (last_segment, last_offset) < at && at <= (segment, offset)
        })
    }

    fn is_lost(&self, lsn: Lsn) -> bool {
        self.gaps.iter().any(|&(first, end)| (first..end).contains(&lsn))
    }

    fn note_nameless(&mut self, session: Lsn, record: &Record<'_>) {
        let nameless = self.nameless.entry(session).or_default();
        match record {
            Record::Subscribed { name, .. } => nameless.filters.push((*name).into()),
            Record::Queued { .. } => nameless.messages += 1,
            // It came and went.
            Record::Gone { .. } => drop(self.nameless.remove(&session)),
            _ => {}
        }
    }

    fn note_names(&mut self, lsn: Lsn, record: &Record<'_>) {
        match record {
            Record::Session { session: Lsn::NONE, client_id, .. } => {
                self.names.insert(lsn, (*client_id).into());
                if let Some(older) = self.by_client.insert((*client_id).into(), lsn) {
                    self.names.remove(&older);
                }
            }
            Record::Gone { session } => {
                if let Some(client_id) = self.names.remove(session) {
                    self.by_client.remove(&client_id);
                }
            }
            _ => {}
        }
    }
}
