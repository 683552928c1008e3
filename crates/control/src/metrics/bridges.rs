//! The families of bridges, which have the bridge's name as their label.

use super::family::{Family, Kind, family};
use super::{Metric, Point};
use crate::bridges::{Bridge, DROPPED};

/// What tells a number of a bridge from its others.
type Label = (&'static str, String);

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

/// What a bridge has of a family: each number with what tells it from the others.
type Numbers = Vec<(Option<Label>, u64)>;

/// All of them; without a bridge they have no numbers.
pub(super) fn metrics(bridges: &[Bridge]) -> Vec<Metric<'_>> {
    let each = |family, values: fn(&Bridge) -> Numbers| {
        let mut points = Vec::new();
        for bridge in bridges {
            for (label, value) in values(bridge) {
                let name = [("bridge", bridge.name.clone())];
                points.push(Point::of(name.into_iter().chain(label).collect(), value));
            }
        }
        Metric { family, points }
    };
    vec![
        each(&CONNECTED, |bridge| vec![(None, bridge.connected.into())]),
        each(&MESSAGES, |bridge| {
            let way = |way: &str| {
                (Some(("direction", way.to_owned())), bridge.count(&format!("messages_{way}")))
            };
            vec![way("in"), way("out")]
        }),
        each(&CONNECTS, |bridge| vec![(None, bridge.count("connects"))]),
        each(&FAILURES, |bridge| vec![(None, bridge.count("failures"))]),
        each(&DROPS, |bridge| {
            let drops = bridge.counters.iter().filter_map(|(name, count)| {
                let reason = name.strip_prefix(DROPPED)?;
                Some((Some(("reason", reason.to_owned())), *count))
            });
            drops.collect()
        }),
        each(&QUEUED_MESSAGES, |bridge| vec![(None, bridge.queued_messages)]),
        each(&QUEUED_BYTES, |bridge| vec![(None, bridge.queued_bytes)]),
    ]
}
