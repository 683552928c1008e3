//! An agreement in memory, as a value: what simulations and tests have in place of etcd.

use crate::agreement::{Ask, Cas, Change, Failure, LeaseId, Record, Revision, Said, Ticket};
use std::collections::{BTreeMap, VecDeque};
use weir_core::Micros;

/// Changes that are kept for watches that begin in the past.
const HISTORY_MAX: usize = 1_000;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u16);

/// Something said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// To whom.
    pub to: Asker,
    /// Of which question.
    pub ticket: Ticket,
    /// What.
    pub said: Said,
}

/// Records, leases and watches. Its time is that of its own clock.
#[derive(Debug, Default)]
pub struct Store {
    revision: Revision,
    records: BTreeMap<String, Record>,
    leases: BTreeMap<LeaseId, Lease>,
    leases_granted: i64,
    watches: Vec<Watch>,
    history: VecDeque<Change>,
    /// The first revision whose changes are all in the history.
    known_from: Revision,
}

#[derive(Debug)]
struct Lease {
    ttl: Micros,
    ends_at: Micros,
}

#[derive(Debug)]
struct Watch {
    asker: Asker,
    ticket: Ticket,
    prefix: String,
}

impl Store {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a question, and tells whoever watches what it has changed.
    pub fn ask(&mut self, asker: Asker, ticket: Ticket, ask: Ask, now: Micros) -> Vec<Heard> {
        let mut heard = self.handle_timeout(now);
        let said = match ask {
            Ask::Get { key } => self.found(self.records.get(&key).cloned().into_iter().collect()),
            Ask::Range { prefix } => {
                let below = self.records.range(prefix.clone()..);
                let below = below.take_while(|(key, _)| key.starts_with(&prefix));
                self.found(below.map(|(_, record)| record.clone()).collect())
            }
            Ask::Cas(cas) => self.cas(cas, &mut heard),
            Ask::Grant { ttl_s } => {
                let ttl = Micros::from_secs(ttl_s);
                self.leases_granted += 1;
                let lease = LeaseId(self.leases_granted);
                self.leases.insert(lease, Lease { ttl, ends_at: now + ttl });
                Said::Granted { lease }
            }
            Ask::KeepAlive { lease, .. } => match self.leases.get_mut(&lease) {
                None => Said::Failed(Failure::LeaseGone),
                Some(kept) => {
                    kept.ends_at = now + kept.ttl;
                    Said::Renewed
                }
            },
            Ask::Revoke { lease } => {
                self.end(lease, &mut heard);
                Said::Revoked
            }
            Ask::Watch { prefix, from } => match self.watch(asker, ticket, prefix, from) {
                Ok(changes) if changes.is_empty() => return heard,
                Ok(changes) => Said::Changed { changes },
                Err(failure) => Said::Failed(failure),
            },
        };
        heard.push(Heard { to: asker, ticket, said });
        heard
    }

    /// Ends the leases that were not renewed in time.
    pub fn handle_timeout(&mut self, now: Micros) -> Vec<Heard> {
        let mut heard = Vec::new();
        let over = self.leases.iter().filter(|(_, lease)| lease.ends_at <= now);
        for lease in over.map(|(&lease, _)| lease).collect::<Vec<_>>() {
            self.end(lease, &mut heard);
        }
        heard
    }

    /// When the next lease ends.
    pub fn poll_timeout(&self) -> Option<Micros> {
        self.leases.values().map(|lease| lease.ends_at).min()
    }

    /// Somebody's connection is lost, and what it watches with it.
    pub fn hang_up(&mut self, asker: Asker) {
        self.watches.retain(|watch| watch.asker != asker);
    }

    /// Its records, for whoever checks them.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    fn found(&self, records: Vec<Record>) -> Said {
        Said::Found { records, revision: self.revision }
    }

    fn cas(&mut self, cas: Cas, heard: &mut Vec<Heard>) -> Said {
        let Cas { key, value, lease, compared } = cas;
        let at = |key: &String| self.records.get(key).map_or(Revision::NONE, |it| it.revision);
        if compared.iter().any(|(key, revision)| at(key) != *revision) {
            return Said::Failed(Failure::Different);
        }
        if lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Said::Failed(Failure::LeaseGone);
        }
        self.revision = self.revision.next();
        let revision = self.revision;
        let change = match value {
            Some(value) => {
                let record = Record { key: key.clone(), value, revision, lease };
                self.records.insert(key, record.clone());
                Some(Change::Put(record))
            }
            None => self.records.remove(&key).map(|_| Change::Gone { key, revision }),
        };
        self.tell(change.into_iter().collect(), heard);
        Said::Written { revision }
    }

    /// A lease and its records are gone, in one revision.
    fn end(&mut self, lease: LeaseId, heard: &mut Vec<Heard>) {
        self.leases.remove(&lease);
        let of_lease = self.records.values().filter(|record| record.lease == Some(lease));
        let keys: Vec<String> = of_lease.map(|record| record.key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        self.revision = self.revision.next();
        let revision = self.revision;
        keys.iter().for_each(|key| drop(self.records.remove(key)));
        let changes = keys.into_iter().map(|key| Change::Gone { key, revision });
        self.tell(changes.collect(), heard);
    }

    fn watch(
        &mut self,
        asker: Asker,
        ticket: Ticket,
        prefix: String,
        from: Revision,
    ) -> Result<Vec<Change>, Failure> {
        if from < self.known_from {
            return Err(Failure::Compacted);
        }
        let is_wanted =
            |change: &&Change| change.revision() >= from && change.key().starts_with(&prefix);
        let changes = self.history.iter().filter(is_wanted).cloned().collect();
        self.watches.retain(|watch| watch.asker != asker || watch.prefix != prefix);
        self.watches.push(Watch { asker, ticket, prefix });
        Ok(changes)
    }

    fn tell(&mut self, changes: Vec<Change>, heard: &mut Vec<Heard>) {
        for &Watch { asker, ticket, ref prefix } in &self.watches {
            let below = changes.iter().filter(|change| change.key().starts_with(prefix));
            let changes: Vec<Change> = below.cloned().collect();
            if !changes.is_empty() {
                heard.push(Heard { to: asker, ticket, said: Said::Changed { changes } });
            }
        }
        self.history.extend(changes);
        while self.history.len() > HISTORY_MAX {
            self.known_from =
                self.history.pop_front().map_or(self.known_from, |it| it.revision()).next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Asker = Asker(1);

    fn put(key: &str, at: Revision, lease: Option<LeaseId>) -> Ask {
        let compared = vec![(key.to_owned(), at)];
        Ask::Cas(Cas { key: key.into(), value: Some(b"x".to_vec()), lease, compared })
    }

    /// What is said to whoever asks; the last thing.
    fn said(store: &mut Store, ask: Ask, now_s: u32) -> Said {
        let mut heard = store.ask(ONE, Ticket(7), ask, Micros::from_secs(now_s));
        heard.pop().unwrap().said
    }

    #[test]
    fn a_key_is_written_only_where_it_is_as_it_was() {
        let mut store = Store::new();
        let written = said(&mut store, put("a", Revision::NONE, None), 0);
        assert_eq!(written, Said::Written { revision: Revision(1) });
        let different = Said::Failed(Failure::Different);
        assert_eq!(said(&mut store, put("a", Revision::NONE, None), 0), different);
        let written = said(&mut store, put("a", Revision(1), None), 0);
        assert_eq!(written, Said::Written { revision: Revision(2) });
    }

    #[test]
    fn a_lease_ends_with_its_records_unless_it_is_renewed() {
        let mut store = Store::new();
        let Said::Granted { lease } = said(&mut store, Ask::Grant { ttl_s: 6 }, 0) else {
            panic!("no lease");
        };
        said(&mut store, put("a", Revision::NONE, Some(lease)), 0);
        let keep_alive = || Ask::KeepAlive { lease, key: "a".into() };
        assert_eq!(said(&mut store, keep_alive(), 5), Said::Renewed);
        assert!(store.handle_timeout(Micros(10_999_999)).is_empty());
        assert_eq!(store.records().count(), 1);
        assert_eq!(store.poll_timeout(), Some(Micros::from_secs(11)));
        store.handle_timeout(Micros::from_secs(11));
        assert_eq!(store.records().count(), 0);
        let gone = Said::Failed(Failure::LeaseGone);
        assert_eq!(said(&mut store, keep_alive(), 11), gone);
        assert_eq!(said(&mut store, put("a", Revision::NONE, Some(lease)), 11), gone);
    }

    #[test]
    fn a_watch_tells_from_its_revision_on_and_only_of_its_prefix() {
        let mut store = Store::new();
        for key in ["p/a", "q/a", "p/b"] {
            said(&mut store, put(key, Revision::NONE, None), 0);
        }
        let watch = Ask::Watch { prefix: "p/".into(), from: Revision(2) };
        let Said::Changed { changes } = said(&mut store, watch, 0) else { panic!("no changes") };
        assert_eq!(changes.iter().map(Change::key).collect::<Vec<_>>(), ["p/b"]);
        let heard = store.ask(Asker(2), Ticket(1), put("p/c", Revision::NONE, None), Micros(0));
        assert_eq!((heard[0].to, heard[0].ticket), (ONE, Ticket(7)));
        assert_eq!(heard[1].said, Said::Written { revision: Revision(4) });
        store.hang_up(ONE);
        let heard = store.ask(Asker(2), Ticket(1), put("p/d", Revision::NONE, None), Micros(0));
        assert_eq!(heard.len(), 1);
    }

    #[test]
    fn a_watch_from_too_long_ago_is_told_so() {
        let mut store = Store::new();
        for at in 0..=HISTORY_MAX as u64 {
            said(&mut store, put("a", Revision(at), None), 0);
        }
        let watch = |from| Ask::Watch { prefix: "a".into(), from: Revision(from) };
        assert_eq!(said(&mut store, watch(1), 0), Said::Failed(Failure::Compacted));
        let Said::Changed { changes } = said(&mut store, watch(2), 0) else { panic!("none") };
        assert_eq!(changes.len(), HISTORY_MAX);
    }
}
