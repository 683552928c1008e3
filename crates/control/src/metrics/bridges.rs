//! The families of bridges, which have the bridge's name as their label.

use super::families::{Family, Kind, family};
use super::{Format, describe, sample};
use crate::bridges::{Bridge, DROPPED};

const CONNECTED: Family = family(
    "weir_bridge_connected",
    Kind::Gauge,
    "Whether the bridge relays messages at present.",
    &[],
);
const MESSAGES: Family = family(
    "weir_bridge_messages",
    Kind::Counter,
    "Messages relayed, by direction; those of QoS 1 once they are acknowledged.",
    &[],
);
const CONNECTS: Family = family(
    "weir_bridge_connects",
    Kind::Counter,
    "Times that the remote broker was connected to.",
    &[],
);
const FAILURES: Family = family(
    "weir_bridge_failures",
    Kind::Counter,
    "Connections to the remote broker, or tries to connect, that failed.",
    &[],
);
const DROPS: Family =
    family("weir_bridge_dropped", Kind::Counter, "Messages that were not relayed, by reason.", &[]);
const QUEUED_MESSAGES: Family = family(
    "weir_bridge_queued_messages",
    Kind::Gauge,
    "Messages that wait for the remote broker.",
    &[],
);
const QUEUED_BYTES: Family = family(
    "weir_bridge_queued_bytes",
    Kind::Gauge,
    "Payloads, topics and properties of the messages that wait for the remote broker.",
    &[],
);

/// Appends them.
pub(super) fn add(out: &mut String, bridges: &[Bridge], format: Format) {
    let mut each = |family: &Family, values: fn(&Bridge) -> Vec<(String, u64)>| {
        let mut samples = String::new();
        for bridge in bridges {
            let name = bridge.name.replace('\\', "\\\\").replace('"', "\\\"");
            for (label, value) in values(bridge) {
                sample(&mut samples, family, &format!("bridge=\"{name}\"{label}"), value);
            }
        }
        describe(out, family, &samples, format);
    };
    each(&CONNECTED, |bridge| vec![(String::new(), bridge.connected.into())]);
    each(&MESSAGES, |bridge| {
        let way =
            |way: &str| (format!(",direction=\"{way}\""), bridge.count(&format!("messages_{way}")));
        vec![way("in"), way("out")]
    });
    each(&CONNECTS, |bridge| vec![(String::new(), bridge.count("connects"))]);
    each(&FAILURES, |bridge| vec![(String::new(), bridge.count("failures"))]);
    each(&DROPS, |bridge| {
        let drops = bridge.counters.iter().filter_map(|(name, count)| {
            let reason = name.strip_prefix(DROPPED)?;
            Some((format!(",reason=\"{reason}\""), *count))
        });
        drops.collect()
    });
    each(&QUEUED_MESSAGES, |bridge| vec![(String::new(), bridge.queued_messages)]);
    each(&QUEUED_BYTES, |bridge| vec![(String::new(), bridge.queued_bytes)]);
}
