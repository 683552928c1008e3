//! The sessions of a shard's clients, by key and by client identifier.

use crate::keys::{SessionKey, ShardId};
use crate::pages::Pages;
use crate::session::Session;
use crate::shrink;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

/// Every session of a shard. A key names one until it is removed.
#[derive(Debug)]
pub(crate) struct Clients {
    sessions: Pages<Session>,
    by_id: HashTable<SessionKey>,
    hasher: FixedState,
    /// Client identifiers that the broker chose so far.
    assigned: u64,
    /// No two shards choose the same.
    shard: ShardId,
}

impl Clients {
    /// `seed` keeps hashes, and the identifiers that the broker chooses, from being guessed.
    pub(crate) fn new(shard: ShardId, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self { sessions: Pages::default(), by_id: HashTable::new(), hasher, assigned: 0, shard }
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session> {
        self.sessions.get(key.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(key.0 as usize)
    }

    /// The session of this client.
    pub(crate) fn find(&self, client_id: &str) -> Option<SessionKey> {
        let client_id = client_id.as_bytes();
        let is_its = |&key: &SessionKey| self[key].client_id.as_bytes() == client_id;
        self.by_id.find(self.hasher.hash_one(client_id), is_its).copied()
    }

    /// A new session of a client that has none.
    pub(crate) fn add(&mut self, client_id: &str) -> SessionKey {
        let key = SessionKey(self.sessions.insert(Session::new(client_id)) as u32);
        let Self { sessions, by_id, hasher, .. } = self;
        let hash = |key: &SessionKey| hash(hasher, &sessions[key.0 as usize]);
        by_id.insert_unique(hash(&key), key, hash);
        key
    }

    pub(crate) fn remove(&mut self, key: SessionKey) {
        let Self { sessions, by_id, hasher, .. } = self;
        let hash = |key: &SessionKey| hash(hasher, &sessions[key.0 as usize]);
        if let Ok(entry) = by_id.find_entry(hash(&key), |other| *other == key) {
            entry.remove();
        }
        shrink::table(by_id, hash);
        sessions.take(key.0 as usize);
    }

    /// A client identifier that nobody has or can guess. `is_own` says whether a client of this
    /// shard may have it.
    pub(crate) fn assign_id(&mut self, is_own: impl Fn(&str) -> bool) -> Box<str> {
        loop {
            self.assigned += 1;
            let code = self.hasher.hash_one((self.shard, self.assigned));
            let id = format!("weir-{code:016x}").into_boxed_str();
            if is_own(&id) && self.find(&id).is_none() {
                return id;
            }
        }
    }

    /// No key's number is as large.
    pub(crate) fn end(&self) -> usize {
        self.sessions.end()
    }

    /// For a walk over all sessions: the one at this place, or the next place to look at.
    pub(crate) fn at(&self, place: usize) -> Result<&Session, usize> {
        self.sessions.get(place).ok_or_else(|| self.sessions.skip_empty_page(place))
    }
}

fn hash(hasher: &FixedState, session: &Session) -> u64 {
    hasher.hash_one(session.client_id.as_bytes())
}

impl Index<SessionKey> for Clients {
    type Output = Session;

    #[inline]
    fn index(&self, key: SessionKey) -> &Session {
        &self.sessions[key.0 as usize]
    }
}

impl IndexMut<SessionKey> for Clients {
    #[inline]
    fn index_mut(&mut self, key: SessionKey) -> &mut Session {
        &mut self.sessions[key.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_until_it_is_removed() {
        let mut clients = Clients::new(ShardId(0), 7);
        let keys: Vec<_> = (0..1000).map(|at| clients.add(&at.to_string())).collect();
        assert_eq!(clients.find("17"), Some(keys[17]));
        assert_eq!(&*clients[keys[17]].client_id, "17");
        keys.iter().skip(1).for_each(|&key| clients.remove(key));
        assert_eq!((clients.find("17"), clients.find("0")), (None, Some(keys[0])));
        assert_eq!(clients.len(), 1);
    }

    #[test]
    fn an_assigned_identifier_is_nobodys_and_its_shards() {
        let mut clients = Clients::new(ShardId(0), 7);
        let is_own = |id: &str| id.ends_with(['0', '1', '2', '3']);
        let ids: Vec<_> = (0..20).map(|_| clients.assign_id(is_own)).collect();
        assert!(ids.iter().all(|id| is_own(id)));
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
    }
}
