//! From a scaled use case to a plan of the load generator, and to what is disclosed of it.

use super::file::{Group, UseCase};
use super::scale::Scaled;
use super::span::Span;
use crate::result::UseCaseRun;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use weir_load::plan::{self, ConnectPlan, Phases, ProtocolVersion, Publish, Sources, Subscription};
use weir_load::{Plan, Slice, StepPlan, steps};

/// connect() slows down long before the ports of one address run out.
const CONNECTIONS_PER_SOURCE: u32 = 10_000;
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

const INTERVAL_MS: u32 = 1_000;

/// Lengths of the phases, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Publishing before measure.
    pub warm_up_s: f64,
    /// What is measured.
    pub measure_s: f64,
    /// At most so long is waited for what is owed.
    pub drain_s: f64,
}

impl Times {
    /// The use case's own, but for what is given.
    pub fn new(use_case: &UseCase, warm_up_s: Option<f64>, measure_s: Option<f64>) -> Self {
        Self {
            warm_up_s: warm_up_s.unwrap_or(use_case.warm_up_s),
            measure_s: use_case.measure_s(measure_s),
            drain_s: use_case.drain_s,
        }
    }

    /// The same with a drain of at least `resends_max`: what the broker sends again within that is
    /// late, and not lost.
    pub fn with_resends(self, resends_max: Duration) -> Self {
        Self { drain_s: self.drain_s.max(resends_max.as_secs_f64()), ..self }
    }
}

/// The plan of a run against `target`, which may have other nodes.
pub fn plan(scaled: &Scaled<'_>, target: SocketAddr, run: u16, times: Times) -> Plan {
    let use_case = scaled.use_case;
    let millis = |seconds: f64| (seconds * 1e3).round() as u64;
    let groups = use_case.group.iter().zip(&scaled.clients).map(|(group, &clients)| plan::Group {
        name: group.name.clone(),
        clients,
        client_id: group.client_id.clone(),
        subscriptions: subscriptions(group),
        publish: group.publish.clone(),
        clean_start: group.clean_start,
        session_expiry_s: group.session_expiry_s,
        node: group.node - 1,
    });
    let clients = scaled.clients.iter().map(|&clients| u64::from(clients)).sum();
    Plan {
        target,
        others: Vec::new(),
        version: use_case.mqtt_version,
        run,
        keep_alive_s: use_case.keep_alive_s,
        clean_start: use_case.clean_start,
        route: plan::Route::default(),
        credentials: plan::Credentials::default(),
        users: 0,
        sources: sources(target, clients),
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
        slice: Slice::WHOLE,
        course: scaled.step_plan(),
        shifts: None,
    }
}

/// Addresses to connect from: several where one has not ports enough and the target is this host.
pub(crate) fn sources(target: SocketAddr, clients: u64) -> Option<Sources> {
    let is_loopback_v4 = target.is_ipv4() && target.ip().is_loopback();
    let is_many = clients > u64::from(CONNECTIONS_PER_SOURCE);
    (is_loopback_v4 && is_many)
        .then_some(Sources { first: FIRST_SOURCE, connections_each: CONNECTIONS_PER_SOURCE })
}

/// Each subscription as often as the group has it, `{j}` filled in.
pub(super) fn subscriptions(group: &Group) -> Vec<Subscription> {
    if group.filters_each == 1 {
        return group.subscriptions.clone();
    }
    let each = |one: &Subscription, j: u32| Subscription {
        filter: one.filter.replace("{j}", &j.to_string()),
        qos: one.qos,
        asked: one.asked.as_ref().map(|asked| asked.replace("{j}", &j.to_string())),
    };
    let all = group.subscriptions.iter();
    all.flat_map(|one| (0..group.filters_each).map(move |j| each(one, j))).collect()
}

/// Between two attempts of a client that a step makes come back, where the file says nothing.
const RETURN_AFTER_MS: u32 = 100;

impl Scaled<'_> {
    /// What clients do in the steps, and whether a pulse is taken.
    fn step_plan(&self) -> StepPlan {
        let use_case = self.use_case;
        let mut steps = Vec::new();
        for step in &use_case.step {
            let Some(action) = step.action() else { continue };
            for (at, group) in use_case.group.iter().enumerate() {
                if step.group.as_ref().is_some_and(|name| name != &group.name) {
                    continue;
                }
                let clients = (f64::from(self.clients[at]) * step.share).ceil() as u32;
                steps.push(steps::ClientStep {
                    at_ms: step.at.millis(),
                    group: at as u16,
                    action,
                    clients: clients.min(self.clients[at]),
                    over_ms: step.over.millis(),
                    for_ms: step.lasts.millis(),
                    every_ms: step.every.map_or(0, Span::millis),
                });
            }
        }
        let is_returning = use_case.step.iter().any(|step| !step.is_join());
        let after = use_case.reconnect.map(|reconnect| reconnect.after.millis() as u32);
        StepPlan {
            return_after_ms: after.or(is_returning.then_some(RETURN_AFTER_MS)),
            return_rate_per_s: use_case.reconnect.and_then(|reconnect| reconnect.rate_per_s),
            steps,
            has_pulse: !use_case.step.is_empty(),
        }
    }

    /// What is disclosed.
    pub fn run_description(&self, plan: &Plan) -> UseCaseRun {
        let use_case = self.use_case;
        let measure_s = plan.phases.measure_ms as f64 / 1e3;
        // Of runs that take turns each publishes for its share of the time.
        let share = plan.shifts.map_or(1.0, |shifts| shifts.share());
        let (publish_rate, deliver_rate) = self.mean_rates(measure_s);
        let largest =
            |publish: &Publish| publish.payload_bytes.max(publish.payload_bytes_to.unwrap_or(0));
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
            payload_bytes: self.publishing().map(|(publish, _)| largest(publish)).max(),
            publish_bytes_on_wire: self.publish_bytes(plan.run),
            idle_clients: self.idle_clients(),
            publishers: self.publishers(),
            subscribers: self.subscribers(),
            topics: self.topics(),
            publish_rate_planned: publish_rate * share,
            deliver_rate_planned: deliver_rate * share,
            connect_rate_planned: use_case.connect_rate_per_s,
            duration_s: measure_s,
        }
    }
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
                let least_ms = (use_case.measure_s_min() * 1e3) as u64;
                assert_eq!(plan.phases.measure_ms, least_ms.max(10_000));
                assert!(plan.groups.iter().all(|group| group.clients > 0));
                let clients: u32 = plan.groups.iter().map(|group| group.clients).sum();
                assert_eq!(plan.sources.is_some(), clients > CONNECTIONS_PER_SOURCE);
            }
        }
    }

    #[test]
    fn a_drain_is_as_long_as_the_broker_takes_to_send_again() {
        let use_case = UseCase::builtin("p2p-1K-1K-1K-1K").unwrap();
        let times = Times::new(&use_case, None, None);
        let of = |seconds| times.with_resends(Duration::from_secs(seconds)).drain_s;
        assert_eq!([of(0), of(23)], [times.drain_s, 23.0]);
    }

    #[test]
    fn sources_rotate_on_loopback_only_and_where_there_are_many_connections() {
        let use_case = UseCase::builtin("p2p-50K-50K-50K-50K").unwrap();
        let scaled = scale(&use_case, 1.0, u64::MAX).unwrap();
        let times = Times::new(&use_case, None, None);
        let sources = |target: &str| plan(&scaled, target.parse().unwrap(), 1, times).sources;
        assert_eq!(sources("127.0.0.1:1883").unwrap().first, FIRST_SOURCE);
        assert_eq!(sources("192.0.2.1:1883"), None);
        assert_eq!(sources("[::1]:1883"), None);
        let few = UseCase::builtin("conn-tcp-10K-100").unwrap();
        let scaled = scale(&few, 1.0, u64::MAX).unwrap();
        assert_eq!(plan(&scaled, "127.0.0.1:1883".parse().unwrap(), 1, times).sources, None);
    }
}
