//! What the broker says of itself below `$SYS`: the `[sys]` table.

mod events;

pub(crate) use events::Events;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weir_control::Sys;
use weir_core::{Policy, SysReaders};

/// The `[sys]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SysConfig {
    /// Seconds between two publications of figures below `$SYS/broker`, by Mosquitto's names:
    /// [sys.md](sys.md). Only those that have changed are published, as retained messages. 0 is
    /// never.
    pub interval_s: u16,
    /// Clients that come and go are said below `$SYS/brokers/NODE/clients`, as EMQX does: so many
    /// in a second at most, of each thread. 0 is none.
    pub client_events_per_s_max: u32,
    /// Who may read what is below `$SYS`: `"all"`, as with Mosquitto, `"users"`, who are clients
    /// that have a user name, or a list of user names. `auth.acl_file` may say less, and not more;
    /// whoever may do everything, may read it.
    #[serde(skip_serializing_if = "Readers::are_all")]
    pub readers: Readers,
}

/// Who may read `$SYS`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Readers {
    /// A kind of clients.
    Kind(ReaderKind),
    /// Those of these users.
    Users(BTreeSet<String>),
}

/// Of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReaderKind {
    /// Every client.
    All,
    /// Those that have a user name.
    Users,
}

impl Default for Readers {
    fn default() -> Self {
        Self::Kind(ReaderKind::All)
    }
}

impl Readers {
    pub(crate) fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// A policy, or none, that lets no others read it.
    pub(crate) fn limit(&self, policy: Option<Arc<Policy>>) -> Option<Arc<Policy>> {
        let readers = match self {
            Self::Kind(ReaderKind::All) => return policy,
            Self::Kind(ReaderKind::Users) => SysReaders::Users,
            Self::Users(users) => SysReaders::These(users.clone()),
        };
        let policy = policy.map_or_else(Policy::free, Arc::unwrap_or_clone);
        Some(Arc::new(policy.with_sys_readers(readers)))
    }
}

impl SysConfig {
    /// Of a shard; nothing if no event is said.
    pub(crate) fn events(&self) -> Option<Box<Events>> {
        let per_s_max = self.client_events_per_s_max;
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        (per_s_max > 0).then(|| Box::new(Events::new(host().trim(), per_s_max)))
    }

    /// Has a shard say so many events from now on.
    pub(crate) fn set_events(&self, events: &mut Option<Box<Events>>) {
        match events {
            None => *events = self.events(),
            Some(events) => events.set_max(self.client_events_per_s_max),
        }
    }

    /// What the control thread is told; nothing if it has nothing to publish.
    pub(crate) fn setup(&self) -> Option<Sys> {
        (self.interval_s > 0).then(|| Sys {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval: Duration::from_secs(self.interval_s.into()),
        })
    }
}
