//! The same numbers under the names that sapcc/mosquitto-exporter gives those of Mosquitto's `$SYS`
//! topics, for dashboards and alerts that have these.
//!
//! They have no type: the names of counters do not end as those of a counter have to.

use super::CONNECTED;
use crate::port::Counters;
use std::collections::HashMap;
use std::fmt::Write;

/// A name, what it means here, and the counters whose sum it is; those in the last list are taken
/// away.
type Alias = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const ALIASES: &[Alias] = &[
    ("broker_bytes_received", "Bytes received.", &["bytes_in"], &[]),
    ("broker_bytes_sent", "Bytes sent.", &["bytes_out"], &[]),
    ("broker_messages_received", "PUBLISH packets received.", &["publishes_in"], &[]),
    ("broker_messages_sent", "PUBLISH packets sent.", &["publishes_out"], &[]),
    ("broker_publish_messages_received", "PUBLISH packets received.", &["publishes_in"], &[]),
    ("broker_publish_messages_sent", "PUBLISH packets sent.", &["publishes_out"], &[]),
    (
        "broker_publish_messages_dropped",
        "Messages that a subscriber did not get for a full queue or output.",
        &["dropped_output_full", "dropped_queue_full"],
        &[],
    ),
    ("broker_clients_connected", "Clients that are connected.", CONNECTED, &[]),
    ("broker_clients_disconnected", "Sessions of absent clients.", &["sessions"], CONNECTED),
    ("broker_clients_total", "Sessions.", &["sessions"], &[]),
    ("broker_subscriptions_count", "Subscriptions.", &["subscriptions"], &[]),
    ("broker_retained_messages_count", "Retained messages.", &["retained"], &[]),
    ("broker_heap_current_size", "Resident memory in bytes.", &["rss_bytes"], &[]),
];

/// `kind` is what the form calls a metric of no type.
pub(super) fn text(out: &mut String, shards: &[Counters], uptime_s: u64, kind: &str) {
    let mut sums: HashMap<&str, u64> = HashMap::new();
    let process = shards.iter().take(1).flat_map(|counters| &counters.process);
    for &(name, count) in shards.iter().flat_map(|counters| &counters.shard).chain(process) {
        *sums.entry(name).or_default() += count;
    }
    let sum = |names: &[&str]| names.iter().filter_map(|name| sums.get(name)).sum::<u64>();
    let mut alias = |name: &str, help: &str, value: u64| {
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .unwrap_or_default();
    };
    for (name, help, all, without) in ALIASES {
        alias(name, help, sum(all).saturating_sub(sum(without)));
    }
    alias("broker_uptime", "Seconds since the broker has started.", uptime_s);
}
