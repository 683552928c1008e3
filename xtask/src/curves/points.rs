//! What grows in each curve, and the use case of each point.

/// One thing that grows.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// What stays.
    pub(super) about: &'static str,
    pub(super) sweep: Sweep,
}

/// How a curve is measured.
pub(super) enum Sweep {
    /// In the core alone, at these counts.
    Core(&'static [u64]),
    /// Through a broker.
    Broker(fn() -> Vec<Point>),
}

/// A use case of a curve.
pub(crate) struct Point {
    pub(crate) name: String,
    /// The value of what grows.
    pub(crate) shown: String,
    pub(crate) connections: u64,
    /// Of the use case's file.
    pub(crate) text: String,
}

/// All of them.
pub(super) const CURVES: &[Curve] = &[
    Curve {
        name: "subscribers",
        about: "Fan-out at QoS 1, 16 bytes: 50,000 deliveries/s from ever fewer messages.",
        sweep: Sweep::Broker(subscribers),
    },
    Curve {
        name: "connections",
        about: "Pairs of a publisher and a subscriber at QoS 1, 16 bytes: 10,000/s in total.",
        sweep: Sweep::Broker(connections),
    },
    Curve {
        name: "payload",
        about: "100 pairs at QoS 1, 5,000/s, or the rate that makes 50 MB/s.",
        sweep: Sweep::Broker(payload),
    },
    Curve {
        name: "filters",
        about: "In the core: messages to 300,000 topics; 30 % of the filters have wildcards.",
        sweep: Sweep::Core(&[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]),
    },
    Curve {
        name: "topics",
        about: "In the core: messages to that many topics at random, each with one exact filter.",
        sweep: Sweep::Core(&[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]),
    },
];

const DELIVERIES_PER_S: u64 = 50_000;
const PAIRS_PER_S: u64 = 10_000;
const PAYLOAD_PAIRS: u64 = 100;
const PAYLOAD_PER_S: u64 = 5_000;
const PAYLOAD_BYTES_PER_S: u64 = 50_000_000;

/// The largest is a little below 1 MiB: some brokers take packets of that size unless told
/// otherwise, and the payload is not all of it.
const PAYLOADS: [u64; 9] = [16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576 - 64];

fn subscribers() -> Vec<Point> {
    let point = |&subscribers: &u64| {
        let rate = DELIVERIES_PER_S as f64 / subscribers as f64;
        let shown = subscribers.to_string();
        fan_out(format!("subscribers-{subscribers}"), shown, subscribers, rate)
    };
    [10, 30, 100, 300, 1_000, 3_000, 10_000].iter().map(point).collect()
}

fn connections() -> Vec<Point> {
    let point = |&connections: &u64| {
        let pairs = connections / 2;
        let rate = PAIRS_PER_S as f64 / pairs as f64;
        pairs_of(format!("connections-{connections}"), connections.to_string(), pairs, 16, rate)
    };
    [1_000, 3_000, 10_000, 30_000, 100_000].iter().map(point).collect()
}

fn payload() -> Vec<Point> {
    let point = |&bytes: &u64| {
        let per_s = PAYLOAD_PER_S.min(PAYLOAD_BYTES_PER_S / bytes);
        let rate = per_s as f64 / PAYLOAD_PAIRS as f64;
        pairs_of(format!("payload-{bytes}"), format!("{bytes} B"), PAYLOAD_PAIRS, bytes, rate)
    };
    PAYLOADS.iter().map(point).collect()
}

/// One publisher, everybody subscribes.
fn fan_out(name: String, shown: String, subscribers: u64, rate: f64) -> Point {
    let groups = subscriber(subscribers, "test/0") + &publisher(1, "test/0", rate, 16);
    Point { text: use_case(&name, &groups), name, shown, connections: subscribers + 1 }
}

/// Pairs, each with a topic of its own.
pub(crate) fn pairs_of(name: String, shown: String, pairs: u64, bytes: u64, rate: f64) -> Point {
    let groups = subscriber(pairs, "test/{i}") + &publisher(pairs, "test/{i}", rate, bytes);
    Point { text: use_case(&name, &groups), name, shown, connections: 2 * pairs }
}

fn subscriber(clients: u64, filter: &str) -> String {
    let does = format!("subscriptions = [{{ filter = \"{filter}\", qos = 1 }}]");
    group("subscriber", clients, &does)
}

fn publisher(clients: u64, topic: &str, rate: f64, bytes: u64) -> String {
    let does = format!(
        "publish = {{ topic = \"{topic}\", qos = 1, rate_per_s = {rate:?}, \
         payload_bytes = {bytes} }}"
    );
    group("publisher", clients, &does)
}

fn use_case(name: &str, groups: &str) -> String {
    format!(
        "name = \"{name}\"\nrevision = 1\nabout = \"a point of a curve\"\n\
         mqtt_version = \"3.1.1\"\nconnect_rate_per_s = 5000\n{groups}"
    )
}

fn group(name: &str, clients: u64, does: &str) -> String {
    format!(
        "\n[[group]]\nname = \"{name}\"\nclients = {clients}\n\
         client_id = \"w{{run}}-{name}-{{i}}\"\nscales = true\n{does}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_a_use_case_of_its_own_name_and_rate() {
        let mut names = std::collections::BTreeSet::new();
        for curve in CURVES {
            let Sweep::Broker(points) = curve.sweep else { continue };
            for point in points() {
                let table: toml::Table = point.text.parse().unwrap();
                assert_eq!(table["name"].as_str(), Some(point.name.as_str()));
                let publisher = &table["group"][1];
                let clients = publisher["clients"].as_integer().unwrap() as f64;
                let published = clients * publisher["publish"]["rate_per_s"].as_float().unwrap();
                assert!((5.0..=10_001.0).contains(&published), "{}: {published}", point.name);
                assert!(names.insert(point.name));
            }
        }
        assert_eq!(names.len(), 21);
    }
}
