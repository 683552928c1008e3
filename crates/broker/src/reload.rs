//! Users, rights and certificates that are read again while the broker runs.

use crate::auth::access::Tag;
use crate::auth::hasher::{SharedBook, open};
use crate::auth::{Access, AuthConfig, Bans};
use crate::listener::Doors;
use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use weir_access::Asker;
use weir_control::Reread;
use weir_core::Policy;
use weir_reactor::Waker;

/// What a shard is told of it.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) bans: Option<Arc<Bans>>,
    /// Users that are gone, or have another password.
    pub(crate) gone: BTreeSet<String>,
    /// Where what clients have shown of certificates is to be looked at again.
    pub(crate) certificates: Option<Look>,
}

/// A look at the certificates of all clients, which the shards take one by one.
#[derive(Debug)]
pub(crate) struct Look {
    /// Shards that are not through.
    left: AtomicUsize,
    ended: AtomicU64,
}

impl Look {
    fn new(shards: usize) -> Self {
        Self { left: AtomicUsize::new(shards), ended: AtomicU64::new(0) }
    }

    /// A shard has ended so many. The last one says how many all have.
    pub(crate) fn ended(&self, count: u64) {
        let ended = self.ended.fetch_add(count, Ordering::AcqRel) + count;
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 && ended > 0 {
            tracing::info!(
                ended,
                "connections are ended whose certificates let nobody in any more"
            );
        }
    }
}

/// The reloads that a shard goes by.
#[derive(Debug, Default)]
pub(crate) struct Reloaded {
    count: u32,
    /// The last of them.
    recent: VecDeque<Arc<Reload>>,
}

/// Reloads that happen while one client is on its way: it is there in milliseconds.
const RECENT_MAX: usize = 8;

impl Reloaded {
    pub(crate) fn add(&mut self, reload: Arc<Reload>) {
        self.count += 1;
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.push_front(reload);
    }

    /// How many there were. All shards get the same ones in the same order.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether clients of this user were ended by one of those behind the first so many.
    pub(crate) fn has_ended(&self, user: &str, seen: u32) -> bool {
        let missed = self.count.saturating_sub(seen) as usize;
        missed > self.recent.len()
            || self.recent.iter().take(missed).any(|reload| reload.gone.contains(user))
    }
}

/// Reads the files of users, rights and certificates again. A clone does the same.
#[derive(Clone, Debug)]
pub struct Reloader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// One reload after the other, so that all shards get them in the same order.
    turn: Mutex<()>,
    doors: Doors,
    auth: AuthConfig,
    book: Option<SharedBook>,
    /// To the thread that checks tokens, once it runs.
    asker: Arc<OnceLock<Asker<Tag>>>,
    to: Vec<Sender<Arc<Reload>>>,
    wakers: Vec<Waker>,
}

/// What each shard waits for.
pub(crate) type Reloads = Vec<Receiver<Arc<Reload>>>;

impl Reloader {
    pub(crate) fn new(
        doors: Doors,
        auth: &AuthConfig,
        (book, asker): (Option<SharedBook>, Arc<OnceLock<Asker<Tag>>>),
        wakers: &[Waker],
    ) -> (Self, Reloads) {
        let (to, reloads) = wakers.iter().map(|_| channel()).unzip();
        let (turn, auth, wakers) = (Mutex::default(), auth.clone(), wakers.to_vec());
        (Self(Arc::new(Inner { turn, doors, auth, book, asker, to, wakers })), reloads)
    }

    /// Has everything go by the files as they are now. What cannot be used is said, and changes
    /// nothing: each listener's certificates by themselves, users and rights together. Says what
    /// was read.
    pub fn reload(&self) -> Vec<Reread> {
        let mut reread = Vec::new();
        self.0.reload(&mut reread);
        reread
    }
}

impl Inner {
    fn reload(&self, reread: &mut Vec<Reread>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_certificates = false;
        for door in self.doors.iter().flatten() {
            has_certificates |= door.reload(reread);
        }
        let reload = if self.auth.has_files() { self.reload_access(reread) } else { None };
        let look = has_certificates.then(|| Look::new(self.to.len()));
        if reload.is_none() && look.is_none() {
            return;
        }
        let reload = Arc::new(Reload { certificates: look, ..reload.unwrap_or_default() });
        for to in &self.to {
            // A shard that has ended needs none.
            let _ = to.send(Arc::clone(&reload));
        }
        self.wakers.iter().for_each(Waker::wake);
    }

    /// What has all shards go by the users and rights that the files have now. Clients whose users
    /// are gone or have another password are ended; nothing happens to others, but that they may do
    /// what their users may by now.
    fn reload_access(&self, reread: &mut Vec<Reread>) -> Option<Reload> {
        let what = "users, rights and bans".to_owned();
        let access = match self.auth.read_files() {
            Ok(access) => access,
            Err(error) => {
                let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
                tracing::error!("users and rights stay as they were: {error}{why}");
                reread.push(Reread { what, error: Some(format!("{error}{why}")) });
                return None;
            }
        };
        let Access { passwords, policy, bans, keys } = access;
        self.asker.get().into_iter().for_each(|asker| asker.reload(keys.clone()));
        let gone = match (&self.book, passwords) {
            (Some(book), Some(new)) => {
                let old = open(book).replace(Arc::clone(&new));
                old.changed(&new).map(str::to_owned).collect()
            }
            _ => BTreeSet::new(),
        };
        tracing::info!(users_changed = gone.len(), "users and rights are read again");
        reread.push(Reread { what, error: None });
        Some(Reload { policy, bans, gone, certificates: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_missed_reloads_is_looked_up_in_those_alone() {
        let reload = |user: &str| {
            let gone = BTreeSet::from([user.to_owned()]);
            Arc::new(Reload { gone, ..Reload::default() })
        };
        let mut reloaded = Reloaded::default();
        assert!(!reloaded.has_ended("a", 0) && !reloaded.has_ended("a", 1));
        for user in ["a", "b", "c"] {
            reloaded.add(reload(user));
        }
        let ended = |seen| ["a", "b", "c", "d"].map(|user| reloaded.has_ended(user, seen));
        assert_eq!(ended(0), [true, true, true, false]);
        assert_eq!(ended(2), [false, false, true, false]);
        assert_eq!(ended(3), [false; 4]);
        assert_eq!(ended(4), [false; 4], "the sender was first");
        (0..RECENT_MAX).for_each(|_| reloaded.add(reload("e")));
        assert!(reloaded.has_ended("d", 0), "nobody knows any more");
    }
}
