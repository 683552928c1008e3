//! Counters as metrics: what is told, and to whom as what.
//!
//! No label has a client or a topic: how many series there are does not depend on clients.

mod bridges;
mod cluster;
mod families;
mod family;
mod mosquitto;
#[cfg(feature = "otlp")]
mod otlp;
mod text;

use crate::bridges::Bridge;
use crate::cluster::Cluster;
use crate::port::{Counters, Histogram};
use families::FAMILIES;
use family::{Family, Kind};
#[cfg(feature = "otlp")]
pub(crate) use otlp::{Span, request};
use std::collections::HashMap;
pub(crate) use text::{Format, text};

/// Counters of clients that are connected, by version.
pub(crate) const CONNECTED: &[&str] = &["connected_v31", "connected_v311", "connected_v5"];

/// What is said beside the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    /// Whether the numbers are there under Mosquitto's names as well.
    pub(crate) has_mosquitto_names: bool,
    /// How long the broker has been there.
    pub(crate) uptime_s: u64,
    /// How often these were sent to a collector, and how often that failed, where there is one.
    pub(crate) pushes: Option<[u64; 2]>,
}

/// All that metrics tell of.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// The counters of all shards, in order.
    pub(crate) shards: Vec<Counters>,
    pub(crate) bridges: Vec<Bridge>,
    /// If the broker is a node of one.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) about: About,
}

/// A family as it is now.
struct Metric<'a> {
    family: &'static Family,
    points: Vec<Point<'a>>,
}

/// One of its numbers, and what tells it from the others.
struct Point<'a> {
    labels: Vec<(&'a str, String)>,
    value: Number<'a>,
}

enum Number<'a> {
    /// Microseconds if the family's are.
    Of(u64),
    Times(&'a Histogram),
}

impl<'a> Metric<'a> {
    fn of(family: &'static Family, value: u64) -> Self {
        Self { family, points: vec![Point::of(Vec::new(), value)] }
    }
}

impl<'a> Point<'a> {
    fn of(labels: Vec<(&'a str, String)>, value: u64) -> Self {
        Self { labels, value: Number::Of(value) }
    }
}

/// All of them. A family may have no number.
fn metrics(Measured { shards, bridges, cluster, about }: &Measured) -> Vec<Metric<'_>> {
    let values: Vec<HashMap<&str, u64>> =
        shards.iter().map(|counters| counters.shard.iter().copied().collect()).collect();
    let process: HashMap<&str, u64> =
        shards.first().map(|first| first.process.iter().copied().collect()).unwrap_or_default();
    let mut all = Vec::new();
    for family in FAMILIES {
        let mut points = Vec::new();
        for (counter, labels) in family.samples {
            if family.kind == Kind::Histogram {
                points.extend(histograms(counter, shards));
            }
            if let Some(&value) = process.get(counter) {
                points.push(Point::of(split(labels), value));
            }
            for (shard, values) in values.iter().enumerate() {
                if let Some(&value) = values.get(counter) {
                    points.push(Point::of(with_shard(split(labels), shard), value));
                }
            }
        }
        all.push(Metric { family, points });
    }
    all.push(Metric { family: &families::REFUSALS, points: refusals(shards) });
    all.extend(bridges::metrics(bridges));
    all.extend(cluster.iter().flat_map(cluster::metrics));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    all.push(Metric { family: &families::BUILD, points: vec![Point::of(version, 1)] });
    all.push(Metric::of(&families::UPTIME, about.uptime_s));
    if let Some([pushed, failed]) = about.pushes {
        let point = |result: &str, count| Point::of(vec![("result", result.into())], count);
        let points = vec![point("pushed", pushed), point("failed", failed)];
        all.push(Metric { family: &families::PUSHES, points });
    }
    all
}

/// Labels as the table has them: `a="b",c="d"`.
fn split(labels: &'static str) -> Vec<(&'static str, String)> {
    let label = |text: &'static str| {
        let (name, value) = text.split_once('=')?;
        Some((name, value.trim_matches('"').to_owned()))
    };
    labels.split(',').filter_map(label).collect()
}

fn with_shard(mut labels: Vec<(&str, String)>, shard: usize) -> Vec<(&str, String)> {
    labels.push(("shard", shard.to_string()));
    labels
}

fn histograms<'a>(name: &str, shards: &'a [Counters]) -> Vec<Point<'a>> {
    let of_shard = |(shard, counters): (usize, &'a Counters)| {
        let of = counters.histograms.iter().find(|of| of.name == name)?;
        Some(Point { labels: with_shard(Vec::new(), shard), value: Number::Times(of) })
    };
    shards.iter().enumerate().filter_map(of_shard).collect()
}

/// Every refusal by its reason code of MQTT 5.0.
fn refusals(shards: &[Counters]) -> Vec<Point<'_>> {
    let mut points = Vec::new();
    for (shard, counters) in shards.iter().enumerate() {
        for &(reason, count) in &counters.refusals {
            let labels = with_shard(vec![("reason", reason.to_owned())], shard);
            points.push(Point::of(labels, count));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{
        ClusterLink, ClusterNode, KeptCopies, NodeCopy, NodeCopyState, NodeState, OwnCopy,
        OwnCopyState,
    };
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn counters() -> Vec<Counters> {
        let shard = |publishes| Counters {
            shard: vec![
                ("publishes_in", publishes),
                ("dropped_expired", 3),
                ("dropped_queue_full", 4),
                ("store_commit_us_max", 1_500_000),
            ],
            refusals: vec![("not authorized", 2)],
            process: vec![("rss_bytes", 77)],
            histograms: vec![Histogram {
                name: "latency",
                bounds_us: &[50, 1_000],
                counts: vec![3, 2, 1],
                us_sum: 4_500,
            }],
        };
        vec![shard(1), shard(2)]
    }

    pub(super) fn of_shards() -> Measured {
        Measured { shards: counters(), ..Measured::default() }
    }

    fn bridge() -> Bridge {
        let counters = [("messages_out", 5), ("dropped_hops", 6)];
        Bridge {
            name: "a \"b\"".into(),
            connected: true,
            queued_messages: 7,
            counters: counters.into_iter().map(|(name, count)| (name.into(), count)).collect(),
            ..Bridge::default()
        }
    }

    #[test]
    fn samples_stand_under_their_family_once_for_each_shard() {
        let measured = Measured { bridges: vec![bridge()], ..of_shards() };
        let text = text(&measured, Format::Prometheus);
        for part in [
            "# TYPE weir_publishes_received_total counter\n\
             weir_publishes_received_total{shard=\"0\"} 1\n\
             weir_publishes_received_total{shard=\"1\"} 2\n",
            "weir_dropped_total{reason=\"queue_full\",shard=\"1\"} 4\n",
            "# TYPE weir_store_commit_seconds_max gauge\n\
             weir_store_commit_seconds_max{shard=\"0\"} 1.500000\n",
            "# TYPE weir_memory_resident_bytes gauge\nweir_memory_resident_bytes 77\n",
            "# TYPE weir_latency_seconds histogram\n\
             weir_latency_seconds_bucket{le=\"0.00005\",shard=\"0\"} 3\n\
             weir_latency_seconds_bucket{le=\"0.001\",shard=\"0\"} 5\n\
             weir_latency_seconds_bucket{le=\"+Inf\",shard=\"0\"} 6\n\
             weir_latency_seconds_sum{shard=\"0\"} 0.0045\n\
             weir_latency_seconds_count{shard=\"0\"} 6\n",
            "weir_refusals_total{reason=\"not authorized\",shard=\"0\"} 2\n",
            "# TYPE weir_bridge_connected gauge\nweir_bridge_connected{bridge=\"a \\\"b\\\"\"} 1\n",
            "weir_bridge_messages_total{bridge=\"a \\\"b\\\"\",direction=\"out\"} 5\n",
            "weir_bridge_dropped_total{bridge=\"a \\\"b\\\"\",reason=\"hops\"} 6\n",
            "weir_bridge_queued_messages{bridge=\"a \\\"b\\\"\"} 7\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
        assert_eq!(text.matches("# TYPE weir_dropped_total").count(), 1);
        assert!(!text.contains("EOF"));
    }

    #[test]
    fn open_metrics_names_the_family_without_its_suffix_and_ends() {
        let text = text(&of_shards(), Format::OpenMetrics);
        assert!(text.contains("# TYPE weir_publishes_received counter\n"), "{text}");
        assert!(text.contains("weir_publishes_received_total{shard=\"0\"} 1\n"));
        assert!(text.ends_with("# EOF\n") && !text.contains("bridge"));
        assert!(!text.contains("cluster"));
    }

    fn node(name: &str, state: NodeState) -> ClusterNode {
        ClusterNode {
            name: name.into(),
            slot: 0,
            first_shard: 0,
            shards: 2,
            state,
            state_s: 9,
            address: None,
            unresolved: None,
            incarnation: None,
            letters: None,
            copy: None,
            link: None,
        }
    }

    #[test]
    fn nodes_of_a_cluster_are_told_by_name_and_links_of_members_only() {
        let node = |name, state, link| ClusterNode { link, ..node(name, state) };
        let link = ClusterLink { waiting_letters: 3, letters_out: 5, dropped: 7, ..<_>::default() };
        let nodes = vec![
            node("a", NodeState::Own, None),
            node("b", NodeState::Up, Some(link)),
            node("c", NodeState::Away, None),
        ];
        let (fenced, minority) = (true, true);
        let cluster =
            Cluster { nodes, lease_ms: 4_500, fenced, minority, unaddressed: 11, ..<_>::default() };
        let measured = Measured { cluster: Some(cluster), ..of_shards() };
        let text = text(&measured, Format::Prometheus);
        for part in [
            "# TYPE weir_cluster_members gauge\nweir_cluster_members 2\n",
            "weir_cluster_fenced 1\n",
            "weir_cluster_minority 1\n",
            "weir_cluster_lease_seconds 4.500000\n",
            "# TYPE weir_cluster_fences_total counter\nweir_cluster_fences_total 0\n",
            "weir_cluster_unaddressed_letters_total 11\n",
            "weir_cluster_node_up{node=\"a\"} 1\nweir_cluster_node_up{node=\"b\"} 1\n\
             weir_cluster_node_up{node=\"c\"} 0\n",
            "gauge\nweir_cluster_link_waiting_letters{node=\"b\"} 3\n#",
            "weir_cluster_link_letters_total{node=\"b\",direction=\"out\"} 5\n",
            "weir_cluster_link_dropped_total{node=\"b\",reason=\"link_full\"} 7\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
    }

    #[test]
    fn copies_are_told_of_where_there_are_some() {
        let node = |name, state, copy| ClusterNode { copy, ..node(name, state) };
        let copy = |keepers: &[&str], state| {
            let keepers = keepers.iter().map(|&keeper| keeper.to_owned()).collect();
            Some(NodeCopy { keepers, state })
        };
        let nodes = vec![
            node("a", NodeState::Own, copy(&["b", "d"], NodeCopyState::Kept)),
            node("b", NodeState::Up, copy(&[], NodeCopyState::Kept)),
            node("c", NodeState::StandIn, copy(&["a"], NodeCopyState::Opened)),
            node("d", NodeState::Up, None),
        ];
        let own = OwnCopy {
            state: OwnCopyState::Whole,
            keeper: Some("b".into()),
            waiting_records: 7,
            ..OwnCopy::default()
        };
        let none = OwnCopy::default();
        let kept = KeptCopies { logs: 2, disk_bytes: 99, opened: 1, failed: 0 };
        let mut cluster =
            Cluster { nodes, copies: vec![own.clone(), none], kept: Some(kept), ..<_>::default() };
        let told = |cluster: &Cluster| {
            let measured = Measured { cluster: Some(cluster.clone()), ..of_shards() };
            text(&measured, Format::Prometheus)
        };
        let all = told(&cluster);
        for part in [
            "weir_cluster_members 3\n",
            "weir_cluster_node_up{node=\"c\"} 0\n",
            "weir_cluster_copied 1\n",
            "weir_cluster_copies_wanted 2\n",
            "gauge\nweir_cluster_copy_waiting_records{node=\"b\"} 7\n#",
            "weir_cluster_copies_failed_total 0\n",
            "weir_cluster_kept_copies 2\n",
            "weir_cluster_kept_copies_disk_bytes 99\n",
            "weir_cluster_copies_opened_total 1\n",
            "weir_cluster_copies_unserved_total 0\n",
            "gauge\nweir_cluster_node_copied{node=\"a\"} 2\n\
             weir_cluster_node_copied{node=\"b\"} 0\n#",
        ] {
            assert!(all.contains(part), "{part}\nis not in\n{all}");
        }
        cluster.copies = vec![own.clone(), own.clone()];
        let each = "gauge\nweir_cluster_copy_waiting_records{node=\"b\"} 14\n#";
        assert!(told(&cluster).contains(each), "one line for a node: {}", told(&cluster));
        cluster.copies = vec![OwnCopy { state: OwnCopyState::Ending, ..own }];
        assert!(told(&cluster).contains("weir_cluster_copied 0\n"));
        (cluster.copies, cluster.kept, cluster.nodes) = (Vec::new(), None, Vec::new());
        assert!(!told(&cluster).contains("cop"), "{}", told(&cluster));
    }

    #[test]
    fn every_family_has_a_name_and_a_sentence_of_its_own() {
        let mut names: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        let mut counters: Vec<_> =
            FAMILIES.iter().flat_map(|family| family.samples).map(|sample| sample.0).collect();
        counters.sort_unstable();
        assert!(counters.windows(2).all(|two| two[0] != two[1]), "{counters:?}");
        for family in FAMILIES {
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
        }
    }

    #[test]
    fn mosquittos_names_are_there_if_they_are_wanted() {
        assert!(!text(&of_shards(), Format::Prometheus).contains("\nbroker_"));
        let about = About { has_mosquitto_names: true, uptime_s: 12, pushes: None };
        let text = text(&Measured { about, ..of_shards() }, Format::Prometheus);
        for part in [
            "\nbroker_messages_received 3\n",
            "\nbroker_publish_messages_dropped 8\n",
            "\nbroker_clients_connected 0\n",
            "\nbroker_heap_current_size 77\n",
            "\nbroker_uptime 12\n",
        ] {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
    }

    /// Every name of a sample that there can be.
    fn names() -> BTreeSet<String> {
        let all = FAMILIES.iter().chain([
            &families::REFUSALS,
            &families::BUILD,
            &families::UPTIME,
            &families::PUSHES,
        ]);
        let of = |family: &Family| match family.kind {
            Kind::Histogram => ["bucket", "sum", "count"]
                .iter()
                .map(|part| format!("{}_{part}", family.name))
                .collect(),
            Kind::Counter | Kind::Gauge => vec![family.sample_name()],
        };
        all.chain(cluster::FAMILIES.iter().copied()).flat_map(of).collect()
    }

    fn asked(query: &str) -> impl Iterator<Item = String> {
        let words = query.split(|at: char| !at.is_ascii_alphanumeric() && at != '_');
        words.filter(|word| word.starts_with("weir_")).map(str::to_owned)
    }

    #[test]
    fn alerts_and_the_page_of_clusters_name_metrics_that_there_are() {
        let known = names();
        let rules = include_str!("../../../packaging/prometheus/weir.rules.yml");
        let page = include_str!("../../../docs/cluster.md");
        let named: BTreeSet<String> = asked(rules).collect();
        assert!(named.len() > 3, "{named:?}");
        assert_eq!(named.difference(&known).collect::<Vec<_>>(), [""; 0]);
        let named: BTreeSet<String> = asked(page).collect();
        assert_eq!(named.difference(&known).collect::<Vec<_>>(), [""; 0]);
        let of_cluster = cluster::FAMILIES.iter().map(|family| family.sample_name());
        let missing: Vec<_> = of_cluster.filter(|name| !named.contains(name)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn grafanas_dashboard_asks_for_metrics_that_there_are() {
        let file = include_str!("../../../packaging/grafana/weir.json");
        let board: Value = serde_json::from_str(file).unwrap();
        assert_eq!((&board["uid"], &board["schemaVersion"]), (&json!("weir-broker"), &json!(39)));
        let variables = board["templating"]["list"].as_array().unwrap();
        assert!(variables.iter().any(|it| it["type"] == "datasource"));
        let (known, mut ids, mut places) = (names(), BTreeSet::new(), BTreeSet::new());
        let mut all_asked = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(x < 24 && places.insert((x, y)), "{panel} covers another");
                }
            }
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap();
                all_asked.extend(asked(query));
            }
        }
        assert!(all_asked.len() > 25, "{all_asked:?}");
        assert_eq!(all_asked.difference(&known).collect::<Vec<_>>(), [""; 0]);
    }
}
