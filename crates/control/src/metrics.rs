//! Counters as text for Prometheus and whoever else reads OpenMetrics.
//!
//! No label has a client or a topic: how many series there are does not depend on clients.

mod bridges;
mod families;
mod mosquitto;

use crate::bridges::Bridge;
use crate::port::{Counters, Histogram};
use families::{FAMILIES, Family, Kind};
use std::collections::HashMap;
use std::fmt::Write;

/// Counters of clients that are connected, by version.
pub(crate) const CONNECTED: &[&str] = &["connected_v31", "connected_v311", "connected_v5"];

/// Text for scrapers, in one of two forms that differ in little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a header `Accept` asks for.
    pub(crate) fn accepted(header: &str) -> Self {
        match header.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What is said beside the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    /// Whether the numbers are there under Mosquitto's names as well.
    pub(crate) has_mosquitto_names: bool,
    /// How long the broker has been there.
    pub(crate) uptime_s: u64,
}

/// The counters of all shards, in order, and of bridges.
pub(crate) fn text(
    shards: &[Counters],
    of_bridges: &[Bridge],
    about: About,
    format: Format,
) -> String {
    let values: Vec<HashMap<&str, u64>> =
        shards.iter().map(|counters| counters.shard.iter().copied().collect()).collect();
    let process: HashMap<&str, u64> =
        shards.first().map(|first| first.process.iter().copied().collect()).unwrap_or_default();
    let mut out = String::new();
    for family in FAMILIES {
        let mut samples = String::new();
        if family.kind == Kind::Histogram {
            histograms(&mut samples, family, shards);
            describe(&mut out, family, &samples, format);
            continue;
        }
        for &(counter, labels) in family.samples {
            if let Some(&value) = process.get(counter) {
                sample(&mut samples, family, labels, value);
            }
            for (shard, values) in values.iter().enumerate() {
                if let Some(&value) = values.get(counter) {
                    let shard = format!("shard=\"{shard}\"");
                    let comma = if labels.is_empty() { "" } else { "," };
                    sample(&mut samples, family, &format!("{labels}{comma}{shard}"), value);
                }
            }
        }
        describe(&mut out, family, &samples, format);
    }
    refusals(&mut out, shards, format);
    bridges::add(&mut out, of_bridges, format);
    describe(&mut out, &families::BUILD, families::BUILD_SAMPLE, format);
    let uptime = format!("{} {}\n", families::UPTIME.name, about.uptime_s);
    describe(&mut out, &families::UPTIME, &uptime, format);
    if about.has_mosquitto_names {
        mosquitto::text(&mut out, shards, about.uptime_s, format);
    }
    if format == Format::OpenMetrics {
        out += "# EOF\n";
    }
    out
}

/// One sample: microseconds are told in seconds.
fn sample(out: &mut String, family: &Family, labels: &str, value: u64) {
    let name = family.sample_name();
    let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let written = match family.is_us {
        true => writeln!(out, "{name}{braces} {}.{:06}", value / 1_000_000, value % 1_000_000),
        false => writeln!(out, "{name}{braces} {value}"),
    };
    written.unwrap_or_default();
}

/// The samples of a histogram: how often it took at most so long, how often and how long in all.
fn histograms(out: &mut String, family: &Family, shards: &[Counters]) {
    let name = family.name;
    for (shard, counters) in shards.iter().enumerate() {
        let is_it = |of: &&Histogram| family.samples.iter().any(|sample| sample.0 == of.name);
        let Some(of) = counters.histograms.iter().find(is_it) else { continue };
        let mut count = 0;
        let bounds = of.bounds_us.iter().map(|&us| (us as f64 / 1e6).to_string());
        for (bound, counted) in bounds.chain(["+Inf".into()]).zip(&of.counts) {
            count += counted;
            let labels = format!("le=\"{bound}\",shard=\"{shard}\"");
            writeln!(out, "{name}_bucket{{{labels}}} {count}").unwrap_or_default();
        }
        let shard = format!("{{shard=\"{shard}\"}}");
        let sum = of.us_sum as f64 / 1e6;
        writeln!(out, "{name}_sum{shard} {sum}\n{name}_count{shard} {count}").unwrap_or_default();
    }
}

/// What a family is, and its samples; nothing if it has none.
fn describe(out: &mut String, family: &Family, samples: &str, format: Format) {
    if samples.is_empty() {
        return;
    }
    let name = match format {
        Format::Prometheus => family.sample_name(),
        Format::OpenMetrics => family.name.to_owned(),
    };
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    *out += &format!("# HELP {name} {}\n# TYPE {name} {kind}\n{samples}", family.help);
}

/// Every refusal by its reason code of MQTT 5.0.
fn refusals(out: &mut String, shards: &[Counters], format: Format) {
    let mut samples = String::new();
    for (shard, counters) in shards.iter().enumerate() {
        for (reason, count) in &counters.refusals {
            let labels = format!("reason=\"{reason}\",shard=\"{shard}\"");
            sample(&mut samples, &families::REFUSALS, &labels, *count);
        }
    }
    describe(out, &families::REFUSALS, &samples, format);
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let text = text(&counters(), &[bridge()], About::default(), Format::Prometheus);
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
        let text = text(&counters(), &[], About::default(), Format::OpenMetrics);
        assert!(text.contains("# TYPE weir_publishes_received counter\n"), "{text}");
        assert!(text.contains("weir_publishes_received_total{shard=\"0\"} 1\n"));
        assert!(text.ends_with("# EOF\n") && !text.contains("bridge"));
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
        assert!(
            !text(&counters(), &[], About::default(), Format::Prometheus).contains("\nbroker_")
        );
        let about = About { has_mosquitto_names: true, uptime_s: 12 };
        let text = text(&counters(), &[], about, Format::Prometheus);
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
        let all = FAMILIES.iter().chain([&families::REFUSALS, &families::BUILD, &families::UPTIME]);
        let of = |family: &Family| match family.kind {
            Kind::Histogram => ["bucket", "sum", "count"]
                .iter()
                .map(|part| format!("{}_{part}", family.name))
                .collect(),
            Kind::Counter | Kind::Gauge => vec![family.sample_name()],
        };
        all.flat_map(of).collect()
    }

    #[test]
    fn grafanas_dashboard_asks_for_metrics_that_there_are() {
        let file = include_str!("../../../packaging/grafana/weir.json");
        let board: Value = serde_json::from_str(file).unwrap();
        assert_eq!((&board["uid"], &board["schemaVersion"]), (&json!("weir-broker"), &json!(39)));
        let variables = board["templating"]["list"].as_array().unwrap();
        assert!(variables.iter().any(|it| it["type"] == "datasource"));
        let (known, mut ids, mut places) = (names(), BTreeSet::new(), BTreeSet::new());
        let mut asked = BTreeSet::new();
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
                let words = query.split(|at: char| !at.is_ascii_alphanumeric() && at != '_');
                asked.extend(words.filter(|word| word.starts_with("weir_")).map(str::to_owned));
            }
        }
        assert!(asked.len() > 25, "{asked:?}");
        assert_eq!(asked.difference(&known).collect::<Vec<_>>(), [""; 0]);
    }
}
