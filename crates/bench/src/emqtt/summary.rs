//! What is said at the end of a run: percentiles, the ledger's sums, the generator's health.

use super::lines::millis;
use super::options::{Options, Work};
use crate::result::{Status, Verdict};
use crate::usecase::Contract;
use crate::verdict::judge;
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use weir_load::outcome::{Messages, Phase};
use weir_load::{Outcome, Plan};

/// Whether the run can be believed and its messages came, by the contract of a use case that names
/// none: the rate within 1 %, nothing lost.
pub(super) fn verdict(outcome: &Outcome) -> Verdict {
    judge(outcome, &Contract::default(), None)
}

/// The summary as lines of `name  what`.
pub(super) fn render(
    options: &Options,
    plan: &Plan,
    outcome: &Outcome,
    verdict: &Verdict,
) -> String {
    let mut rows: Vec<(&str, String)> = vec![("time", times(outcome))];
    rows.push(("connections", connections(outcome)));
    let latencies = &outcome.latencies;
    rows.extend(percentiles("connect", &latencies.connect));
    rows.extend(percentiles("subscribe", &latencies.subscribe));
    // There is no warm-up: everything is measured.
    let messages = &outcome.measure;
    if let Work::Publish { audience, .. } = &options.work {
        rows.push(("published", published(messages)));
        rows.extend(percentiles("acknowledged", &latencies.acknowledge_from_intended));
        rows.extend(percentiles("from the send", &latencies.acknowledge));
        rows.extend(wire(plan).map(|text| ("on the wire", text)));
        if audience.is_some() {
            rows.push(("delivered", delivered(messages)));
            rows.extend(percentiles("due to received", &latencies.end_to_end));
            rows.extend(percentiles("sent to received", &latencies.end_to_end_from_send));
        } else {
            rows.push((
                "delivered",
                "not known: nobody here subscribes; --subscribers N audits every delivery".into(),
            ));
        }
    }
    if matches!(options.work, Work::Subscribe { .. }) {
        let why = "only counted: it is not known here who published them and when they were due";
        rows.push(("received", format!("{}, {why}", messages.received)));
    }
    rows.push(("generator", generator(outcome)));
    let mut text = String::from("summary\n");
    for (name, what) in rows {
        let _ = writeln!(text, "  {name:<18}{what}");
    }
    let _ = writeln!(text, "  {:<18}{}", "verdict", verdict.status.name());
    for reason in &verdict.reasons {
        let _ = writeln!(text, "  {:<18}{reason}", "");
    }
    text
}

/// Exit code 0 for a run that passed, 1 for one that did not, 130 for one that was cut off.
pub(super) fn exit_code(verdict: &Verdict) -> u8 {
    match verdict.status {
        Status::Passed => 0,
        Status::Failed | Status::Invalid | Status::Unsupported => 1,
        Status::Aborted => 130,
    }
}

fn times(outcome: &Outcome) -> String {
    let seconds = |phases: &[Phase]| {
        let spans = outcome.phases.iter().filter(|span| phases.contains(&span.phase));
        spans.map(|span| span.end_us.saturating_sub(span.start_us)).sum::<u64>() as f64 / 1e6
    };
    format!(
        "{:.1} s to connect and subscribe, {:.1} s measured, {:.1} s waited for what was owed",
        seconds(&[Phase::Connect, Phase::Subscribe]),
        seconds(&[Phase::WarmUp, Phase::Measure]),
        seconds(&[Phase::Drain])
    )
}

fn connections(outcome: &Outcome) -> String {
    let of = &outcome.connections;
    let reasons = |kind: &str, of: &std::collections::BTreeMap<String, u64>| {
        let text: Vec<String> =
            of.iter().map(|(why, count)| format!("; {count} {kind}: {why}")).collect();
        text.concat()
    };
    format!(
        "{} of {}{}{}",
        of.connected,
        of.planned,
        reasons("failed", &of.failed),
        reasons("dropped", &of.dropped)
    )
}

/// Nothing where nothing was measured.
fn percentiles(name: &'static str, of: &Histogram<u64>) -> Option<(&'static str, String)> {
    if of.is_empty() {
        return None;
    }
    let at = |quantile: f64| millis(of.value_at_quantile(quantile));
    let text = format!(
        "p50={} p90={} p99={} p99.9={} max={} of {}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        millis(of.max()),
        of.len()
    );
    Some((name, text))
}

fn published(messages: &Messages) -> String {
    format!(
        "{} due, {} sent, {} unsent, {} accepted, {} refused, {} never acknowledged",
        messages.intended,
        messages.sent,
        messages.unsent,
        messages.accepted,
        messages.refused,
        messages.unacknowledged
    )
}

fn delivered(messages: &Messages) -> String {
    format!(
        "{} of {} owed, {} lost, {} twice, {} out of order, {} after the wait",
        messages.delivered,
        messages.expected,
        messages.lost,
        messages.duplicated,
        messages.reordered,
        messages.late_after_drain
    )
}

/// A payload is as long as asked for; what is added to it belongs to MQTT.
fn wire(plan: &Plan) -> Option<String> {
    let publish = plan.groups.iter().find_map(|group| group.publish.as_ref())?;
    let (bytes, payload) = (publish.bytes_on_wire(plan.version, plan.run), publish.payload_bytes);
    Some(format!("a PUBLISH of {bytes} B with a payload of {payload} B, the stamp in it"))
}

fn generator(outcome: &Outcome) -> String {
    let of = &outcome.generator;
    let cores = (of.cpu_user_us + of.cpu_system_us) as f64 / of.wall_us.max(1) as f64;
    let lag = match of.lag.is_empty() {
        true => String::new(),
        false => format!(", lag p99={}", millis(of.lag.value_at_quantile(0.99))),
    };
    let turn = millis(of.turn.value_at_quantile(0.99));
    let health = if of.invalid.is_empty() { "healthy" } else { "it was the limit" };
    format!("{cores:.2} cores{lag}, loop p99={turn}: {health}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::outcome;
    use weir_load::outcome::PhaseSpan;

    #[test]
    fn the_times_are_those_of_setting_up_of_measuring_and_of_waiting() {
        let mut outcome = outcome();
        let mut begin_us = 5_000_000;
        for (phase, ms) in [
            (Phase::Connect, 1_000),
            (Phase::Subscribe, 500),
            (Phase::WarmUp, 3_000),
            (Phase::Measure, 10_000),
            (Phase::Drain, 200),
        ] {
            let end_us = begin_us + ms * 1_000;
            outcome.phases.push(PhaseSpan { phase, start_us: begin_us, end_us });
            begin_us = end_us;
        }
        let text =
            "1.5 s to connect and subscribe, 13.0 s measured, 0.2 s waited for what was owed";
        assert_eq!(times(&outcome), text);
    }
}
