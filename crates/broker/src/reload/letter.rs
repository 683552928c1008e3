//! What a shard is told of a reload.

use crate::admission::ProcessLimits;
use crate::auth::access::AccessWay;
use crate::auth::hasher::HasherWay;
use crate::auth::{AuthConfig, Bans};
use crate::control::Answer;
use crate::letter::Letter;
use crate::listener::{Doors, Listener};
use crate::patience::Patience;
use crate::sys::SysConfig;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use weir_core::{Limits, Policy, SharePolicy, Voucher};
use weir_flow::Flow;
use weir_reactor::{Joint, ListenerId, ToOutside, Transport};

/// What all shards are told.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) bans: Option<Arc<Bans>>,
    /// Users that are gone, or have another password.
    pub(crate) gone: BTreeSet<String>,
    /// Client identifiers of bridges that are gone, and have ended.
    pub(crate) bridges_gone: Vec<String>,
    /// Where what clients have shown of certificates is to be looked at again.
    pub(crate) certificates: Option<Look>,
    pub(crate) settings: Option<Box<NewSettings>>,
    pub(crate) applied: Applied,
}

/// What the configuration says. What it does not change is there as well, and changes nothing.
#[derive(Debug)]
pub(crate) struct NewSettings {
    pub(crate) limits: Limits,
    pub(crate) process: ProcessLimits,
    pub(crate) share: SharePolicy,
    pub(crate) patience: Patience,
    pub(crate) auth: AuthConfig,
    pub(crate) allows_anonymous: bool,
    /// Every CONNECT passes the authentication port.
    pub(crate) has_authentication: bool,
    /// Clients without a user name are not let in any more.
    pub(crate) ends_anonymous: bool,
    /// No user name was looked at before.
    pub(crate) ends_named: bool,
    /// Who is not asked any more, or by other rules.
    pub(crate) ends_vouched: Vec<Voucher>,
    pub(crate) sys: SysConfig,
    pub(crate) doors: Doors,
    /// Listeners that were there, and how those that they accept talk from now on.
    pub(crate) transports: Vec<(ListenerId, Transport)>,
    pub(crate) removed: Vec<ListenerId>,
}

/// What one shard is told.
#[derive(Debug)]
pub(crate) struct ForShard {
    pub(crate) all: Arc<Reload>,
    /// New ones.
    pub(crate) listeners: Vec<Listener>,
    /// Rules that take the place of those there are; none at all, if they are empty.
    pub(crate) flow: Option<Option<Flow>>,
    /// Its way to the hasher, if that has just begun.
    pub(crate) hasher: Option<HasherWay>,
    /// Its way to where tokens are checked and the service is asked, in the place of the one there
    /// is; none at all, if there are neither.
    pub(crate) access: Option<Option<AccessWay>>,
    /// Its way to the control thread, if that has just begun.
    pub(crate) control: Option<ToOutside<Answer>>,
    /// Where letters come from threads that have just begun.
    pub(crate) joints: Vec<Joint<Letter>>,
    /// Dropped when the shard goes by all of it, or has ended.
    pub(crate) done: Done,
}

/// Counts a shard that goes by a reload when it is dropped.
#[derive(Debug)]
pub(crate) struct Done(pub(super) Arc<Reload>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.applied.add();
    }
}

/// A look at the certificates of all clients, which the shards take one by one.
#[derive(Debug)]
pub(crate) struct Look {
    /// Shards that are not through.
    left: AtomicUsize,
    ended: AtomicU64,
}

impl Look {
    pub(super) fn new(shards: usize) -> Self {
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

/// How many shards go by it.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    count: Mutex<usize>,
    more: Condvar,
}

impl Applied {
    /// One more does.
    fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    /// Patience until so many do. Says whether it has come to that.
    pub(super) fn wait(&self, shards: usize, wait_max: Duration) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.more.wait_timeout_while(count, wait_max, |count| *count < shards);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }
}

/// The reloads that a shard goes by.
#[derive(Debug, Default)]
pub(crate) struct ReloadsSeen {
    count: u32,
    /// The last of them.
    recent: VecDeque<Arc<Reload>>,
}

/// Reloads that happen while one client is on its way: it is there in milliseconds.
const RECENT_MAX: usize = 8;

impl ReloadsSeen {
    pub(crate) fn add(&mut self, reload: Arc<Reload>) {
        self.count += 1;
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.push_front(reload);
    }

    /// How many there were. All shards get the same ones in the same order.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether such clients were ended by one of those behind the first so many.
    pub(crate) fn has_ended(
        &self,
        (user, voucher): (Option<&str>, Option<Voucher>),
        seen: u32,
    ) -> bool {
        let missed = self.count.saturating_sub(seen) as usize;
        missed > self.recent.len()
            || self.recent.iter().take(missed).any(|reload| reload.ends(user, voucher))
    }
}

impl Reload {
    /// Whether it ends clients of this user, or without one, that somebody may vouch for.
    pub(crate) fn ends(&self, user: Option<&str>, voucher: Option<Voucher>) -> bool {
        let settings = self.settings.as_deref();
        if let (Some(voucher), Some(settings)) = (voucher, settings)
            && settings.ends_vouched.contains(&voucher)
        {
            return true;
        }
        match user {
            Some(user) => {
                self.gone.contains(user) || settings.is_some_and(|settings| settings.ends_named)
            }
            None => voucher.is_none() && settings.is_some_and(|settings| settings.ends_anonymous),
        }
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
        let mut reloaded = ReloadsSeen::default();
        let ended =
            |reloaded: &ReloadsSeen, user, seen| reloaded.has_ended((Some(user), None), seen);
        assert!(!ended(&reloaded, "a", 0) && !ended(&reloaded, "a", 1));
        for user in ["a", "b", "c"] {
            reloaded.add(reload(user));
        }
        let all = |seen| ["a", "b", "c", "d"].map(|user| ended(&reloaded, user, seen));
        assert_eq!(all(0), [true, true, true, false]);
        assert_eq!(all(2), [false, false, true, false]);
        assert_eq!(all(3), [false; 4]);
        assert_eq!(all(4), [false; 4], "the sender was first");
        assert!(!reloaded.has_ended((None, None), 0));
        (0..RECENT_MAX).for_each(|_| reloaded.add(reload("e")));
        assert!(ended(&reloaded, "d", 0), "nobody knows any more");
    }
}
