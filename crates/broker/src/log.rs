//! What the core has to say, in the log, at a bounded rate.

use weir_core::{Micros, Notice};
use weir_wire::ReasonCode;

/// Lines of one kind in one second; the rest is counted and said in one line.
const LINES_PER_SECOND: u32 = 10;

/// Writes notices through `tracing`. A flood of faults costs a counter, not a log line each.
#[derive(Debug, Default)]
pub(crate) struct Log {
    ended: Bound,
    dropped: Bound,
    refused: Bound,
}

/// A second's allowance.
#[derive(Debug, Default)]
struct Bound {
    second: u64,
    lines: u32,
    suppressed: u64,
}

impl Bound {
    /// Says whether a line may be written, and how many were not in the last such second.
    fn allow(&mut self, now: Micros) -> Option<u64> {
        let second = now.0 / 1_000_000;
        if second != self.second {
            self.second = second;
            self.lines = 0;
        }
        self.lines += 1;
        if self.lines > LINES_PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl Log {
    pub(crate) fn write(&mut self, notice: Notice<'_>, now: Micros) {
        match notice {
            Notice::Connected { conn, client_id, session_present } => {
                tracing::debug!(conn = conn.0, client_id, session_present, "connected");
            }
            Notice::Ended { conn, reason: ReasonCode::ServerShuttingDown, .. } => {
                tracing::debug!(conn = conn.0, "ended: the broker stops");
            }
            Notice::Ended { conn, client_id, reason, detail } => {
                let Some(suppressed) = self.ended.allow(now) else { return };
                let reason = reason.name();
                tracing::warn!(conn = conn.0, client_id, reason, detail, suppressed, "ended");
            }
            Notice::SessionEnded { client_id, cause } => {
                let Some(suppressed) = self.ended.allow(now) else { return };
                tracing::warn!(client_id, cause, suppressed, "ended an absent session");
            }
            Notice::Moved { partition, to } => {
                tracing::info!(partition = partition.0, shard = to.0, "moved a partition");
            }
            Notice::Refused { client_id, topic, reason, detail } => {
                let Some(suppressed) = self.refused.allow(now) else { return };
                let reason = reason.name();
                tracing::warn!(client_id, topic, reason, detail, suppressed, "refused a message");
            }
            Notice::Dropped { client_id, topic, cause } => {
                let Some(suppressed) = self.dropped.allow(now) else { return };
                tracing::warn!(client_id, topic, cause, suppressed, "dropped a message");
            }
        }
    }
}
