//! From a scaled use case to a plan of the load generator, and to what is disclosed of it.

use super::file::UseCase;
use super::scale::Scaled;
use crate::result::UseCaseRun;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use weir_load::Plan;
use weir_load::plan::{self, ConnectPlan, Phases, ProtocolVersion, Publish, Sources};

/// connect() slows down long before the ports of one address run out.
const CONNECTIONS_PER_SOURCE: u32 = 10_000;
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

const INTERVAL_MS: u32 = 1_000;

/// Lengths of the phases, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    warm_up_s: f64,
    measure_s: f64,
    drain_s: f64,
}

impl Times {
    /// The use case's own, but for what is given.
    pub fn new(use_case: &UseCase, warm_up_s: Option<f64>, measure_s: Option<f64>) -> Self {
        Self {
            warm_up_s: warm_up_s.unwrap_or(use_case.warm_up_s),
            measure_s: measure_s.unwrap_or(use_case.measure_s),
            drain_s: use_case.drain_s,
        }
    }
}

/// The plan of a run against `target`.
pub fn plan(scaled: &Scaled<'_>, target: SocketAddr, run: u16, times: Times) -> Plan {
    let use_case = scaled.use_case;
    let millis = |seconds: f64| (seconds * 1e3).round() as u64;
    let groups = use_case.group.iter().zip(&scaled.clients).map(|(group, &clients)| plan::Group {
        name: group.name.clone(),
        clients,
        client_id: group.client_id.clone(),
        subscriptions: group.subscriptions.clone(),
        publish: group.publish.clone(),
    });
    let is_loopback_v4 = target.is_ipv4() && target.ip().is_loopback();
    Plan {
        target,
        version: use_case.mqtt_version,
        run,
        keep_alive_s: use_case.keep_alive_s,
        clean_start: use_case.clean_start,
        user_name: None,
        password: None,
        sources: is_loopback_v4
            .then_some(Sources { first: FIRST_SOURCE, connections_each: CONNECTIONS_PER_SOURCE }),
        connect: ConnectPlan {
            rate_per_s: use_case.connect_rate_per_s,
            timeout_ms: use_case.connect_timeout_s * 1_000,
        },
        groups: groups.collect(),
        phases: Phases {
            warm_up_ms: millis(times.warm_up_s),
            measure_ms: millis(times.measure_s),
            drain_ms: millis(times.drain_s),
        },
        interval_ms: INTERVAL_MS,
    }
}

impl Scaled<'_> {
    /// Groups with their numbers of clients.
    fn groups(&self) -> impl Iterator<Item = (&super::Group, u64)> {
        self.use_case.group.iter().zip(self.clients.iter().map(|&clients| u64::from(clients)))
    }

    fn publishing(&self) -> impl Iterator<Item = (&Publish, u64)> {
        self.groups().filter_map(|(group, clients)| Some((group.publish.as_ref()?, clients)))
    }

    /// Messages a second that are due.
    pub fn publish_rate(&self) -> f64 {
        self.publishing().map(|(publish, clients)| publish.rate_per_s * clients as f64).sum()
    }

    /// Deliveries a second that follow, by the filters of the suite's use cases: each subscription
    /// is matched with the topic of every publisher; a shared group counts once.
    pub fn deliver_rate(&self) -> f64 {
        let mut shared = BTreeSet::new();
        let mut rate = 0.0;
        for (group, clients) in self.groups() {
            for subscription in &group.subscriptions {
                let text = &subscription.filter;
                let filter = match text.strip_prefix("$share/").and_then(|s| s.split_once('/')) {
                    Some((_, filter)) if shared.insert(text.clone()) => {
                        rate += self.rate_of(filter, 1);
                        continue;
                    }
                    Some(_) => continue,
                    None => text,
                };
                rate += self.rate_of(filter, clients);
            }
        }
        rate
    }

    /// Messages a second that match `filter` of each of `subscribers` subscribers, together.
    fn rate_of(&self, filter: &str, subscribers: u64) -> f64 {
        let one = |(publish, publishers): (&Publish, u64)| {
            let deliveries = if filter == publish.topic {
                // The same template on both sides: pairs, or one topic for all.
                if filter.contains("{i}") {
                    subscribers.min(publishers)
                } else {
                    subscribers * publishers
                }
            } else {
                let matching = (0..publishers)
                    .filter(|index| {
                        matches(filter, &publish.topic.replace("{i}", &index.to_string()))
                    })
                    .count() as u64;
                subscribers * matching
            };
            deliveries as f64 * publish.rate_per_s
        };
        self.publishing().map(one).sum()
    }

    /// Bytes of one PUBLISH of the first publisher on the wire (section 3.3 of both standards).
    fn publish_bytes(&self) -> Option<u32> {
        let (publish, _) = self.publishing().next()?;
        let topic = publish.topic.replace("{i}", "0").len() as u32;
        let packet_id = if publish.qos > 0 { 2 } else { 0 };
        let properties = u32::from(self.use_case.mqtt_version == ProtocolVersion::V5);
        let rest = 2 + topic + packet_id + properties + publish.payload_bytes;
        let length_bytes = match rest {
            0..=127 => 1,
            128..=16_383 => 2,
            16_384..=2_097_151 => 3,
            _ => 4,
        };
        Some(1 + length_bytes + rest)
    }

    /// What is disclosed.
    pub fn run_description(&self, plan: &Plan) -> UseCaseRun {
        let use_case = self.use_case;
        let count = |is: fn(&super::Group) -> bool| -> u64 {
            self.groups().filter(|(group, _)| is(group)).map(|(_, clients)| clients).sum()
        };
        let topics = |(publish, clients): (&Publish, u64)| {
            if publish.topic.contains("{i}") { clients } else { 1 }
        };
        UseCaseRun {
            name: use_case.name.clone(),
            set: use_case.set.clone(),
            about: use_case.about.clone(),
            revision: use_case.revision,
            file_sha256: use_case.sha256(),
            file: use_case.text.clone(),
            scale_asked: self.asked,
            scale: self.scale,
            scale_reason: self.reason.clone(),
            mqtt_version: match use_case.mqtt_version {
                ProtocolVersion::V311 => "3.1.1".into(),
                ProtocolVersion::V5 => "5.0".into(),
            },
            qos: self.publishing().map(|(publish, _)| publish.qos).max(),
            payload_bytes: self.publishing().map(|(publish, _)| publish.payload_bytes).max(),
            publish_bytes_on_wire: self.publish_bytes(),
            idle_clients: count(|group| group.publish.is_none() && group.subscriptions.is_empty()),
            publishers: count(|group| group.publish.is_some()),
            subscribers: count(|group| !group.subscriptions.is_empty()),
            topics: self.publishing().map(topics).sum(),
            publish_rate_planned: self.publish_rate(),
            deliver_rate_planned: self.deliver_rate(),
            connect_rate_planned: use_case.connect_rate_per_s,
            duration_s: plan.phases.measure_ms as f64 / 1e3,
        }
    }
}

/// Whether a filter matches a topic, level by level.
fn matches(filter: &str, topic: &str) -> bool {
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
    use crate::usecase::catalog::all;
    use crate::usecase::scale;

    #[test]
    fn every_use_case_makes_a_plan_at_full_and_at_small_scale() {
        let target = "127.0.0.1:1883".parse().unwrap();
        for use_case in all() {
            for size in [1.0, 0.01] {
                let scaled = scale(&use_case, size, u64::MAX).unwrap();
                let plan = plan(&scaled, target, 1, Times::new(&use_case, None, Some(10.0)));
                assert_eq!(plan.phases.measure_ms, 10_000);
                assert!(plan.groups.iter().all(|group| group.clients > 0));
                assert!(plan.sources.is_some());
            }
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
            ("conn-tcp-1M-5K", 0.0, 0.0),
        ];
        for (name, published, delivered) in rates {
            let use_case = UseCase::resolve(name).unwrap();
            let scaled = scale(&use_case, 1.0, u64::MAX).unwrap();
            assert_eq!((scaled.publish_rate(), scaled.deliver_rate()), (published, delivered));
        }
    }

    #[test]
    fn a_publish_of_the_suite_has_28_bytes_on_the_wire() {
        let use_case = UseCase::resolve("p2p-1K-1K-1K-1K").unwrap();
        let scaled = scale(&use_case, 1.0, u64::MAX).unwrap();
        // 2 of fixed header, 2 + 6 of topic, 2 of identifier, 16 of payload.
        assert_eq!(scaled.publish_bytes(), Some(28));
    }
}
