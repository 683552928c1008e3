//! The ranges of the numbers in a configuration: one table, for the check and for docs/broker.md.

use super::Config;
use std::fmt;

/// The numbers that a key may have where its type has others.
#[derive(Debug)]
pub struct Range {
    /// The key, with its table.
    pub key: &'static str,
    /// 0 is taken as well, and stands for something else.
    pub or_zero: bool,
    /// The lowest number.
    pub least: u64,
    /// The highest number, where it is not that of the type.
    pub most: Option<u64>,
    of: fn(&Config) -> u64,
}

/// Packets this long still fit the protocol when they are encoded again with more properties.
const PACKET_BYTES_MAX: u64 = 256 * 1024 * 1024 - 1024 * 1024;

/// More threads than any host has cores for.
pub(super) const SHARDS_MAX: u16 = 256;

/// A longer wait than this gains nothing more.
const LATENCY_BUDGET_MS_MAX: u64 = 1_000;

/// A longer rest than this gains nothing more.
const REST_US_MAX: u64 = 10_000;

/// Below this a connection's output could not hold what the reactor reports as drained.
const OUTPUT_BYTES_MIN: u64 = 64 * 1024;

/// Below this the broker would be at its ceiling without a client.
const MEMORY_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// A publisher that waits longer for an acknowledgement takes the broker for dead.
const GAP_MS_MAX: u64 = 1_000;

/// Smaller files cost more than they save.
const SEGMENT_BYTES_MIN: u64 = 1024 * 1024;

/// What the numbers in a file of the log have room for.
const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Whoever stops a broker does not wait longer.
const HANDOVER_S_MAX: u64 = 3_600;

/// Every key whose numbers its type does not bound.
pub const RANGES: &[Range] = &[
    up_to("shards", 0, SHARDS_MAX as u64, |config| config.shards.into()),
    up_to("latency_budget_ms", 0, LATENCY_BUDGET_MS_MAX, |config| config.latency_budget_ms.into()),
    up_to("rest_us", 0, REST_US_MAX, |config| config.rest_us.into()),
    up_to("limits.client_share_percent", 1, 100, |config| {
        config.limits.client_share_percent.into()
    }),
    up_to("cluster.replicas", 1, 3, |config| config.cluster.replicas.into()),
    from("limits.sessions_max", 1, |config| config.limits.sessions_max.into()),
    up_to("limits.packet_bytes_max", 16, PACKET_BYTES_MAX, |config| {
        config.limits.packet_bytes_max.into()
    }),
    from("limits.connect_timeout_s", 1, |config| config.limits.connect_timeout_s.into()),
    from("limits.client_id_bytes_max", 1, |config| config.limits.client_id_bytes_max.into()),
    from("limits.in_flight_max", 1, |config| config.limits.in_flight_max.into()),
    from("limits.receive_maximum", 1, |config| config.limits.receive_maximum.into()),
    from("limits.queue_messages_max", 1, |config| config.limits.queue_messages_max.into()),
    from("limits.output_bytes_max", OUTPUT_BYTES_MIN, |config| {
        config.limits.output_bytes_max as u64
    }),
    from("limits.topic_levels_max", 1, |config| config.limits.topic_levels_max.into()),
    from("limits.topic_bytes_max", 1, |config| config.limits.topic_bytes_max.into()),
    from("process.connections_max", 1, |config| config.process.connections_max.into()),
    from("process.ban_s", 1, |config| config.process.ban_s.into()),
    up_to("cluster.handover_s", 0, HANDOVER_S_MAX, |config| config.cluster.handover_s.into()),
    up_to("store.gap_ms", 0, GAP_MS_MAX, |config| config.store.gap_ms.into()),
    up_to("store.segment_bytes", SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX, |config| {
        config.store.segment_bytes.into()
    }),
    from("store.queue_messages_max", 1, |config| config.store.queue_messages_max),
    Range {
        or_zero: true,
        ..from("process.memory_bytes_max", MEMORY_BYTES_MIN, |config| {
            config.process.memory_bytes_max
        })
    },
];

const fn from(key: &'static str, least: u64, of: fn(&Config) -> u64) -> Range {
    Range { key, or_zero: false, least, most: None, of }
}

const fn up_to(key: &'static str, least: u64, most: u64, of: fn(&Config) -> u64) -> Range {
    Range { most: Some(most), ..from(key, least, of) }
}

impl Range {
    /// The number that a configuration has, if it is not one of these.
    pub(super) fn violation(&self, config: &Config) -> Option<u64> {
        let value = (self.of)(config);
        let is_in = self.or_zero && value == 0
            || value >= self.least && self.most.is_none_or(|most| value <= most);
        (!is_in).then_some(value)
    }
}

/// The numbers, as a message about one beside them has it.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zero = if self.or_zero { "0, or " } else { "" };
        match self.most {
            Some(most) => write!(f, "{zero}{} to {most}", self.least),
            None => write!(f, "{zero}at least {}", self.least),
        }
    }
}
