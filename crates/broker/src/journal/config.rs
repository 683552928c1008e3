//! The `[store]` table.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where sessions and messages are kept, and how safe they are before they are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The folder; it is made if it is not there. Without one, all is kept in memory only, and is
    /// gone when the broker ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// When a message counts as kept, and is acknowledged: `fsync` once the disk has it, so that it
    /// outlives a power cut; `write` once the operating system has it, so that it outlives the
    /// broker's process, and the disk has it a second later. `none` keeps nothing.
    pub durability: Durability,
    /// The least time between two commits of a thread, while it has something to commit. What comes
    /// meanwhile shares the next one. 0 commits as often as the disk can.
    pub gap_ms: u16,
    /// What the folder may take, in bytes. 0 is as much as the disk has.
    pub disk_bytes_max: u64,
    /// What a start does if the store is damaged: `refuse` ends with what is damaged, and where;
    /// `salvage` goes on without it, says what was lost, and keeps the damaged files beside it.
    pub on_damage: OnDamage,
    /// The size of a file of the log. It is rounded up so that the longest packet fits.
    pub segment_bytes: u32,
}

/// What an acknowledgement waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: there is no log.
    None,
    /// The log is with the operating system.
    Write,
    /// The log is on the disk.
    #[default]
    Fsync,
}

/// What a start does about damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDamage {
    /// Acknowledged messages do not go silently: somebody has to decide.
    #[default]
    Refuse,
    /// Better without what is damaged than not at all.
    Salvage,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            path: None,
            durability: Durability::default(),
            gap_ms: 1,
            disk_bytes_max: 0,
            on_damage: OnDamage::default(),
            segment_bytes: 64 << 20,
        }
    }
}

impl StoreConfig {
    /// The least bound of the disk that so many shards can work with: room for two times what is
    /// alive, and for files that are ready.
    pub(crate) fn disk_bytes_min(&self, shards: u16) -> u64 {
        16 * u64::from(self.segment_bytes) * u64::from(shards)
    }

    /// The folder, if something is to be kept there.
    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.durability != Durability::None)
    }
}
