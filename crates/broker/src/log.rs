//! What the core has to say, in the log, at a bounded rate.

use weir_core::{Micros, Notice};
use weir_wire::ReasonCode;

/// Lines of one kind in one second; the rest is counted and said in one line.
const LINES_PER_SECOND: u32 = 10;

/// Bytes of a name or a detail that a line shows; a client chooses how long its names are. Control
/// characters are escaped where the line is made, at most six times as long.
const SHOWN_BYTES_MAX: usize = 128;

/// As much of `text` as a line shows.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Writes notices through `tracing`. A flood of faults costs a counter, not a log line each.
#[derive(Debug, Default)]
pub(crate) struct Log {
    ended: Bound,
    dropped: Bound,
    refused: Bound,
    left_out: Bound,
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
                let client_id = cut(client_id);
                tracing::debug!(conn = conn.0, client_id, session_present, "connected");
            }
            Notice::Ended { conn, reason: ReasonCode::ServerShuttingDown, .. } => {
                tracing::debug!(conn = conn.0, "ended: the broker stops");
            }
            Notice::Ended { conn, client_id, reason, detail } => {
                let Some(suppressed) = self.ended.allow(now) else { return };
                let (client_id, reason, detail) = (cut(client_id), reason.name(), cut(detail));
                tracing::warn!(conn = conn.0, client_id, reason, detail, suppressed, "ended");
            }
            Notice::SessionEnded { client_id, cause } => {
                let Some(suppressed) = self.ended.allow(now) else { return };
                let client_id = cut(client_id);
                tracing::warn!(client_id, cause, suppressed, "ended an absent session");
            }
            Notice::Moved { partition, to } => {
                tracing::info!(partition = partition.0, shard = to.0, "moved a partition");
            }
            Notice::Refused { client_id, topic, reason, detail } => {
                let Some(suppressed) = self.refused.allow(now) else { return };
                let (client_id, topic, reason) = (cut(client_id), cut(topic), reason.name());
                tracing::warn!(client_id, topic, reason, detail, suppressed, "refused a message");
            }
            Notice::ConditionLeftOut { client_id, topic, condition } => {
                let Some(suppressed) = self.left_out.allow(now) else { return };
                let (client_id, topic, condition) = (cut(client_id), cut(topic), cut(condition));
                tracing::warn!(client_id, topic, condition, suppressed, "left a condition out");
            }
            Notice::Dropped { client_id, topic, cause } => {
                let Some(suppressed) = self.dropped.allow(now) else { return };
                let (client_id, topic) = (cut(client_id), cut(topic));
                tracing::warn!(client_id, topic, cause, suppressed, "dropped a message");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(cut("meter"), "meter");
        assert_eq!(cut(&"\u{1}".repeat(65_535)).len(), SHOWN_BYTES_MAX);
        let name = "\u{20ac}".repeat(100);
        assert_eq!(cut(&name), "\u{20ac}".repeat(SHOWN_BYTES_MAX / 3));
    }
}
