//! Which session has whose rights: four bytes a session, and one value a user.

use super::{Deed, Policy, Rights};
use crate::keys::SessionKey;
use slab::Slab;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose rights a client has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum User {
    /// It gave no user name.
    Anonymous,
    /// The user that it was let in as.
    Named(Box<str>),
}

impl User {
    pub(crate) fn new(name: Option<&str>) -> Self {
        name.map_or(Self::Anonymous, |name| Self::Named(name.into()))
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// A user of [`RightsTable`]: one more than its key; 0 is nobody that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UserId(u32);

impl UserId {
    fn key(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// The rights of all sessions of a shard.
#[derive(Debug, Default)]
pub(crate) struct RightsTable {
    /// Without one, every user may do everything.
    policy: Option<Arc<Policy>>,
    ids: BTreeMap<User, UserId>,
    users: Slab<Entry>,
    /// By session.
    of: Vec<UserId>,
}

/// A user that sessions have.
#[derive(Debug)]
struct Entry {
    user: User,
    rights: Option<Arc<Rights>>,
    sessions: u32,
}

impl RightsTable {
    /// The rights of all users are those of another policy from now on.
    pub(crate) fn set_policy(&mut self, policy: Arc<Policy>) {
        for (_, entry) in &mut self.users {
            entry.rights = Some(Arc::new(policy.of(&entry.user)));
        }
        self.policy = Some(policy);
    }

    /// Whose client has the session, as far as that is known.
    pub(crate) fn user(&self, key: SessionKey) -> Option<&User> {
        self.entry(key).map(|entry| &entry.user)
    }

    /// The sessions of users that are among these.
    pub(crate) fn sessions_of(&self, is_among: impl Fn(&str) -> bool) -> Vec<SessionKey> {
        let is_asked = |entry: &Entry| entry.user.name().is_some_and(&is_among);
        let mut asked = vec![false; self.users.capacity()];
        self.users.iter().for_each(|(key, entry)| asked[key] = is_asked(entry));
        if !asked.contains(&true) {
            return Vec::new();
        }
        let is_its = |id: &UserId| id.key().is_some_and(|key| asked[key]);
        let sessions = (0..).zip(&self.of).filter(|(_, id)| is_its(id));
        sessions.map(|(key, _)| SessionKey(key)).collect()
    }

    /// The session's rights; nothing while its user is not known.
    #[inline]
    pub(crate) fn get(&self, key: SessionKey) -> Option<&Arc<Rights>> {
        self.entry(key)?.rights.as_ref()
    }

    /// Whether the session's client may do that. A session whose user is not known has no client:
    /// what comes for it waits, and is looked at when the client is back.
    pub(crate) fn allow(&self, key: SessionKey, deed: Deed, client_id: &str, topic: &str) -> bool {
        self.get(key).is_none_or(|rights| rights.allow(deed, client_id, topic))
    }

    /// The session is this user's from now on.
    pub(crate) fn set_user(&mut self, key: SessionKey, user: User) {
        let id = self.acquire(user);
        let at = key.0 as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, UserId::default());
        }
        let old = std::mem::replace(&mut self.of[at], id);
        self.release(old);
    }

    /// The session is over.
    #[cold]
    pub(crate) fn forget(&mut self, key: SessionKey) {
        if let Some(of) = self.of.get_mut(key.0 as usize) {
            let old = std::mem::take(of);
            self.release(old);
        }
    }

    #[inline]
    fn entry(&self, key: SessionKey) -> Option<&Entry> {
        let id = self.of.get(key.0 as usize)?;
        self.users.get(id.key()?)
    }

    fn acquire(&mut self, user: User) -> UserId {
        if let Some(&id) = self.ids.get(&user) {
            if let Some(entry) = id.key().and_then(|key| self.users.get_mut(key)) {
                entry.sessions += 1;
            }
            return id;
        }
        let rights = self.policy.as_ref().map(|policy| Arc::new(policy.of(&user)));
        let key = self.users.insert(Entry { user: user.clone(), rights, sessions: 1 });
        let id = UserId(key as u32 + 1);
        self.ids.insert(user, id);
        id
    }

    fn release(&mut self, id: UserId) {
        let Some(key) = id.key() else { return };
        let entry = &mut self.users[key];
        entry.sessions -= 1;
        if entry.sessions == 0 {
            self.ids.remove(&entry.user);
            self.users.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::{Grant, PolicyBuilder};

    fn policy(filter: &str) -> Arc<Policy> {
        let mut policy = PolicyBuilder::default();
        policy.rule(Some("ann"), Grant::Write, filter).unwrap();
        Arc::new(policy.build())
    }

    fn table(filter: &str) -> RightsTable {
        let mut table = RightsTable::default();
        table.set_policy(policy(filter));
        table
    }

    fn ann() -> User {
        User::new(Some("ann"))
    }

    #[test]
    fn sessions_of_a_user_share_its_rights_and_the_last_takes_them_along() {
        let mut table = table("a");
        for key in [0, 7] {
            table.set_user(SessionKey(key), ann());
            assert!(table.allow(SessionKey(key), Deed::Write, "c", "a"));
        }
        assert_eq!(table.users.len(), 1);
        table.forget(SessionKey(0));
        assert_eq!(table.user(SessionKey(0)), None);
        assert_eq!(table.user(SessionKey(7)), Some(&ann()));
        table.set_user(SessionKey(7), User::Anonymous);
        assert!(!table.ids.contains_key(&ann()));
        assert!(!table.allow(SessionKey(7), Deed::Write, "c", "a"));
        table.forget(SessionKey(7));
        assert!(table.ids.is_empty() && table.users.is_empty());
    }

    #[test]
    fn another_policy_holds_for_sessions_that_are_there() {
        let mut table = table("a");
        table.set_user(SessionKey(3), ann());
        table.set_policy(policy("b"));
        assert!(!table.allow(SessionKey(3), Deed::Write, "c", "a"));
        assert!(table.allow(SessionKey(3), Deed::Write, "c", "b"));
    }

    #[test]
    fn the_sessions_of_some_users_are_found() {
        let mut table = RightsTable::default();
        table.set_user(SessionKey(2), ann());
        table.set_user(SessionKey(4), User::new(Some("bob")));
        table.set_user(SessionKey(5), User::Anonymous);
        assert!(table.allow(SessionKey(2), Deed::Read, "c", "any"));
        assert_eq!(table.sessions_of(|user| user == "ann"), [SessionKey(2)]);
        assert_eq!(table.sessions_of(|user| user == "eve"), []);
    }
}
