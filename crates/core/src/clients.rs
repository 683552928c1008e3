//! The sessions of a shard's clients, by key and by client identifier.

use crate::bounds::Bounds;
use crate::keys::{Origin, SessionKey, ShardId};
use crate::pages::Pages;
use crate::rights::{Deed, Known, OwnRights, Policy, Rights, RightsTable};
use crate::session::Session;
use crate::shares::Shares;
use crate::shrink;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Every session of a shard. A key names one until it is removed.
#[derive(Debug)]
pub(crate) struct Clients {
    sessions: Pages<Session>,
    by_id: HashTable<SessionKey>,
    /// What addresses have. A client identifier has one session, however often it comes.
    shares: Shares,
    hasher: FixedState,
    /// Whose client each has, where that matters, and what it may do.
    pub(crate) rights: Option<Box<RightsTable>>,
    /// Whether there is anything that a client may not do.
    is_limited: bool,
    /// Client identifiers that the broker chose so far.
    assigned: u64,
    /// No two shards choose the same.
    shard: ShardId,
}

impl Clients {
    /// `seed` keeps hashes, and the identifiers that the broker chooses, from being guessed.
    pub(crate) fn new(shard: ShardId, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let (sessions, by_id, shares) = (Pages::default(), HashTable::new(), Shares::default());
        Self {
            sessions,
            by_id,
            shares,
            hasher,
            rights: None,
            is_limited: false,
            assigned: 0,
            shard,
        }
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

    /// Whom a client counts for; its identifier if its address says nothing.
    pub(crate) fn origin(&self, key: SessionKey) -> Origin {
        let Session { address, client_id, .. } = &self[key];
        address.unwrap_or_else(|| Origin::client(self.hasher.hash_one(client_id.as_bytes()) as u32))
    }

    /// Whether there may be another session from this address; if not, why.
    pub(crate) fn check_room(
        &self,
        address: Option<Origin>,
        bounds: &Bounds,
    ) -> Result<(), &'static str> {
        let (total, max) = (self.len() as u64, u64::from(bounds.limits.sessions_max));
        if total >= max {
            return Err("there are too many sessions");
        }
        let may_take = |address| bounds.may_take(self.shares.of(address).count, 1, total, max);
        if address.is_none_or(may_take) {
            Ok(())
        } else {
            Err("too many sessions of clients from this address")
        }
    }

    /// A new session of a client that has none.
    pub(crate) fn add(&mut self, client_id: &str, address: Option<Origin>) -> SessionKey {
        if let Some(address) = address {
            self.shares.add(address, 0);
        }
        let key = SessionKey(self.sessions.insert(Session::new(client_id, address)) as u32);
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
        let session = self.sessions.take(key.0 as usize);
        if let Some(address) = session.and_then(|session| session.address) {
            self.shares.remove(address, 0);
        }
        if let Some(rights) = &mut self.rights {
            rights.forget(key);
        }
    }

    /// Has clients do what a policy lets them.
    pub(crate) fn set_policy(&mut self, policy: Arc<Policy>) {
        self.is_limited = true;
        self.rights.get_or_insert_default().set_policy(Some(policy));
    }

    /// Has clients do everything but what rights of their own forbid.
    pub(crate) fn clear_policy(&mut self) {
        if let Some(rights) = &mut self.rights {
            rights.set_policy(None);
        }
    }

    /// The session is this user's, where that matters, with rights of its own.
    pub(crate) fn set_user(&mut self, key: SessionKey, known: Known) {
        let Some(rights) = &mut self.rights else { return };
        self.is_limited |= known.own != OwnRights::Policy;
        rights.set_user(key, known);
    }

    /// The session has subscribed to these filters, and to no others.
    pub(crate) fn cover(&mut self, key: SessionKey, filters: &[&str]) {
        if let Some(rights) = &mut self.rights {
            rights.cover(key, &self.sessions[key.0 as usize].client_id, filters);
        }
    }

    /// The session has subscribed to one more filter.
    #[inline]
    pub(crate) fn subscribed(&mut self, key: SessionKey, filter: &str) {
        if self.is_limited
            && let Some(rights) = &mut self.rights
        {
            rights.subscribed(key, &self.sessions[key.0 as usize].client_id, filter);
        }
    }

    /// Whether a session's client may get messages of this topic, to which it has subscribed.
    #[inline]
    pub(crate) fn may_read(&self, key: SessionKey, topic: &str) -> bool {
        !self.is_limited || self.reads(key, topic)
    }

    /// Whether a session's client may publish to this topic.
    #[inline]
    pub(crate) fn may_write(&self, key: SessionKey, topic: &str) -> bool {
        !self.is_limited || self.allow(key, Deed::Write, topic)
    }

    /// What a session's client may do, where that is asked and known.
    pub(crate) fn rights_of(&self, key: SessionKey) -> Option<Arc<Rights>> {
        self.rights.as_ref()?.get(key).map(Arc::clone)
    }

    /// Out of the way of deliveries where everybody may read everything.
    #[cold]
    fn reads(&self, key: SessionKey, topic: &str) -> bool {
        let is_covered = self.rights.as_deref().is_none_or(|rights| rights.is_covered(key));
        is_covered || self.allow(key, Deed::Read, topic)
    }

    #[cold]
    fn allow(&self, key: SessionKey, deed: Deed, topic: &str) -> bool {
        let allow = |rights: &RightsTable| rights.allow(key, deed, &self[key].client_id, topic);
        self.rights.as_deref().is_none_or(allow)
    }

    /// The client is back, maybe from elsewhere.
    pub(crate) fn set_address(&mut self, key: SessionKey, address: Option<Origin>) {
        let old = std::mem::replace(&mut self[key].address, address);
        if old != address {
            address.into_iter().for_each(|address| self.shares.add(address, 0));
            old.into_iter().for_each(|old| self.shares.remove(old, 0));
        }
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

    /// Identifiers are assigned from this one on.
    pub(crate) fn begin_assigned(&mut self, number: u64) {
        self.assigned = number;
    }

    /// No key's number is as large.
    pub(crate) fn end(&self) -> usize {
        self.sessions.end()
    }

    /// For a walk over all sessions: the one at this place, if one is there. The place is then the
    /// next to look at.
    pub(crate) fn step(&self, place: &mut usize) -> Option<SessionKey> {
        let key = SessionKey(*place as u32);
        *place = self.sessions.skip_empty_page(*place);
        self.get(key).map(|_| key)
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
        let keys: Vec<_> = (0..1000).map(|at| clients.add(&at.to_string(), None)).collect();
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
