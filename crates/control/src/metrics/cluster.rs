//! The families of a cluster, as one of its nodes sees it. Those of other nodes, and of the links
//! with them, have the node's name as their label.

use super::family::{Family, Kind, family, family_of_us};
use super::{Metric, Point};
use crate::cluster::{
    Cluster, ClusterLink, ClusterNode, KeptCopies, NodeCopy, NodeCopyState, OwnCopy, OwnCopyState,
};
use std::collections::BTreeMap;

const MEMBERS: Family =
    family("weir_cluster_members", Kind::Gauge, "Nodes that are members, this one too.", &[]);
const NODE_UP: Family = family(
    "weir_cluster_node_up",
    Kind::Gauge,
    "Whether letters pass to and from the node; 0 also for one that is away or stood in for.",
    &[],
);
const FENCED: Family = family(
    "weir_cluster_fenced",
    Kind::Gauge,
    "Whether this node may not act, so that it lets nobody in.",
    &[],
);
const MINORITY: Family = family(
    "weir_cluster_minority",
    Kind::Gauge,
    "Whether this node may not act, and serves clients without a kept session by itself.",
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
const COPIED: Family = family(
    "weir_cluster_copied",
    Kind::Gauge,
    "Other nodes that have a whole copy of this node's log.",
    &[],
);
const COPIES_WANTED: Family = family(
    "weir_cluster_copies_wanted",
    Kind::Gauge,
    "Other nodes that are to have a copy of this node's log: cluster.replicas less one.",
    &[],
);
const COPY_RECORDS: Family = family(
    "weir_cluster_copy_waiting_records",
    Kind::Gauge,
    "Records on their way to the disk of a node that has, or gets, a copy of this node's log.",
    &[],
);
const COPY_BYTES: Family = family(
    "weir_cluster_copy_waiting_bytes",
    Kind::Gauge,
    "Bytes of records on their way to the disk of a node that has, or gets, a copy of this node's \
     log.",
    &[],
);
const COPIES_FAILED: Family = family(
    "weir_cluster_copies_failed",
    Kind::Counter,
    "Times that a copy of this node's log could not go on: the other node's disk took no more, or \
     it was silent while another was not.",
    &[],
);
const KEPT: Family = family(
    "weir_cluster_kept_copies",
    Kind::Gauge,
    "Logs of other nodes' shards that this node takes copies of.",
    &[],
);
const KEPT_BYTES: Family = family(
    "weir_cluster_kept_copies_disk_bytes",
    Kind::Gauge,
    "What copies of other nodes' logs take on this node's disk.",
    &[],
);
const OPENED: Family = family(
    "weir_cluster_copies_opened",
    Kind::Counter,
    "Times that this node has opened a lost node's copy, to serve that node's sessions.",
    &[],
);
const UNSERVED: Family = family(
    "weir_cluster_copies_unserved",
    Kind::Counter,
    "Times that this node could not serve the sessions of a lost node whose copy it has opened.",
    &[],
);
const NODE_COPIED: Family = family(
    "weir_cluster_node_copied",
    Kind::Gauge,
    "Nodes that have a whole copy of the node's log; nothing of one that wants none, or whose copy \
     was opened.",
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
    &MINORITY,
    &LEASE,
    &FENCES,
    &LOST,
    &UNADDRESSED,
    &COPIED,
    &COPIES_WANTED,
    &COPY_RECORDS,
    &COPY_BYTES,
    &COPIES_FAILED,
    &KEPT,
    &KEPT_BYTES,
    &OPENED,
    &UNSERVED,
    &NODE_COPIED,
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
    let mut all = vec![
        Metric::of(&MEMBERS, cluster.members() as u64),
        Metric::of(&FENCED, cluster.fenced.into()),
        Metric::of(&MINORITY, cluster.minority.into()),
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
    ];
    all.extend(of_copies(cluster));
    all
}

/// Those of copies of logs; none where there are no copies.
fn of_copies(Cluster { copies, copies_failed, kept, nodes, .. }: &Cluster) -> Vec<Metric<'_>> {
    let own = |family, value: u64| {
        let point = (!copies.is_empty()).then(|| Point::of(Vec::new(), value));
        Metric { family, points: point.into_iter().collect() }
    };
    let each = |family, value: fn(&OwnCopy) -> u64| {
        // A node that was started anew may get one while that of before is ending.
        let mut by_keeper = BTreeMap::<&str, u64>::new();
        for (keeper, copy) in copies.iter().filter_map(|copy| Some((copy.keeper.as_ref()?, copy))) {
            *by_keeper.entry(keeper).or_default() += value(copy);
        }
        let point = |(keeper, value): (&str, u64)| Point::of(vec![("node", keeper.into())], value);
        Metric { family, points: by_keeper.into_iter().map(point).collect() }
    };
    let kept = |family, value: fn(&KeptCopies) -> u64| Metric {
        family,
        points: kept.iter().map(|kept| Point::of(Vec::new(), value(kept))).collect(),
    };
    let copied = |node: &ClusterNode| {
        let NodeCopy { keepers, state } = node.copy.as_ref()?;
        let count = match state {
            NodeCopyState::Void => return None,
            NodeCopyState::Opened if !keepers.is_empty() => return None,
            NodeCopyState::Kept | NodeCopyState::Opened => keepers.len() as u64,
        };
        Some(Point::of(vec![("node", node.name.clone())], count))
    };
    let whole = copies.iter().filter(|copy| copy.state == OwnCopyState::Whole).count();
    vec![
        own(&COPIED, whole as u64),
        own(&COPIES_WANTED, copies.len() as u64),
        each(&COPY_RECORDS, |copy| copy.waiting_records),
        each(&COPY_BYTES, |copy| copy.waiting_bytes),
        own(&COPIES_FAILED, *copies_failed),
        kept(&KEPT, |kept| kept.logs),
        kept(&KEPT_BYTES, |kept| kept.disk_bytes),
        kept(&OPENED, |kept| kept.opened),
        kept(&UNSERVED, |kept| kept.failed),
        Metric { family: &NODE_COPIED, points: nodes.iter().filter_map(copied).collect() },
    ]
}

fn ways(inward: u64, outward: u64) -> Numbers {
    let way = |way: &str, count| (Some(("direction", way.to_owned())), count);
    vec![way("in", inward), way("out", outward)]
}
