//! Bridges, as they are shown.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a bridge is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bridge {
    /// Its name in the configuration.
    pub name: String,
    /// Its client identifier in the broker: that of its queue.
    pub client_id: String,
    /// The place of the remote broker that it is connected to, or has tried last.
    pub remote: String,
    /// Whether messages are relayed at present.
    pub connected: bool,
    /// Why it was last not, if it ever was, or what else was wrong.
    pub last_error: Option<String>,
    /// Messages that the remote broker has not acknowledged.
    pub queued_messages: u64,
    /// Payloads, topics and properties of those that have not been sent to the bridge.
    pub queued_bytes: u64,
    /// What it has counted, by name.
    pub counters: BTreeMap<String, u64>,
}

impl Bridge {
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Messages that it has dropped, for all reasons.
    pub fn dropped(&self) -> u64 {
        let of_drops = self.counters.iter().filter(|(name, _)| name.starts_with(DROPPED));
        of_drops.map(|(_, count)| count).sum()
    }
}

/// What the names of counters of drops begin with; the reason follows.
pub(crate) const DROPPED: &str = "dropped_";
