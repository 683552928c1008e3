//! Users, rights and certificates that are read again while the broker runs.

use crate::auth::access::Tag;
use crate::auth::hasher::{SharedBook, open};
use crate::auth::{Access, AuthConfig, Bans};
use crate::listener::Doors;
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use weir_access::Asker;
use weir_core::Policy;
use weir_reactor::Waker;

/// What a shard is told of it.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) bans: Option<Arc<Bans>>,
    /// Users that are gone, or have another password.
    pub(crate) gone: BTreeSet<String>,
}

/// Reads the files of users, rights and certificates again.
#[derive(Debug)]
pub struct Reloader {
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
        (Self { doors, auth: auth.clone(), book, asker, to, wakers: wakers.to_vec() }, reloads)
    }

    /// Has everything go by the files as they are now. What cannot be used is said, and changes
    /// nothing: each listener's certificates by themselves, users and rights together.
    pub fn reload(&self) {
        self.doors.iter().flatten().for_each(|door| door.reload());
        if self.auth.has_files() {
            self.reload_access();
        }
    }

    /// Has all shards go by the users and rights that the files have now. Clients whose users are
    /// gone or have another password are ended; nothing happens to others, but that they may do
    /// what their users may by now.
    fn reload_access(&self) {
        let access = match self.auth.read_files() {
            Ok(access) => access,
            Err(error) => {
                let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
                tracing::error!("users and rights stay as they were: {error}{why}");
                return;
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
        let reload = Arc::new(Reload { policy, bans, gone });
        for to in &self.to {
            // A shard that has ended needs none.
            let _ = to.send(Arc::clone(&reload));
        }
        self.wakers.iter().for_each(Waker::wake);
    }
}
