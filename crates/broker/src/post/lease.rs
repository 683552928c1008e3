//! Until when a node may act, by its own clock. Each of its threads looks at the beginning of a
//! turn, before anything leaves: one that was stopped for long does not go by what it was told
//! then.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_core::Micros;

#[derive(Debug, Default)]
pub(crate) struct Lease(AtomicU64);

impl Lease {
    /// Until then, or not at all.
    pub(super) fn set(&self, until: Option<Micros>) {
        self.0.store(until.map_or(0, |until| until.0), Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self, now_us: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now_us
    }

    /// How long it lasts.
    pub(super) fn left_us(&self, now_us: u64) -> u64 {
        self.0.load(Ordering::Relaxed).saturating_sub(now_us)
    }
}
