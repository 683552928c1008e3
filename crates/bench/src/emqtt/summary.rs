//! What is said at the end of a run: percentiles, the ledger's sums, the generator's health.

use super::lines::millis;
use super::options::{Options, Work};
use crate::result::{Status, Verdict};
use crate::usecase::Contract;
use crate::verdict::judge;
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use weir_load::outcome::{Handshakes, Messages, Phase};
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
    rows.extend(percentiles("of it TCP", &latencies.tcp_connect));
    rows.extend(percentiles("of it handshake", &latencies.handshake));
    rows.extend(percentiles("of it CONNACK", &latencies.connack));
    rows.extend(handshakes(&outcome.handshakes));
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

/// Nothing where TLS was not spoken.
fn handshakes(of: &Handshakes) -> Option<(&'static str, String)> {
    let Handshakes { full, resumed } = *of;
    (full + resumed > 0).then(|| ("handshakes", format!("{full} full, {resumed} resumed")))
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

    use super::super::options::{Audience, Common};
    use weir_load::plan::{Group, Phases, Publish};

    fn options(work: Work) -> Options {
        let common = Common {
            url: "mqtt://localhost".parse().unwrap(),
            tls: None,
            version: 5,
            clients: 1,
            start_number: 0,
            connect_rate_per_s: 0,
            connect_interval_ms: 10,
            credentials: Default::default(),
            keep_alive_s: 300,
            is_clean: true,
            prefix: None,
        };
        Options { common, work }
    }

    /// The summary's lines, by the name in front.
    fn lines(work: Work, outcome: &Outcome) -> std::collections::BTreeMap<String, String> {
        let publish =
            Publish { topic: "ab".into(), qos: 1, payload_bytes: 20, ..Publish::default() };
        let group = Group { clients: 1, publish: Some(publish), ..Group::default() };
        let phases = Phases { warm_up_ms: 0, measure_ms: 1, drain_ms: 0 };
        let plan = Plan::new("127.0.0.1:1".parse().unwrap(), vec![group], phases);
        let text = render(&options(work), &plan, outcome, &verdict(outcome));
        let cut = |line: &str| (line[..20].trim().to_owned(), line[20..].to_owned());
        text.lines().skip(1).map(cut).collect()
    }

    fn publish(audience: Option<Audience>) -> Work {
        let (topic, qos, payload_bytes) = ("t".to_owned(), 1, 20);
        let (interval_ms, limit, is_retained) = (1, 0, false);
        Work::Publish { topic, qos, payload_bytes, interval_ms, limit, is_retained, audience }
    }

    fn seen() -> Outcome {
        let mut of = outcome();
        of.measure = Messages {
            intended: 1,
            sent: 2,
            unsent: 3,
            accepted: 4,
            refused: 5,
            unacknowledged: 6,
            delivered: 7,
            expected: 8,
            lost: 9,
            duplicated: 10,
            reordered: 11,
            late_after_drain: 12,
            received: 13,
            ..Messages::default()
        };
        of.connections.connected = 9;
        of.connections.failed.insert("refused".into(), 1);
        of.connections.dropped.insert("closed".into(), 2);
        let latencies = &mut of.latencies;
        for (at, histogram) in [
            &mut latencies.connect,
            &mut latencies.subscribe,
            &mut latencies.acknowledge,
            &mut latencies.acknowledge_from_intended,
            &mut latencies.end_to_end,
            &mut latencies.end_to_end_from_send,
            &mut of.generator.lag,
            &mut of.generator.turn,
        ]
        .into_iter()
        .enumerate()
        {
            histogram.record(100 * (at as u64 + 1)).unwrap();
        }
        of.generator.cpu_system_us = 400_000;
        of
    }

    #[test]
    fn each_figure_stands_behind_its_name() {
        let text = lines(publish(Some(Audience { subscribers: 1, filter: None })), &seen());
        let one = |ms: &str| format!("p50={ms} p90={ms} p99={ms} p99.9={ms} max={ms} of 1");
        for (name, expected) in [
            ("connections", "9 of 11; 1 failed: refused; 2 dropped: closed".into()),
            ("connect", one("0.10ms")),
            ("subscribe", one("0.20ms")),
            ("from the send", one("0.30ms")),
            ("acknowledged", one("0.40ms")),
            ("due to received", one("0.50ms")),
            ("sent to received", one("0.60ms")),
            (
                "published",
                "1 due, 2 sent, 3 unsent, 4 accepted, 5 refused, 6 never acknowledged".into(),
            ),
            (
                "delivered",
                "7 of 8 owed, 9 lost, 10 twice, 11 out of order, 12 after the wait".into(),
            ),
            ("generator", "0.40 cores, lag p99=0.70ms, loop p99=0.80ms: healthy".into()),
            ("verdict", "failed".into()),
        ] {
            assert_eq!(text[name], expected, "{name}");
        }
        let wire = &text["on the wire"];
        assert!(wire.ends_with(" B with a payload of 20 B, the stamp in it"), "{wire}");
        let broken: Vec<&str> = text[""].lines().collect();
        assert!(!broken.is_empty(), "the reasons follow the verdict: {text:?}");
    }

    #[test]
    fn what_nobody_saw_is_not_told_as_a_figure() {
        let mut of = outcome();
        of.generator.cpu_system_us = 1_999_900;
        let text = lines(publish(None), &of);
        let names: Vec<&str> = text.keys().map(String::as_str).collect();
        let expected = [
            "connections",
            "delivered",
            "generator",
            "on the wire",
            "published",
            "time",
            "verdict",
        ];
        assert_eq!(names, expected);
        assert!(text["delivered"].starts_with("not known: nobody here subscribes"));
        assert_eq!(text["generator"], "2.00 cores, loop p99=0.00ms: healthy");
        of.generator.invalid = vec!["it was late".into()];
        let text = lines(Work::Subscribe { filters: Vec::new(), qos: 0 }, &of);
        assert!(text["received"].starts_with("0, only counted"), "{text:?}");
        assert_eq!(text["generator"], "2.00 cores, loop p99=0.00ms: it was the limit");
        assert_eq!((&*text["verdict"], &*text[""]), ("invalid", "it was late"));
        assert!(!lines(Work::Connect, &of).contains_key("received"));
    }

    #[test]
    fn the_exit_code_says_the_verdict() {
        let code = |status| exit_code(&Verdict { status, reasons: Vec::new() });
        let all = [Status::Passed, Status::Failed, Status::Invalid, Status::Unsupported];
        assert_eq!(all.map(code), [0, 1, 1, 1]);
        assert_eq!(code(Status::Aborted), 130);
    }
}
