//! What is due by a scaled use case: topics, messages and deliveries a second, bytes on the wire.

use super::file::Group;
use super::scale::Scaled;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_load::plan::Publish;

/// The topics published to, each once, with the messages per second on it.
struct Topics {
    names: Vec<String>,
    rates: Vec<f64>,
    by_name: HashMap<String, usize>,
}

impl Topics {
    /// `rate_of` says how many messages per second one client publishes.
    fn new(scaled: &Scaled<'_>, rate_of: impl Fn(&Publish) -> f64) -> Self {
        let (names, rates, by_name) = (Vec::new(), Vec::new(), HashMap::new());
        let mut topics = Self { names, rates, by_name };
        for (publish, clients) in scaled.publishing() {
            if publish.topic.contains("{i}") {
                for index in 0..clients {
                    topics.add(expand(&publish.topic, index), rate_of(publish));
                }
            } else {
                topics.add(publish.topic.clone(), rate_of(publish) * clients as f64);
            }
        }
        topics
    }

    fn add(&mut self, name: String, rate: f64) {
        if let Some(&at) = self.by_name.get(&name) {
            self.rates[at] += rate;
        } else {
            self.by_name.insert(name.clone(), self.names.len());
            self.names.push(name);
            self.rates.push(rate);
        }
    }

    /// Messages a second that match any of the filters: overlapping filters deliver once.
    fn rate_of(&self, filters: &BTreeSet<String>) -> f64 {
        let mut heard = BTreeSet::new();
        for filter in filters {
            if filter.contains(['#', '+']) {
                let names = self.names.iter().enumerate();
                heard.extend(names.filter(|(_, name)| matches(filter, name)).map(|(at, _)| at));
            } else {
                heard.extend(self.by_name.get(filter));
            }
        }
        heard.into_iter().map(|at| self.rates[at]).sum()
    }
}

impl Scaled<'_> {
    /// Groups with their numbers of clients.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Group, u64)> {
        self.use_case.group.iter().zip(self.clients.iter().map(|&clients| u64::from(clients)))
    }

    pub(super) fn publishing(&self) -> impl Iterator<Item = (&Publish, u64)> {
        self.groups()
            .filter(|&(_, clients)| clients > 0)
            .filter_map(|(group, clients)| Some((group.publish.as_ref()?, clients)))
    }

    fn count(&self, is: fn(&Group) -> bool) -> u64 {
        self.groups().filter(|(group, _)| is(group)).map(|(_, clients)| clients).sum()
    }

    /// Clients that publish.
    pub fn publishers(&self) -> u64 {
        self.count(|group| group.publish.is_some())
    }

    /// Clients that subscribe.
    pub fn subscribers(&self) -> u64 {
        self.count(|group| !group.subscriptions.is_empty())
    }

    /// Clients that only hold a connection.
    pub fn idle_clients(&self) -> u64 {
        self.count(|group| group.publish.is_none() && group.subscriptions.is_empty())
    }

    /// Distinct topics published to.
    pub fn topics(&self) -> u64 {
        Topics::new(self, full_rate).names.len() as u64
    }

    /// Messages a second that are due while all publish.
    pub fn publish_rate(&self) -> f64 {
        self.publishing().map(|(publish, clients)| full_rate(publish) * clients as f64).sum()
    }

    /// Messages that are due in a measure phase of `measure_s` seconds, a second of it, and the
    /// deliveries that follow: of a will or of so many messages each that is less than the rate.
    pub fn mean_rates(&self, measure_s: f64) -> (f64, f64) {
        let rate = |publish: &Publish| mean_rate(publish, measure_s);
        let published =
            self.publishing().map(|(publish, clients)| rate(publish) * clients as f64).sum();
        (published, self.deliver_rate_of(&Topics::new(self, rate)))
    }

    /// The same of what is published while all publish.
    #[cfg(test)]
    fn deliver_rate(&self) -> f64 {
        self.deliver_rate_of(&Topics::new(self, full_rate))
    }

    /// Deliveries a second that follow: each subscriber hears each matching message once, however
    /// many of its filters match; a shared group hears it once as a whole.
    fn deliver_rate_of(&self, topics: &Topics) -> f64 {
        let mut shared: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut rate = 0.0;
        for (group, clients) in self.groups() {
            let is_alike = group.subscriptions.iter().all(|one| !one.filter.contains("{i}"));
            // Clients with the same filters are one computation.
            let (distinct, weight) =
                if is_alike { (clients.min(1), clients) } else { (clients, 1) };
            for index in 0..distinct {
                let mut own = BTreeSet::new();
                for subscription in &super::plan::subscriptions(group) {
                    let text = expand(&subscription.filter, index);
                    match text.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
                        // A group is its name and its filter.
                        Some((_, filter)) => {
                            shared.entry(text.clone()).or_default().insert(filter.into());
                        }
                        None => drop(own.insert(text)),
                    }
                }
                rate += topics.rate_of(&own) * weight as f64;
            }
        }
        rate + shared.values().map(|filters| topics.rate_of(filters)).sum::<f64>()
    }

    /// Bytes of one PUBLISH of the first publisher on the wire.
    pub fn publish_bytes(&self, run: u16) -> Option<u32> {
        let (publish, _) = self.publishing().next()?;
        Some(publish.bytes_on_wire(self.use_case.mqtt_version, run))
    }
}

/// Messages a second of one client while it publishes.
fn full_rate(publish: &Publish) -> f64 {
    publish.rate_per_s
}

/// Messages a second of one client over the whole measure phase.
fn mean_rate(publish: &Publish, measure_s: f64) -> f64 {
    if measure_s <= 0.0 {
        return publish.rate_per_s;
    }
    let begin_s = publish.from_s.unwrap_or(0.0).min(measure_s);
    let end_s = publish.until_s.unwrap_or(measure_s).clamp(begin_s, measure_s);
    let rate =
        f64::midpoint(publish.rate_per_s, publish.rate_to_per_s.unwrap_or(publish.rate_per_s));
    let messages = rate * (end_s - begin_s);
    publish.count.map_or(messages, |count| messages.min(f64::from(count))) / measure_s
}

/// A template with the client's index; `{run}` is the same on both sides and may stay.
fn expand(template: &str, index: u64) -> String {
    template.replace("{i}", &index.to_string())
}

/// Whether a filter matches a topic, level by level.
fn matches(filter: &str, topic: &str) -> bool {
    // [MQTT-4.7.2-1] A wildcard in the first level does not match a topic that begins with $.
    if topic.starts_with('$') && filter.starts_with(['#', '+']) {
        return false;
    }
    let mut topic = topic.split('/');
    for level in filter.split('/') {
        match (level, topic.next()) {
            ("#", _) => return true,
            (_, None) => return false,
            ("+", Some(_)) => {}
            (level, Some(name)) if level == name => {}
            _ => return false,
        }
    }
    topic.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usecase::{UseCase, scale};

    fn with_scaled<T>(name: &str, of: impl Fn(&Scaled<'_>) -> T) -> T {
        let use_case = UseCase::builtin(name).unwrap();
        of(&scale(&use_case, 1.0, u64::MAX).unwrap())
    }

    #[test]
    fn a_filter_matches_level_by_level() {
        for (filter, topic, is_match) in [
            ("a/+/c", "a/b/c", true),
            ("a/+/c", "a/b/d", false),
            ("a/+", "a", false),
            ("a/+", "a/b/c", false),
            ("a/#", "a/b/c", true),
            ("+", "a", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(filter, topic), is_match, "{filter} {topic}");
        }
    }

    #[test]
    fn rates_are_what_the_names_say() {
        let rates = [
            ("fanout-1-1K-1-1K", 1.0, 1_000.0),
            ("p2p-1K-1K-1K-1K", 1_000.0, 1_000.0),
            ("sharedsub-1K-5-1K-1K", 1_000.0, 1_000.0),
            ("fanout-5-1000-5-250K", 250.0, 250_000.0),
            ("p2p-50K-50K-50K-50K", 50_000.0, 50_000.0),
            ("sharedsub-50K-500-50K-50K", 50_000.0, 50_000.0),
            ("throughput-20-1000-20-2M", 2_000.0, 2_000_000.0),
            ("conn-tcp-10K-100", 0.0, 0.0),
            ("conn-tcp-1M-5K", 0.0, 0.0),
        ];
        for (name, published, delivered) in rates {
            let found = with_scaled(name, |scaled| (scaled.publish_rate(), scaled.deliver_rate()));
            assert_eq!(found, (published, delivered), "{name}");
        }
    }

    /// Rates of the perf set are within a millionth: a share of them is not a decimal number.
    #[test]
    fn rates_of_the_perf_set_are_what_the_names_say() {
        let rates = [
            ("conn-tcp-15K-2500", 0.0, 0.0),
            ("fanout-2-1000-2-100K", 100.0, 100_000.0),
            ("fanout-qos0-5-1000-5-250K", 250.0, 250_000.0),
            ("throughput-10-1000-10-1M", 1_000.0, 1_000_000.0),
            ("p2p-1K-1K-1K-50K", 50_000.0, 50_000.0),
            ("p2p-9K-9K-9K-10K", 10_000.0, 10_000.0),
            ("p2p-9K-9K-9K-50K", 50_000.0, 50_000.0),
            ("sharedsub-9K-500-9K-50K", 50_000.0, 50_000.0),
            ("ingest-1K-10-1K-200K", 200_000.0, 200_000.0),
            ("ingest-qos1-1K-10-1K-20K", 20_000.0, 20_000.0),
        ];
        assert_eq!(rates.len(), crate::usecase::set("perf").unwrap().len());
        for (name, published, delivered) in rates {
            let found = with_scaled(name, |scaled| [scaled.publish_rate(), scaled.deliver_rate()]);
            for (found, wanted) in found.iter().zip([published, delivered]) {
                assert!((found - wanted).abs() <= wanted * 1e-6, "{name}: {found}");
            }
        }
    }

    #[test]
    fn clients_are_what_the_names_say() {
        let clients = [
            ("conn-tcp-10K-100", [0, 0, 10_000, 0]),
            ("conn-tcp-1M-5K", [0, 0, 1_000_000, 0]),
            ("fanout-1-1K-1-1K", [1, 1_000, 0, 1]),
            ("fanout-5-1000-5-250K", [5, 1_000, 0, 5]),
            ("p2p-1K-1K-1K-1K", [1_000, 1_000, 0, 1_000]),
            ("p2p-50K-50K-50K-50K", [50_000, 50_000, 0, 50_000]),
            ("sharedsub-1K-5-1K-1K", [1_000, 5, 0, 1_000]),
            ("sharedsub-50K-500-50K-50K", [50_000, 500, 0, 50_000]),
            ("throughput-20-1000-20-2M", [20, 1_000, 0, 20]),
        ];
        for (name, wanted) in clients {
            let found = with_scaled(name, |scaled| {
                let [publishers, subscribers] = [scaled.publishers(), scaled.subscribers()];
                [publishers, subscribers, scaled.idle_clients(), scaled.topics()]
            });
            assert_eq!(found, wanted, "{name}");
        }
    }

    /// Deliveries a second to 3 subscribers of `filters` by 4 publishers at 2/s on `topic`.
    fn delivered(filters: &str, topic: &str) -> f64 {
        let text = format!(
            r#"name = "mine"
            revision = 1
            about = ""
            mqtt_version = "5.0"
            connect_rate_per_s = 10
            [[group]]
            name = "subscriber"
            clients = 3
            client_id = "s{{i}}"
            scales = true
            subscriptions = [{filters}]
            [[group]]
            name = "publisher"
            clients = 4
            client_id = "p{{i}}"
            scales = true
            publish = {{ topic = "{topic}", qos = 1, rate_per_s = 2, payload_bytes = 16 }}"#
        );
        let use_case = UseCase::parse("mine", &text).unwrap();
        scale(&use_case, 1.0, 100).unwrap().deliver_rate()
    }

    #[test]
    fn filters_of_a_users_own_are_counted_as_the_load_audits_them() {
        let one = |filter: &str| format!("{{ filter = \"{filter}\", qos = 1 }}");
        assert_eq!(delivered(&one("t/{i}"), "t/{i}"), 6.0);
        assert_eq!(delivered(&one("t/{i}/#"), "t/{i}/x"), 6.0);
        assert_eq!(delivered(&one("t/#"), "t"), 24.0);
        assert_eq!(delivered(&one("+/x"), "$t/x"), 0.0);
        assert_eq!(delivered(&format!("{}, {}", one("t/#"), one("t/+")), "t/{i}"), 24.0);
        assert_eq!(delivered(&one("$share/g/t/#"), "t/{i}"), 8.0);
        assert_eq!(delivered(&one("$share/g/t/{i}"), "t/{i}"), 6.0);
        assert_eq!(delivered(&one("$share/g{i}/t/#"), "t/{i}"), 24.0);
    }

    #[test]
    fn a_publish_of_the_suite_has_28_bytes_on_the_wire() {
        // 2 of fixed header, 2 + 6 of topic, 2 of identifier, 16 of payload.
        assert_eq!(with_scaled("p2p-1K-1K-1K-1K", |scaled| scaled.publish_bytes(1)), Some(28));
        // MQTT 5.0 has a length of properties; QoS 0 has no identifier.
        assert_eq!(with_scaled("sharedsub-1K-5-1K-1K", |scaled| scaled.publish_bytes(1)), Some(29));
        assert_eq!(with_scaled("throughput-20-1000-20-2M", |s| s.publish_bytes(1)), Some(26));
        assert_eq!(with_scaled("conn-tcp-10K-100", |scaled| scaled.publish_bytes(1)), None);
    }
}
