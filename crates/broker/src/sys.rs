//! What the broker says of itself below `$SYS`: the `[sys]` table.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use weir_control::Sys;

/// The `[sys]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SysConfig {
    /// Seconds between two publications of figures below `$SYS/broker`, by Mosquitto's names:
    /// [sys.md](sys.md). Only those that have changed are published, as retained messages. 0 is
    /// never.
    pub interval_s: u16,
}

impl SysConfig {
    /// What the control thread is told; nothing if it has nothing to publish.
    pub(crate) fn setup(&self) -> Option<Sys> {
        (self.interval_s > 0).then(|| Sys {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interval: Duration::from_secs(self.interval_s.into()),
        })
    }
}
