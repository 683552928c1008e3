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
        label: step.name.clone(),
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
    let found = recovery(pulse, begin_us, end_us, until_us);
    let second = |at_us: u64| at_us.saturating_sub(pulse.start_us) as f64 / 1e6;
    let early_us = begin_us.saturating_sub(IN_FLIGHT_US).max(pulse.start_us);
    let lost = recovery(pulse, early_us, end_us, until_us.saturating_sub(IN_FLIGHT_US)).lost;
    FaultResult {
        name: step.name().into(),
        group: step.group.clone(),
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
        step.name.clone(),
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
    let errors = course.steps.iter().filter_map(|step| Some((&step.name, step.error.as_ref()?)));
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
}
