//! Which session has whose rights: four bytes a session, and one value a user.

use super::{Deed, OwnRights, Policy, Rights, Voucher};
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

/// What is known of a session's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) user: User,
    pub(crate) own: OwnRights,
    pub(crate) voucher: Option<Voucher>,
}

impl Known {
    /// A user with the rights of the policy, for whom nobody else vouches.
    pub(crate) fn plain(user: User) -> Self {
        Self { user, own: OwnRights::Policy, voucher: None }
    }
}

/// A user of [`RightsTable`]: one more than its key; 0 is nobody that is known. The highest bits
/// are of a session: whether nothing that it has subscribed to has to be looked at again, and who
/// vouches for its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UserId(u32);

impl UserId {
    const IS_COVERED: u32 = 1 << 31;
    const VOUCHER_SHIFT: u32 = 29;
    const KEY: u32 = (1 << Self::VOUCHER_SHIFT) - 1;

    fn key(self) -> Option<usize> {
        ((self.0 & Self::KEY) as usize).checked_sub(1)
    }

    fn vouched_for_by(self, voucher: Option<Voucher>) -> Self {
        let number = match voucher {
            None => 0,
            Some(Voucher::Broker) => 1,
            Some(Voucher::Tokens) => 2,
            Some(Voucher::Service) => 3,
        };
        Self(self.0 | number << Self::VOUCHER_SHIFT)
    }

    fn voucher(self) -> Option<Voucher> {
        match (self.0 & !Self::IS_COVERED) >> Self::VOUCHER_SHIFT {
            1 => Some(Voucher::Broker),
            2 => Some(Voucher::Tokens),
            3 => Some(Voucher::Service),
            _ => None,
        }
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
    /// Of its one session, unless the policy alone counts.
    own: OwnRights,
    rights: Option<Arc<Rights>>,
    sessions: u32,
}

impl Entry {
    fn new(user: User, own: OwnRights, policy: Option<&Policy>) -> Self {
        let mut entry = Self { user, own, rights: None, sessions: 1 };
        entry.set_policy(policy);
        entry
    }

    fn set_policy(&mut self, policy: Option<&Policy>) {
        let rights = match (&self.own, policy) {
            (OwnRights::All, _) | (OwnRights::Policy, None) => None,
            (OwnRights::Policy, Some(policy)) => Some(policy.of(&self.user, None)),
            (OwnRights::Rules(own), policy) => {
                Some(policy.unwrap_or(&Policy::default()).of(&self.user, Some(own.clone())))
            }
        };
        self.rights = rights.map(Arc::new);
    }
}

impl RightsTable {
    /// The rights of all users are those of another policy from now on, or of none.
    pub(crate) fn set_policy(&mut self, policy: Option<Arc<Policy>>) {
        if policy.is_none() && self.policy.is_none() {
            return;
        }
        let mut changed = vec![false; self.users.capacity()];
        for (key, entry) in &mut self.users {
            let old = entry.rights.take();
            entry.set_policy(policy.as_deref());
            changed[key] = entry.rights != old;
        }
        for id in &mut self.of {
            if id.key().is_some_and(|key| changed[key]) {
                id.0 &= !UserId::IS_COVERED;
            }
        }
        self.policy = policy;
    }

    /// Whether the session's client may read whatever it has subscribed to.
    #[inline]
    pub(crate) fn is_covered(&self, key: SessionKey) -> bool {
        self.of.get(key.0 as usize).is_some_and(|id| id.0 & UserId::IS_COVERED != 0)
    }

    /// The session has subscribed to these filters, and to no others.
    pub(crate) fn cover(&mut self, key: SessionKey, client_id: &str, filters: &[&str]) {
        let Some(entry) = self.entry(key) else { return };
        let may_read = |rights: &Rights| filters.iter().all(|it| rights.covers(client_id, it));
        let may_read = entry.rights.as_deref().is_none_or(may_read);
        if may_read {
            self.of[key.0 as usize].0 |= UserId::IS_COVERED;
        }
    }

    /// The session has subscribed to one more filter.
    pub(crate) fn subscribed(&mut self, key: SessionKey, client_id: &str, filter: &str) {
        let rights = self.get(key);
        if self.is_covered(key) && !rights.is_none_or(|it| it.covers(client_id, filter)) {
            self.of[key.0 as usize].0 &= !UserId::IS_COVERED;
        }
    }

    /// Whose client has the session, as far as that is known, and its rights of its own.
    pub(crate) fn known(&self, key: SessionKey) -> Option<Known> {
        let Entry { user, own, .. } = self.entry(key)?;
        Some(Known { user: user.clone(), own: own.clone(), voucher: self.voucher(key) })
    }

    /// Who vouches for the session's client.
    pub(crate) fn voucher(&self, key: SessionKey) -> Option<Voucher> {
        self.of.get(key.0 as usize)?.voucher()
    }

    /// The sessions whose clients one of these vouches for.
    pub(crate) fn vouched_for(&self, by: &[Voucher]) -> Vec<SessionKey> {
        let is_its = |id: &UserId| id.voucher().is_some_and(|voucher| by.contains(&voucher));
        let sessions = (0..).zip(&self.of).filter(|(_, id)| is_its(id));
        sessions.map(|(key, _)| SessionKey(key)).collect()
    }

    /// The user's name.
    pub(crate) fn user_name(&self, key: SessionKey) -> Option<&str> {
        self.entry(key)?.user.name()
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

    /// The session is this user's from now on, and not known to be covered.
    pub(crate) fn set_user(&mut self, key: SessionKey, Known { user, own, voucher }: Known) {
        let id = match own {
            OwnRights::Policy => self.acquire(user),
            own => self.insert(user, own),
        };
        let id = id.vouched_for_by(voucher);
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
        let id = self.insert(user.clone(), OwnRights::Policy);
        self.ids.insert(user, id);
        id
    }

    fn insert(&mut self, user: User, own: OwnRights) -> UserId {
        let key = self.users.insert(Entry::new(user, own, self.policy.as_deref()));
        UserId(key as u32 + 1)
    }

    fn release(&mut self, id: UserId) {
        let Some(key) = id.key() else { return };
        let entry = &mut self.users[key];
        entry.sessions -= 1;
        if entry.sessions == 0 {
            if entry.own == OwnRights::Policy {
                self.ids.remove(&entry.user);
            }
            self.users.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::{Grant, OwnRules, PolicyBuilder};

    fn policy(filter: &str) -> Arc<Policy> {
        let mut policy = PolicyBuilder::default();
        policy.rule(Some("ann"), Grant::Write, filter).unwrap();
        Arc::new(policy.build())
    }

    fn table(filter: &str) -> RightsTable {
        let mut table = RightsTable::default();
        table.set_policy(Some(policy(filter)));
        table
    }

    fn ann() -> User {
        User::new(Some("ann"))
    }

    /// Ann with rights of her own.
    fn with(own: OwnRights) -> Known {
        Known { own, ..Known::plain(ann()) }
    }

    #[test]
    fn who_vouches_for_a_client_is_known_until_another_does() {
        let mut table = table("a/#");
        let vouched = |voucher| Known { voucher, ..Known::plain(ann()) };
        let all = [None, Some(Voucher::Broker), Some(Voucher::Tokens), Some(Voucher::Service)];
        for (key, voucher) in (0..).map(SessionKey).zip(all) {
            table.set_user(key, vouched(voucher));
            table.cover(key, "c", &[]);
            assert_eq!(table.known(key), Some(vouched(voucher)));
            assert!(table.is_covered(key));
        }
        assert_eq!(table.vouched_for(&[Voucher::Tokens]), [SessionKey(2)]);
        let both = [Voucher::Service, Voucher::Tokens];
        assert_eq!(table.vouched_for(&both), [SessionKey(2), SessionKey(3)]);
        table.set_user(SessionKey(2), vouched(None));
        table.forget(SessionKey(3));
        assert_eq!(table.vouched_for(&both), []);
    }

    #[test]
    fn sessions_of_a_user_share_its_rights_and_the_last_takes_them_along() {
        let mut table = table("a");
        for key in [0, 7] {
            table.set_user(SessionKey(key), Known::plain(ann()));
            assert!(table.allow(SessionKey(key), Deed::Write, "c", "a"));
        }
        assert_eq!(table.users.len(), 1);
        table.forget(SessionKey(0));
        assert_eq!(table.known(SessionKey(0)), None);
        assert_eq!(table.known(SessionKey(7)), Some(Known::plain(ann())));
        table.set_user(SessionKey(7), Known::plain(User::Anonymous));
        assert!(!table.ids.contains_key(&ann()));
        assert!(!table.allow(SessionKey(7), Deed::Write, "c", "a"));
        table.forget(SessionKey(7));
        assert!(table.ids.is_empty() && table.users.is_empty());
    }

    #[test]
    fn rules_of_one_client_come_first_and_are_nobody_elses() {
        let own = |rules: &[(Grant, &'static str)]| {
            OwnRights::Rules(OwnRules::new(rules.iter().copied()).unwrap())
        };
        let mut table = table("a");
        let (first, second, third) = (SessionKey(0), SessionKey(1), SessionKey(2));
        table.set_user(first, with(own(&[(Grant::DenyWrite, "a"), (Grant::Read, "b/#")])));
        table.set_user(second, Known::plain(ann()));
        table.set_user(third, with(OwnRights::All));
        assert!(!table.allow(first, Deed::Write, "c", "a"));
        assert!(table.allow(first, Deed::Read, "c", "b/x"));
        assert!(!table.allow(first, Deed::Write, "c", "b/x"));
        assert!(table.allow(second, Deed::Write, "c", "a"));
        assert!(!table.allow(second, Deed::Read, "c", "b/x"));
        assert!(table.allow(third, Deed::Write, "c", "$SYS/x"));
        table.set_policy(Some(policy("d")));
        assert!(table.allow(first, Deed::Write, "c", "d"), "where its own say nothing");
        assert!(table.allow(third, Deed::Write, "c", "x"));
        table.forget(first);
        assert!(table.allow(second, Deed::Write, "c", "d"));
        [second, third].into_iter().for_each(|key| table.forget(key));
        assert!(table.ids.is_empty() && table.users.is_empty());
    }

    #[test]
    fn rules_of_one_client_alone_deny_what_they_do_not_grant() {
        let mut table = RightsTable::default();
        let own = OwnRules::new([(Grant::Deny, "a"), (Grant::ReadWrite, "#")]).unwrap();
        table.set_user(SessionKey(0), with(OwnRights::Rules(own)));
        assert!(table.allow(SessionKey(0), Deed::Read, "c", "b"));
        assert!(!table.allow(SessionKey(0), Deed::Read, "c", "a"));
        assert!(!table.allow(SessionKey(0), Deed::Read, "c", "$SYS/x"));
        table.set_user(SessionKey(0), with(OwnRights::Rules(OwnRules::default())));
        assert!(!table.allow(SessionKey(0), Deed::Read, "c", "b"));
    }

    #[test]
    fn another_policy_holds_for_sessions_that_are_there() {
        let mut table = table("a");
        table.set_user(SessionKey(3), Known::plain(ann()));
        table.set_policy(Some(policy("b")));
        assert!(!table.allow(SessionKey(3), Deed::Write, "c", "a"));
        assert!(table.allow(SessionKey(3), Deed::Write, "c", "b"));
    }

    #[test]
    fn the_sessions_of_some_users_are_found() {
        let mut table = RightsTable::default();
        table.set_user(SessionKey(2), Known::plain(ann()));
        table.set_user(SessionKey(4), Known::plain(User::new(Some("bob"))));
        table.set_user(SessionKey(5), Known::plain(User::Anonymous));
        assert!(table.allow(SessionKey(2), Deed::Read, "c", "any"));
        assert_eq!(table.sessions_of(|user| user == "ann"), [SessionKey(2)]);
        assert_eq!(table.sessions_of(|user| user == "eve"), []);
    }

    #[test]
    fn a_session_whose_filters_are_covered_is_so_until_one_is_not_or_its_rights_are_others() {
        let read = |filters: &[&str]| {
            let mut policy = PolicyBuilder::default();
            for filter in filters {
                policy.rule(Some("ann"), Grant::Read, filter).unwrap();
            }
            Arc::new(policy.build())
        };
        let mut table = RightsTable::default();
        table.set_policy(Some(read(&["a/#"])));
        let key = SessionKey(3);
        table.set_user(key, Known::plain(ann()));
        assert!(!table.is_covered(key));
        table.cover(key, "c", &["a/b"]);
        assert!(table.is_covered(key));
        // The same rights again, and other users' change nothing.
        table.set_policy(Some(read(&["a/#"])));
        table.subscribed(key, "c", "a/+/x");
        assert!(table.is_covered(key));
        table.subscribed(key, "c", "b");
        assert!(!table.is_covered(key));
        table.subscribed(key, "c", "a/c");
        assert!(!table.is_covered(key));
        table.cover(key, "c", &["a/b"]);
        table.set_policy(Some(read(&["a/b"])));
        assert!(!table.is_covered(key));
        table.cover(key, "c", &["a/b"]);
        table.set_user(key, Known::plain(User::new(Some("bob"))));
        assert!(!table.is_covered(key));
        table.cover(key, "c", &["a/b"]);
        assert!(!table.is_covered(key));
        // Its terms let it do everything.
        table.set_user(key, with(OwnRights::All));
        table.cover(key, "c", &["x"]);
        assert!(table.is_covered(key));
        table.forget(key);
        assert!(!table.is_covered(key) && table.users.is_empty());
    }
}
