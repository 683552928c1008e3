//! The families of a cluster, as one of its nodes sees it. Those of other nodes, and of the links
//! with them, have the node's name as their label.

use super::family::{Family, Kind, family, family_of_us};
use super::{Metric, Point};
use crate::cluster::{Cluster, ClusterLink, ClusterNode, NodeState};

const MEMBERS: Family =
    family("weir_cluster_members", Kind::Gauge, "Nodes that are members, this one too.", &[]);
const NODE_UP: Family = family(
    "weir_cluster_node_up",
    Kind::Gauge,
    "Whether letters pass to and from the node; 0 also for one that is away and has a place.",
    &[],
);
const FENCED: Family = family(
    "weir_cluster_fenced",
    Kind::Gauge,
    "Whether this node may not act, so that it lets nobody in.",
    &[],
);
const LEASE: Family = family_of_us(
    "weir_cluster_lease_seconds",
    Kind::Gauge,
    "Until this node may not act, unless its lease is renewed before.",
    &[],
);
const FENCES: Family =
    family("weir_cluster_fences", Kind::Counter, "Times that this node was fenced.", &[]);
const LOST: Family = family(
    "weir_cluster_nodes_lost",
    Kind::Counter,
    "Times that another node was lost, also by being stopped.",
    &[],
);
const UNADDRESSED: Family = family(
    "weir_cluster_unaddressed_letters",
    Kind::Counter,
    "Letters that were dropped because no member has the shard that they are for.",
    &[],
);
const WAITING_LETTERS: Family = family(
    "weir_cluster_link_waiting_letters",
    Kind::Gauge,
    "Letters for the node that it has not acknowledged.",
    &[],
);
const WAITING_BYTES: Family = family(
    "weir_cluster_link_waiting_bytes",
    Kind::Gauge,
    "Bytes of letters for the node that it has not acknowledged.",
    &[],
);
const LETTERS: Family = family(
    "weir_cluster_link_letters",
    Kind::Counter,
    "Letters between this node and the other, by direction, each once.",
    &[],
);
const BYTES: Family = family(
    "weir_cluster_link_bytes",
    Kind::Counter,
    "Bytes between this node and the other, by direction.",
    &[],
);
const RESENT: Family = family(
    "weir_cluster_link_resent",
    Kind::Counter,
    "Letters that were sent to the node again on another connection.",
    &[],
);
const DOUBLES: Family = family(
    "weir_cluster_link_doubles",
    Kind::Counter,
    "Letters that came from the node again, and were passed over.",
    &[],
);
const DROPPED: Family = family(
    "weir_cluster_link_dropped",
    Kind::Counter,
    "Letters for the node that were dropped, by reason.",
    &[],
);
const RESETS: Family = family(
    "weir_cluster_link_resets",
    Kind::Counter,
    "Times that all that waited was dropped because the node was started anew.",
    &[],
);

/// Every one.
#[cfg(test)]
pub(super) const FAMILIES: &[&Family] = &[
    &MEMBERS,
    &NODE_UP,
    &FENCED,
    &LEASE,
    &FENCES,
    &LOST,
    &UNADDRESSED,
    &WAITING_LETTERS,
    &WAITING_BYTES,
    &LETTERS,
    &BYTES,
    &RESENT,
    &DOUBLES,
    &DROPPED,
    &RESETS,
];

/// What a link has of a family: each number with what tells it from the others.
type Numbers = Vec<(Option<(&'static str, String)>, u64)>;

/// All of them.
pub(super) fn metrics(cluster: &Cluster) -> Vec<Metric<'_>> {
    let members = cluster.nodes.iter().filter(|node| node.state != NodeState::Away).count();
    let named = |node: &ClusterNode| ("node", node.name.clone());
    let nodes = |family, value: fn(&ClusterNode) -> u64| {
        let point = |node| Point::of(vec![named(node)], value(node));
        Metric { family, points: cluster.nodes.iter().map(point).collect() }
    };
    let links = |family, values: fn(&ClusterLink) -> Numbers| {
        let of_node = |node: &ClusterNode| {
            let numbers = node.link.as_ref().map(values).unwrap_or_default();
            let name = named(node);
            numbers.into_iter().map(move |(label, value)| {
                Point::of([name.clone()].into_iter().chain(label).collect(), value)
            })
        };
        Metric { family, points: cluster.nodes.iter().flat_map(of_node).collect() }
    };
    vec![
        Metric::of(&MEMBERS, members as u64),
        Metric::of(&FENCED, cluster.fenced.into()),
        Metric::of(&LEASE, cluster.lease_ms.saturating_mul(1_000)),
        Metric::of(&FENCES, cluster.fences),
        Metric::of(&LOST, cluster.nodes_lost),
        Metric::of(&UNADDRESSED, cluster.unaddressed),
        nodes(&NODE_UP, |node| node.is_up().into()),
        links(&WAITING_LETTERS, |link| vec![(None, link.waiting_letters)]),
        links(&WAITING_BYTES, |link| vec![(None, link.waiting_bytes)]),
        links(&LETTERS, |link| ways(link.letters_in, link.letters_out)),
        links(&BYTES, |link| ways(link.bytes_in, link.bytes_out)),
        links(&RESENT, |link| vec![(None, link.resent)]),
        links(&DOUBLES, |link| vec![(None, link.doubles)]),
        links(&DROPPED, |link| {
            let of = |reason: &str, count| (Some(("reason", reason.to_owned())), count);
            vec![of("link_full", link.dropped), of("too_long", link.too_long)]
        }),
        links(&RESETS, |link| vec![(None, link.resets)]),
    ]
}

fn ways(inward: u64, outward: u64) -> Numbers {
    let way = |way: &str, count| (Some(("direction", way.to_owned())), count);
    vec![way("in", inward), way("out", outward)]
}
