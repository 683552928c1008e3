//! From what all slices say at their ends to the outcome of the whole.

use super::line::{OutcomeLine, add_text};
use crate::LoadError;
use crate::audit::{Fate, Joint, Track};
use crate::distribution::Distribution;
use crate::engine::topics_of;
use crate::outcome::{
    Anomaly, Connections, End, Generator, Handshakes, Interval, Latencies, Lateness, Operations,
    Outcome, PhaseSpan, Silence,
};
use crate::plan::Plan;
use crate::plan::Slice;
use crate::schedule::streams;
use std::collections::BTreeMap;

/// All that one slice has said at its end.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) slice: Slice,
    /// As the agent is called in messages.
    pub(super) name: String,
    /// The clock of the one who leads less the agent's, in microseconds.
    pub(super) ahead_us: i64,
    pub(super) fates: Vec<(u32, Fate)>,
    pub(super) tracks: Vec<Track>,
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) outcome: Box<OutcomeLine>,
}

/// Merges the reports of the agents that are left. `end` is known where all ended early.
///
/// # Errors
/// A report that no slice of this plan can have made.
pub(super) fn merge(
    plan: &Plan,
    reports: &mut [Report],
    end: End,
    (intervals, distributions): (Vec<Interval>, Vec<Distribution>),
    agents: Vec<String>,
) -> Result<Outcome, LoadError> {
    let planned = plan.groups.iter().map(|group| u64::from(group.clients)).sum();
    let mut outcome = Outcome {
        end,
        phases: phases(reports),
        connections: Connections { planned, ..Connections::default() },
        handshakes: Handshakes::default(),
        subscriptions: Operations::default(),
        access: None,
        warm_up: Default::default(),
        measure: Default::default(),
        traffic: Default::default(),
        latencies: Latencies::default(),
        intervals,
        distributions,
        generator: Generator::default(),
        silences: Vec::new(),
        silences_unlisted: 0,
        anomalies: Vec::new(),
        anomalies_unlisted: 0,
        unclocked: 0,
        course: Default::default(),
        agents,
    };
    for report in reports.iter() {
        add(&mut outcome, report)
            .ok_or_else(|| bad(&report.name, "a histogram that is not one"))?;
    }
    let books = books(plan, reports, &outcome.end)?;
    outcome.warm_up = books.warm_up;
    outcome.measure = books.measure;
    outcome.anomalies = books.anomalies;
    outcome.anomalies_unlisted = books.anomalies_unlisted;
    Ok(outcome)
}

fn bad(name: &str, what: &str) -> LoadError {
    LoadError::Protocol(format!("{name} told what cannot be: {what}"))
}

/// Adds what is a sum, a histogram or a list.
fn add(outcome: &mut Outcome, report: &Report) -> Option<()> {
    let of = &*report.outcome;
    let add_counts = |sum: &mut BTreeMap<String, u64>, of: &BTreeMap<String, u64>| {
        for (reason, count) in of {
            *sum.entry(reason.clone()).or_default() += count;
        }
    };
    outcome.connections.connected += of.connections.connected;
    add_counts(&mut outcome.connections.failed, &of.connections.failed);
    add_counts(&mut outcome.connections.dropped, &of.connections.dropped);
    outcome.handshakes.full += of.handshakes.full;
    outcome.handshakes.resumed += of.handshakes.resumed;
    outcome.subscriptions.asked += of.subscriptions.asked;
    outcome.subscriptions.granted += of.subscriptions.granted;
    add_counts(&mut outcome.subscriptions.failed, &of.subscriptions.failed);
    add_counts(&mut outcome.subscriptions.other_qos, &of.subscriptions.other_qos);
    outcome.access = outcome.access.or(of.access);
    outcome.unclocked += of.unclocked;
    outcome.traffic.published += of.traffic.published;
    outcome.traffic.received += of.traffic.received;
    outcome.traffic.duplicated += of.traffic.duplicated;
    outcome.traffic.crossed += of.traffic.crossed;
    let (latencies, generator) = (&mut outcome.latencies, &mut outcome.generator);
    generator.cpu_user_us += of.cpu_user_us;
    generator.cpu_system_us += of.cpu_system_us;
    generator.wall_us = generator.wall_us.max(of.wall_us);
    generator.ledger_bytes += of.ledger_bytes;
    for (sum, of) in
        [(&mut generator.late_setup, of.late_setup), (&mut generator.late_measure, of.late_measure)]
    {
        // Times are the agent's until here.
        let longest_at_us = of.longest_at_us.saturating_add_signed(report.ahead_us);
        sum.merge(&Lateness { longest_at_us, ..of });
    }
    let here = |silence: &Silence| Silence {
        start_us: silence.start_us.saturating_add_signed(report.ahead_us),
        ..*silence
    };
    outcome.silences.extend(of.silences.iter().map(here));
    outcome.silences_unlisted += of.silences_unlisted;
    generator.invalid.extend(of.invalid.iter().map(|why| format!("{}: {why}", report.name)));
    let sums = [
        &mut latencies.connect,
        &mut latencies.tcp_connect,
        &mut latencies.handshake,
        &mut latencies.connack,
        &mut latencies.subscribe,
        &mut latencies.acknowledge,
        &mut latencies.acknowledge_from_intended,
        &mut latencies.end_to_end,
        &mut latencies.end_to_end_from_send,
        &mut generator.lag,
        &mut generator.turn,
    ];
    sums.into_iter().zip(&of.histograms).map(|(sum, text)| add_text(sum, text)).collect()
}

/// Each phase from where all have left the one before, or the first has begun it, to where the
/// last has left it.
fn phases(reports: &[Report]) -> Vec<PhaseSpan> {
    let mut phases: Vec<PhaseSpan> = Vec::new();
    let spans = reports.iter().flat_map(|report| {
        let here = |time_us: u64| time_us.saturating_add_signed(report.ahead_us);
        report.outcome.phases.iter().map(move |span| PhaseSpan {
            start_us: here(span.start_us),
            end_us: here(span.end_us),
            ..*span
        })
    });
    for span in spans {
        match phases.iter_mut().find(|known| known.phase == span.phase) {
            Some(known) => {
                known.start_us = known.start_us.min(span.start_us);
                known.end_us = known.end_us.max(span.end_us);
            }
            None => phases.push(span),
        }
    }
    phases.sort_unstable_by_key(|span| span.phase);
    for at in 1..phases.len() {
        phases[at].start_us = phases[at].start_us.max(phases[at - 1].end_us);
        phases[at].end_us = phases[at].end_us.max(phases[at].start_us);
    }
    phases
}

/// Joins what was accepted with what was delivered.
fn books(plan: &Plan, reports: &mut [Report], end: &End) -> Result<crate::audit::Books, LoadError> {
    let streams = streams(plan, 0);
    let topics = topics_of(plan, &streams)?;
    let named: Vec<(u32, &str)> = topics.iter().map(|(client, text)| (*client, &**text)).collect();
    let all_totals = streams
        .iter()
        .flat_map(|stream| (0..stream.group.clients).map(|place| stream.schedule.total_of(place)));
    let totals: Vec<u32> = all_totals.collect();
    let slices: Vec<Slice> = reports.iter().map(|report| report.slice).collect();
    let mut joint = Joint::new(plan, &named, totals.clone(), &slices);
    for stream in &streams {
        for place in 0..stream.group.clients {
            joint.measure_from(stream.first_publisher + place, stream.first_measured(place));
        }
    }
    let mut fates = vec![Fate { is_lost: true, ..Fate::default() }; topics.len()];
    for (at, report) in reports.iter_mut().enumerate() {
        for (publisher, fate) in report.fates.drain(..) {
            let known = fates.get_mut(publisher as usize).filter(|known| known.is_lost);
            let known =
                known.ok_or_else(|| bad(&report.name, "a publisher that is not its own"))?;
            if fate.due > totals[publisher as usize] || !fate.is_consistent() {
                return Err(bad(&report.name, "messages that were never due"));
            }
            *known = fate;
        }
        let outcome = &report.outcome;
        let anomalies = std::mem::take(&mut report.anomalies);
        let added = joint.add(at, &outcome.counted, &report.tracks, anomalies);
        added.map_err(|what| bad(&report.name, what))?;
        report.tracks = Vec::new();
    }
    // What the others had under way when an agent was lost is no fault of the broker's.
    let is_cut_short = matches!(end, End::Stopped | End::AgentLost(_));
    Ok(joint.close(&fates, is_cut_short))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::line::to_text;
    use crate::audit::Counted;
    use crate::histogram::histogram;
    use crate::outcome::{Access, Altered, Messages, Phase, Traffic};
    use crate::plan::slice::tests::plan;

    /// What agent `at` of two says, each of whose numbers is its own; its clock is 5 s behind.
    fn report(at: u64, plan: &Plan) -> Report {
        let slice = Slice::new(at as u32, 2);
        let counts = |reason: &str, count: u64| BTreeMap::from([(reason.to_owned(), count)]);
        let histograms = std::array::from_fn(|place| {
            let mut of = histogram();
            of.record_n(1_000 * (place as u64 + 1), 1 + at).unwrap();
            to_text(&of)
        });
        let span = PhaseSpan { phase: Phase::Measure, start_us: 1_000_000, end_us: 2_000_000 };
        let late = |us: u64| Lateness {
            samples: 100,
            delayed: 1 + at,
            absences: 1,
            absent_us: us,
            absent_us_max: us,
            longest_at_us: 1_000_000,
        };
        let fates = (0..plan.groups[1].clients)
            .filter(|&place| slice.has(&plan.groups[1], plan.groups[0].clients + place))
            .map(|place| (place, Fate { due: 1, sent: 1, ..Fate::default() }))
            .collect();
        let received = Messages {
            altered: Altered { topic: 1, length: 2, content: 3, qos: 4, retain: 5 },
            stray: 1,
            received: 1,
            ..Messages::default()
        };
        let outcome = OutcomeLine {
            end: End::Completed,
            phases: vec![span],
            connections: Connections {
                planned: 2,
                connected: 1,
                failed: counts("refused", 1 + at),
                dropped: counts("closed", 2 + at),
            },
            handshakes: Handshakes { full: 1 + at, resumed: 3 },
            subscriptions: Operations {
                asked: 5,
                granted: 3,
                other_qos: counts("QoS 0 instead of 1", 1 + at),
                failed: counts("no SUBACK in time", 2),
            },
            access: (at == 1).then(Access::default),
            histograms,
            cpu_user_us: 10 + at,
            cpu_system_us: 20 + at,
            wall_us: 1_000_000 + at,
            ledger_bytes: 16,
            late_setup: late(20_000 + 30_000 * at),
            late_measure: late(50_000 - 30_000 * at),
            invalid: vec![format!("was late {at}")],
            silences: vec![Silence { start_us: 1_500_000, length_us: 600_000 }],
            silences_unlisted: at,
            unclocked: 3,
            traffic: Traffic { published: 1, received: 2, duplicated: 3, crossed: 4 },
            counted: Counted { measure: received, ..Counted::default() },
        };
        Report {
            slice,
            name: format!("agent {}", at + 1),
            ahead_us: 5_000_000 * at as i64,
            fates,
            tracks: Vec::new(),
            anomalies: Vec::new(),
            outcome: Box::new(outcome),
        }
    }

    fn merged() -> Outcome {
        merged_with(|_| {}).unwrap()
    }

    fn merged_with(change: impl Fn(&mut [Report; 2])) -> Result<Outcome, LoadError> {
        let mut plan = plan(&[(2, false), (2, false)]);
        let publish = crate::plan::Publish {
            topic: "t".into(),
            rate_per_s: 1.0,
            payload_bytes: 16,
            ..Default::default()
        };
        plan.groups[1].publish = Some(publish);
        plan.phases = crate::plan::Phases { warm_up_ms: 0, measure_ms: 1_000, drain_ms: 0 };
        let mut reports = [report(0, &plan), report(1, &plan)];
        change(&mut reports);
        let (nothing, agents) = ((Vec::new(), Vec::new()), vec!["one".into(), "two".into()]);
        merge(&plan, &mut reports, End::Completed, nothing, agents)
    }

    #[test]
    fn what_each_agent_says_of_itself_is_kept_with_its_name() {
        let Outcome { generator, agents, access, unclocked, traffic, .. } = merged();
        assert_eq!(generator.invalid, ["agent 1: was late 0", "agent 2: was late 1"]);
        assert_eq!((generator.cpu_user_us, generator.cpu_system_us), (21, 41));
        assert_eq!((generator.wall_us, generator.ledger_bytes), (1_000_001, 32));
        let setup = Lateness {
            samples: 200,
            delayed: 3,
            absences: 2,
            absent_us: 70_000,
            absent_us_max: 50_000,
            longest_at_us: 6_000_000,
        };
        assert_eq!(generator.late_setup, setup, "the longest is the second's, on our clock");
        assert_eq!(generator.late_measure, Lateness { longest_at_us: 1_000_000, ..setup });
        assert_eq!((agents.len(), unclocked, access.is_some()), (2, 6, true));
        assert_eq!(traffic, Traffic { published: 2, received: 4, duplicated: 6, crossed: 8 });
    }

    #[test]
    fn what_each_agent_saw_of_the_broker_adds_up() {
        let Outcome { connections, handshakes, subscriptions, measure, .. } = merged();
        assert_eq!(handshakes, Handshakes { full: 3, resumed: 6 });
        assert_eq!((connections.planned, connections.connected), (4, 2));
        assert_eq!((connections.failed["refused"], connections.dropped["closed"]), (3, 5));
        assert_eq!((subscriptions.asked, subscriptions.granted), (10, 6));
        assert_eq!(subscriptions.other_qos["QoS 0 instead of 1"], 3);
        assert_eq!(subscriptions.failed["no SUBACK in time"], 4);
        assert_eq!((measure.accepted, measure.stray, measure.received), (2, 2, 2));
        let altered = Altered { topic: 2, length: 4, content: 6, qos: 8, retain: 10 };
        assert_eq!(measure.altered, altered);
    }

    #[test]
    fn each_histogram_is_added_to_its_own() {
        let Outcome { latencies, generator, .. } = merged();
        let all = [
            latencies.connect,
            latencies.tcp_connect,
            latencies.handshake,
            latencies.connack,
            latencies.subscribe,
            latencies.acknowledge,
            latencies.acknowledge_from_intended,
            latencies.end_to_end,
            latencies.end_to_end_from_send,
            generator.lag,
            generator.turn,
        ];
        for (place, of) in all.iter().enumerate() {
            let us = 1_000 * (place as u64 + 1);
            assert_eq!((of.len(), of.count_at(us)), (3, 3), "{place}");
        }
    }

    #[test]
    fn times_of_an_agent_with_another_clock_are_set_to_ours() {
        let Outcome { phases, silences, silences_unlisted, .. } = merged();
        let measure = PhaseSpan { phase: Phase::Measure, start_us: 1_000_000, end_us: 7_000_000 };
        assert_eq!(phases, [measure]);
        let starts: Vec<u64> = silences.iter().map(|silence| silence.start_us).collect();
        assert_eq!((starts, silences_unlisted), (vec![1_500_000, 6_500_000], 1));
    }

    #[test]
    fn a_phase_starts_where_all_have_left_the_one_before() {
        let spans = |of: &[(Phase, u64, u64)]| -> Vec<PhaseSpan> {
            let span = |&(phase, start_us, end_us)| PhaseSpan { phase, start_us, end_us };
            of.iter().map(span).collect()
        };
        let early =
            spans(&[(Phase::Connect, 20, 25), (Phase::Subscribe, 25, 31), (Phase::Drain, 32, 33)]);
        let late = spans(&[(Phase::Connect, 18, 30), (Phase::Subscribe, 30, 40)]);
        let merged = merged_with(|reports| {
            reports[0].outcome.phases = early.clone();
            (reports[1].outcome.phases, reports[1].ahead_us) = (late.clone(), -8);
        });
        let expected =
            [(Phase::Connect, 10, 25), (Phase::Subscribe, 25, 32), (Phase::Drain, 32, 33)];
        assert_eq!(merged.unwrap().phases, spans(&expected));
        let merged = merged_with(|reports| {
            reports[0].outcome.phases = spans(&[(Phase::Connect, 1, 50), (Phase::Drain, 20, 33)]);
            reports[1].outcome.phases = Vec::new();
        });
        let expected = [(Phase::Connect, 1, 50), (Phase::Drain, 50, 50)];
        assert_eq!(merged.unwrap().phases, spans(&expected), "none ends before it has begun");
    }

    #[test]
    fn a_report_that_cannot_be_is_refused_with_its_agents_name() {
        let refused = |change: &dyn Fn(&mut Report)| {
            merged_with(|reports| change(&mut reports[1])).unwrap_err().to_string()
        };
        let owner = refused(&|report| report.fates[0].0 = 0);
        assert!(owner.contains("agent 2 told what cannot be: a publisher"), "{owner}");
        let none = refused(&|report| report.fates[0].0 = 2);
        assert!(none.contains("a publisher that is not its own"), "{none}");
        let more = refused(&|report| (report.fates[0].1.due, report.fates[0].1.sent) = (2, 1));
        assert!(more.contains("messages that were never due"), "{more}");
        let sent = refused(&|report| report.fates[0].1.sent = 2);
        assert!(sent.contains("messages that were never due"), "{sent}");
        let histogram = refused(&|report| report.outcome.histograms[10] = "none".into());
        assert!(histogram.contains("a histogram that is not one"), "{histogram}");
    }

    #[test]
    fn what_is_lost_with_an_agent_is_nobodys_fault() {
        let of = merged_with(|reports| reports[1].fates.clear()).unwrap();
        assert_eq!((of.measure.intended, of.measure.accepted), (1, 1));
    }
}
