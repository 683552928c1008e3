//! The `[store]` table.

use super::{FIRST_OF_INPUT, PENDING_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir_core::PagedBounds;
use weir_store::Settings;

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
    /// The least time between two commits of a thread that many requests wait for. What comes
    /// meanwhile shares the next one. The fewer share a commit or come while it is on its way, the
    /// shorter it is, and for a single client it is none. 0 commits as often as the disk can.
    pub gap_ms: u16,
    /// What the folder may take, in bytes. 0 is as much as the disk has.
    pub disk_bytes_max: u64,
    /// What a start does if the store is damaged: `refuse` ends with what is damaged, and where;
    /// `salvage` goes on without it, says what was lost, and keeps the damaged files beside it.
    pub on_damage: OnDamage,
    /// The size of a file of the log. It is rounded up so that the longest packet fits.
    pub segment_bytes: u32,
    /// Messages that wait in the queue of a session that outlives its connection, in memory and on
    /// the disk: here `limits.queue_messages_max` does not count.
    pub queue_messages_max: u64,
    /// Payload, topic and properties of these messages, as `limits.queue_bytes_max` has them.
    pub queue_bytes_max: u64,
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
            queue_messages_max: 10_000_000,
            queue_bytes_max: 16 << 30,
        }
    }
}

/// The least files of a shard's log, and of the log of pages.
const LOG_SEGMENTS: u64 = 16;
const PAGE_SEGMENTS: u64 = 8;

/// A smaller file is reclaimed sooner.
const PAGE_SEGMENT_BYTES_MAX: u32 = 16 << 20;

/// Room for a packet's topic, properties and subscription identifiers beside its payload.
const BESIDE_PACKET: u64 = 128 << 10;

/// So large that the longest packet fits.
fn fitting(segment_bytes: u32, packet_bytes_max: u32) -> u32 {
    let least = u64::from(packet_bytes_max) + BESIDE_PACKET;
    u64::from(segment_bytes).max(least).next_multiple_of(4_096) as u32
}

impl StoreConfig {
    /// The least bound of the disk that so many shards can work with: room for two times what is
    /// alive, and for files that are ready, and for some of pages.
    pub(crate) fn disk_bytes_min(&self, shards: u16) -> u64 {
        let page_segment = u64::from(self.segment_bytes.min(PAGE_SEGMENT_BYTES_MAX));
        LOG_SEGMENTS * u64::from(self.segment_bytes) * u64::from(shards)
            + PAGE_SEGMENTS * page_segment
    }

    /// What may wait for a session.
    pub(crate) fn paged_bounds(&self) -> PagedBounds {
        let Self { queue_messages_max, queue_bytes_max, .. } = *self;
        PagedBounds { queue_messages_max, queue_bytes_max }
    }

    /// Whether files that were made for one bound of a packet have room for the other.
    pub(crate) fn has_room_for(&self, old: u32, new: u32) -> bool {
        let pages = self.segment_bytes.min(PAGE_SEGMENT_BYTES_MAX);
        [self.segment_bytes, pages].iter().all(|&bytes| fitting(bytes, new) <= fitting(bytes, old))
    }

    /// What the log of a shard is told, of so many.
    pub(super) fn log(&self, shard: u16, packet_bytes_max: u32, shards: u16) -> Settings {
        let disk_bytes_max = match self.disk_bytes_max {
            0 => u64::MAX,
            bytes => self.logs_bytes_max(bytes, shards) / u64::from(shards),
        };
        Settings {
            shard,
            segment_bytes: fitting(self.segment_bytes, packet_bytes_max),
            pending_bytes_max: PENDING_BYTES_MAX,
            is_synced: self.durability == Durability::Fsync,
            disk_bytes_max,
            group_bit: FIRST_OF_INPUT,
            // A start reads all of it.
            has_footers: false,
            ..Settings::default()
        }
    }

    /// What the log of pages is told. It is always synced: nobody waits for that, and a log that
    /// names a page outlives a power cut too.
    pub(super) fn pages(&self, packet_bytes_max: u32, shards: u16) -> Settings {
        let disk_bytes_max = match self.disk_bytes_max {
            0 => u64::MAX,
            bytes => bytes - self.logs_bytes_max(bytes, shards),
        };
        let segment_bytes = self.segment_bytes.min(PAGE_SEGMENT_BYTES_MAX);
        Settings {
            segment_bytes: fitting(segment_bytes, packet_bytes_max),
            pending_bytes_max: PENDING_BYTES_MAX,
            disk_bytes_max,
            ..Settings::default()
        }
    }

    /// The logs get a half of the disk, or what they cannot work without.
    fn logs_bytes_max(&self, bytes: u64, shards: u16) -> u64 {
        (bytes / 2).max(LOG_SEGMENTS * u64::from(self.segment_bytes) * u64::from(shards))
    }

    /// The folder, if something is to be kept there.
    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.durability != Durability::None)
    }
}
