//! What the broker says of itself below `$SYS`: the `[sys]` table.

mod events;

pub(crate) use events::Events;
use serde::{Deserialize, Serialize};
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
    /// Users whose clients may read what is below `$SYS`; `"*"` is every client that has a user
    /// name. With an empty list everybody may, as with Mosquitto. `auth.acl_file` may say less, and
    /// not more; whoever may do everything, may read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<String>,
}

/// Every user, in [`SysConfig::readers`].
const EVERY_USER: &str = "*";

impl SysConfig {
    /// Of a shard; nothing if no event is said.
    pub(crate) fn events(&self) -> Option<Box<Events>> {
        let per_s_max = self.client_events_per_s_max;
        (per_s_max > 0).then(|| Box::new(Events::new(&crate::host::name(), per_s_max)))
    }

    /// A policy, or none, that lets no others read what is below `$SYS`.
    pub(crate) fn limit(&self, policy: Option<Arc<Policy>>) -> Option<Arc<Policy>> {
        let readers = match &self.readers[..] {
            [] => return policy,
            users if users.iter().any(|user| user == EVERY_USER) => SysReaders::Users,
            users => SysReaders::These(users.iter().cloned().collect()),
        };
        let policy = policy.map_or_else(Policy::free, Arc::unwrap_or_clone);
        Some(Arc::new(policy.with_sys_readers(readers)))
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
