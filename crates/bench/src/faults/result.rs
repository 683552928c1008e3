//! What the steps of a run brought: put together, and as a table.

use super::injector::Happened;
use super::recovery::recovery;
use crate::latency::summarize;
use crate::result::{CourseResult, FaultResult, Mark};
use crate::usecase::Step;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use weir_load::Outcome;
use weir_load::outcome::Phase;

/// A fault's window begins so long before it: what was in flight then is lost by it.
const IN_FLIGHT_US: u64 = 1_000_000;

/// The steps as the charts of the run name them; `measure_s` is the begin of measure in the run.
pub(crate) fn marks(course: &CourseResult, measure_s: f64) -> Vec<Mark> {
    let mark = |step: &FaultResult| Mark {
        t_s: measure_s + step.begin_s,
        until_s: (step.end_s > step.begin_s).then_some(measure_s + step.end_s),
        label: step.title(),
    };
    course.steps.iter().map(mark).collect()
}

/// Puts together what happened and what was counted; nothing for a use case without steps.
pub(crate) fn course(
    steps: &[Step],
    happened: &[Happened],
    has_proxy: bool,
    outcome: &Outcome,
) -> Option<CourseResult> {
    let returns = &outcome.course.returns;
    if steps.is_empty() && returns.lost.is_empty() && returns.ended == 0 {
        return None;
    }
    let mut times = times(steps, happened, outcome);
    times.sort_by_key(|time| time.1);
    let results = (0..times.len()).map(|at| {
        let next_us = times.get(at + 1).map_or(u64::MAX, |next| next.1);
        of_step(&steps[times[at].0], times[at], next_us, outcome)
    });
    let delay = &returns.delay;
    Some(CourseResult {
        has_proxy,
        steps: results.collect(),
        connections_lost: returns.lost.clone(),
        connections_ended: returns.ended,
        attempts_failed: returns.attempts_failed.clone(),
        returned: returns.returned,
        sessions_resumed: returns.resumed,
        away_at_end: returns.away_at_end,
        messages_resent: returns.resent,
        taken_over_left_open: returns.old_left_open,
        reconnection_delay: (!delay.is_empty()).then(|| summarize(delay)),
    })
}

/// A step's index, begin and end, and what went wrong with it.
type Time<'a> = (usize, u64, u64, Option<&'a String>);

/// Of the steps that took place: those of clients are in time by plan.
fn times<'a>(steps: &[Step], happened: &'a [Happened], outcome: &Outcome) -> Vec<Time<'a>> {
    let mut times: Vec<Time<'a>> = happened
        .iter()
        .map(|one| (one.step, one.begin_us, one.end_us, one.error.as_ref()))
        .collect();
    let measure = outcome.phases.iter().find(|span| span.phase == Phase::Measure);
    let Some(measure) = measure else { return times };
    let micros = |seconds: f64| (seconds * 1e6) as u64;
    for (at, step) in steps.iter().enumerate() {
        let begin_us = measure.start_us + micros(step.at.seconds);
        let is_theirs = step.fault.is_none_or(|f| !f.is_of_broker() && !f.is_of_network());
        if is_theirs && begin_us < measure.end_us {
            times.push((at, begin_us, measure.start_us + micros(step.end_s()), None));
        }
    }
    times
}

fn of_step(step: &Step, time: Time<'_>, next_us: u64, outcome: &Outcome) -> FaultResult {
    let (_, begin_us, end_us, error) = time;
    let pulse = &outcome.course.pulse;
    let until_us = next_us.max(end_us);
    // What is lost of one node, the others take over: not only when it is back.
    let over_us = if step.node.is_some() { begin_us } else { end_us };
    let found = recovery(pulse, begin_us, over_us, until_us);
    let second = |at_us: u64| at_us.saturating_sub(pulse.start_us) as f64 / 1e6;
    let early_us = begin_us.saturating_sub(IN_FLIGHT_US).max(pulse.start_us);
    let lost = recovery(pulse, early_us, end_us, until_us.saturating_sub(IN_FLIGHT_US)).lost;
    FaultResult {
        name: step.name().into(),
        group: step.group.clone(),
        node: step.node,
        begin_s: second(begin_us),
        end_s: second(end_us),
        error: error.cloned(),
        rate_before_per_s: found.rate_before,
        detect_s: found.detect_s,
        silence_s: found.silence_s,
        first_delivery_s: found.first_delivery_s,
        rate_back_s: found.rate_back_s,
        all_back_s: found.all_back_s,
        connections_lost: found.connections_lost,
        clients_back: found.clients_back,
        deliveries_lost: lost,
    }
}

/// The columns of a step.
pub(crate) const HEAD: [&str; 11] = [
    "step",
    "at",
    "for",
    "detected",
    "silence",
    "1st message",
    "rate back",
    "lost conn.",
    "back",
    "all back",
    "lost",
];

/// The steps of one run as a table, and what they brought together in a sentence.
pub fn table(course: &CourseResult) -> (Table, String) {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(HEAD);
    for step in &course.steps {
        table.add_row(row(step));
    }
    (table, sentence(course))
}

/// A step and its figures, as [`HEAD`] has them.
pub(crate) fn row(step: &FaultResult) -> [String; 11] {
    let time = |seconds: Option<f64>| seconds.map_or("-".into(), |s| format!("{s:.2} s"));
    [
        step.title(),
        format!("{:.1} s", step.begin_s),
        time(Some(step.end_s - step.begin_s)),
        time(step.detect_s),
        time(Some(step.silence_s)),
        time(step.first_delivery_s),
        time(step.rate_back_s),
        step.connections_lost.to_string(),
        step.clients_back.to_string(),
        time(step.all_back_s),
        step.deliveries_lost.to_string(),
    ]
}

/// What the steps brought together.
pub(crate) fn sentence(course: &CourseResult) -> String {
    let lost: u64 = course.connections_lost.values().sum();
    let mut parts = vec![format!(
        "{lost} connections lost, {} ended by steps; {} returns, {} with their session",
        course.connections_ended, course.returned, course.sessions_resumed
    )];
    if let Some(delay) = &course.reconnection_delay {
        let ms = |us: u64| us as f64 / 1e3;
        parts.push(format!(
            "reconnection delay p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            ms(delay.p50_us),
            ms(delay.p99_us),
            ms(delay.max_us)
        ));
    }
    if course.messages_resent > 0 {
        parts.push(format!("{} messages sent again", course.messages_resent));
    }
    if course.has_proxy {
        parts.push("load and broker were connected through the suite's proxy".into());
    }
    let errors = course.steps.iter().filter_map(|step| Some((step.title(), step.error.as_ref()?)));
    parts.extend(errors.map(|(name, error)| format!("{name} failed: {error}")));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, rate_back_s: Option<f64>) -> FaultResult {
        let rate_before_per_s = 100.0;
        FaultResult { name: name.into(), rate_before_per_s, rate_back_s, ..Default::default() }
    }

    #[test]
    fn the_table_has_a_row_a_step_and_the_sentence_names_errors() {
        let error = Some("it was not started again".to_owned());
        let kill = FaultResult { error, ..step("kill", None) };
        let course =
            CourseResult { steps: vec![step("freeze", Some(0.25)), kill], ..Default::default() };
        let (table, sentence) = table(&course);
        let text = table.to_string();
        assert!(text.contains("freeze") && text.contains("0.25 s"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 118), "{text}");
        assert!(sentence.contains("kill failed: it was not started again"), "{sentence}");
        assert_eq!(course.broken().len(), 1);
    }

    use crate::usecase::UseCase;
    use crate::verdict::tests::outcome;
    use weir_load::outcome::PhaseSpan;
    use weir_load::steps::{Beat, Pulse};

    const SECOND: u64 = 1_000_000;

    /// A step of the broker 2 s into measure, and two of clients at 4 s and 30 s.
    fn steps() -> Vec<Step> {
        let text = r#"
            name = "mine"
            revision = 1
            about = ""
            mqtt_version = "5.0"
            connect_rate_per_s = 10
            measure_s = 40
            needs = ["mqtt-5.0"]
            [[group]]
            name = "one"
            clients = 4
            client_id = "a{i}"
            scales = false
            publish = { topic = "a", qos = 0, rate_per_s = 1, payload_bytes = 16 }
            [[step]]
            at = "2s"
            fault = "freeze"
            for = "3s"
            [[step]]
            at = "4s"
            fault = "cut"
            group = "one"
            [[step]]
            at = "30s"
            fault = "cut"
            group = "one"
        "#;
        UseCase::parse("mine", text).unwrap().step
    }

    /// Ten seconds of measure from the 100th on, seen beat by beat: ten messages in each, and
    /// something lost and a connection ended at two times.
    fn seen() -> Outcome {
        let mut of = outcome();
        let (start_us, end_us) = (100 * SECOND, 110 * SECOND);
        of.phases = vec![PhaseSpan { phase: Phase::Measure, start_us, end_us }];
        let mut beats = vec![Beat { received: 10, ..Beat::default() }; 1_000];
        beats[150].lost = 1;
        beats[250].lost = 2;
        beats[250].gone = 3;
        beats[350].lost = 4;
        beats[460].lost = 8;
        beats[470].gone = 5;
        beats[480].back = 6;
        of.course.pulse = Pulse { start_us, beats };
        of
    }

    fn frozen() -> Happened {
        let (begin_us, end_us) = (102 * SECOND, 105 * SECOND);
        Happened { step: 0, begin_us, end_us, error: Some("it did not".into()) }
    }

    #[test]
    fn each_step_has_its_own_time_and_what_was_lost_by_it() {
        let found = course(&steps(), &[frozen()], true, &seen()).unwrap();
        let [freeze, cut] = &*found.steps else { panic!("the third had no time: {found:?}") };
        assert_eq!((&*freeze.name, freeze.begin_s, freeze.end_s), ("freeze", 2.0, 5.0));
        assert_eq!((&freeze.group, freeze.error.as_deref()), (&None, Some("it did not")));
        assert_eq!((cut.begin_s, cut.end_s), (4.0, 4.0));
        assert_eq!((cut.group.as_deref(), &cut.error), (Some("one"), &None));
        assert_eq!((freeze.rate_before_per_s, freeze.detect_s), (1_000.0, Some(0.51)));
        // Until its own end, although the next one has begun by then.
        assert_eq!((freeze.connections_lost, freeze.clients_back), (8, 6));
        assert_eq!((cut.connections_lost, cut.clients_back), (5, 6));
        // From a second before it to a second before its end or the next one.
        assert_eq!((freeze.deliveries_lost, cut.deliveries_lost), (7, 12));
        assert!(found.has_proxy);
        let marks = marks(&found, 50.0);
        let marks: Vec<_> = marks.iter().map(|mark| (mark.t_s, mark.until_s)).collect();
        assert_eq!(marks, [(52.0, Some(55.0)), (54.0, None)]);
    }

    #[test]
    fn returns_are_told_each_by_its_name_and_only_where_there_are_any() {
        let mut of = seen();
        assert!(course(&[], &[], false, &of).is_none());
        of.course.returns.ended = 1;
        assert!(course(&[], &[], false, &of).is_some());
        let returns = &mut of.course.returns;
        returns.lost.insert("closed".into(), 2);
        returns.attempts_failed.insert("refused".into(), 3);
        (returns.returned, returns.resumed, returns.away_at_end) = (4, 5, 6);
        (returns.resent, returns.old_left_open) = (7, 8);
        returns.delay.record(9_000).unwrap();
        let found = course(&[], &[], false, &of).unwrap();
        assert_eq!((found.connections_lost["closed"], found.connections_ended), (2, 1));
        assert_eq!((found.attempts_failed["refused"], found.returned), (3, 4));
        assert_eq!((found.sessions_resumed, found.away_at_end), (5, 6));
        assert_eq!((found.messages_resent, found.taken_over_left_open), (7, 8));
        assert_eq!(
            sentence(&found),
            "2 connections lost, 1 ended by steps; 4 returns, 5 with their session; \
             reconnection delay p50 9.0 ms, p99 9.0 ms, max 9.0 ms; 7 messages sent again"
        );
        of.course.returns.ended = 0;
        assert!(course(&[], &[], false, &of).is_some(), "lost without a step");
    }

    #[test]
    fn a_row_has_each_figure_under_its_head() {
        let step = FaultResult {
            name: "freeze".into(),
            begin_s: 1.3,
            end_s: 3.5,
            detect_s: Some(0.13),
            silence_s: 4.0,
            first_delivery_s: Some(5.0),
            rate_back_s: None,
            connections_lost: 6,
            clients_back: 7,
            all_back_s: Some(0.25),
            deliveries_lost: 8,
            ..FaultResult::default()
        };
        let begin = ["freeze", "1.3 s", "2.20 s", "0.13 s", "4.00 s", "5.00 s", "-"];
        let expected = [&begin[..], &["6", "7", "0.25 s", "8"]].concat();
        assert_eq!(&row(&step)[..], expected);
    }
}
