//! From what all slices say at their ends to the outcome of the whole.

use super::line::{OutcomeLine, add_text};
use crate::LoadError;
use crate::audit::{Fate, Joint, Track};
use crate::distribution::Distribution;
use crate::engine::topics_of;
use crate::histogram::histogram;
use crate::outcome::{
    Anomaly, Connections, End, Generator, Interval, Latencies, Operations, Outcome, PhaseSpan,
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
        subscriptions: Operations::default(),
        access: None,
        warm_up: Default::default(),
        measure: Default::default(),
        traffic: Default::default(),
        latencies: Latencies {
            connect: histogram(),
            subscribe: histogram(),
            acknowledge: histogram(),
            acknowledge_from_intended: histogram(),
            end_to_end: histogram(),
            end_to_end_from_send: histogram(),
        },
        intervals,
        distributions,
        generator: Generator {
            cpu_user_us: 0,
            cpu_system_us: 0,
            wall_us: 0,
            lag: histogram(),
            turn: histogram(),
            ledger_bytes: 0,
            invalid: Vec::new(),
        },
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
    outcome.subscriptions.asked += of.subscriptions.asked;
    outcome.subscriptions.granted += of.subscriptions.granted;
    add_counts(&mut outcome.subscriptions.failed, &of.subscriptions.failed);
    outcome.access = outcome.access.or(of.access);
    outcome.unclocked += of.unclocked;
    outcome.traffic.published += of.traffic.published;
    outcome.traffic.received += of.traffic.received;
    outcome.traffic.duplicated += of.traffic.duplicated;
    let (latencies, generator) = (&mut outcome.latencies, &mut outcome.generator);
    generator.cpu_user_us += of.cpu_user_us;
    generator.cpu_system_us += of.cpu_system_us;
    generator.wall_us = generator.wall_us.max(of.wall_us);
    generator.ledger_bytes += of.ledger_bytes;
    generator.invalid.extend(of.invalid.iter().map(|why| format!("{}: {why}", report.name)));
    let sums = [
        &mut latencies.connect,
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
