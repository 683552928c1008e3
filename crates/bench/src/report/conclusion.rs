//! What the runs of a page come to, in a few sentences above everything else.

use super::runs::{Repeats, Use, worst};
use super::tiles::short;
use crate::numbers::millis;
use crate::result::{RunResult, Status};
use std::fmt::Write as _;

/// Brokers that are set beside the first one in words; the bars show all of them.
const COMPARED_MAX: usize = 5;

/// The conclusion: which use cases each broker passed, then how the brokers' costs relate, or what
/// the only broker's are.
pub(super) fn sentences(uses: &[Use<'_>], is_judged: bool) -> Vec<String> {
    let brokers = super::overview::brokers(uses);
    let mut sentences = all_verdicts(uses, &brokers);
    match &*brokers {
        [(_, only)] => sentences.extend(figures(uses, only)),
        [(_, base), rest @ ..] => {
            let before = sentences.len();
            let related = rest.iter().take(COMPARED_MAX);
            sentences.extend(related.filter_map(|(_, other)| relation(uses, base, other)));
            if sentences.len() > before {
                sentences.push(if is_judged {
                    "Ratios are geometric means of medians; which of them are more than noise, the \
                     comparison says."
                        .into()
                } else {
                    "Ratios of single runs are no verdict: --repeat 5 gives one.".into()
                });
            }
        }
        [] => {}
    }
    sentences
}

fn of<'a>(of: &'a Use<'_>, label: &str) -> Option<&'a Repeats<'a>> {
    of.brokers.iter().find(|broker| broker.label == label)
}

/// What the brokers passed, a sentence for those of which the same is to be said.
fn all_verdicts(uses: &[Use<'_>], brokers: &[(usize, &str)]) -> Vec<String> {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (_, label) in brokers {
        let text = verdicts(uses, label);
        match said.iter_mut().find(|(known, _)| *known == text) {
            Some((_, labels)) => labels.push(label),
            None => said.push((text, vec![label])),
        }
    }
    let sentence = |(text, labels): (String, Vec<&str>)| match labels.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{} and {last} each {text}", rest.join(", "))
        }
        _ => format!("{} {text}", labels.concat()),
    };
    said.into_iter().map(sentence).collect()
}

/// How many use cases a broker passed, and what became of the others.
fn verdicts(uses: &[Use<'_>], label: &str) -> String {
    let all: Vec<Status> = uses.iter().filter_map(|case| Some(worst(of(case, label)?))).collect();
    let count = |status| all.iter().filter(|one| **one == status).count();
    let cases = if all.len() == 1 { "use case" } else { "use cases" };
    let mut text = format!("passed {} of {} {cases}", count(Status::Passed), all.len());
    for (status, words) in [
        (Status::Failed, "failed"),
        (Status::Invalid, "invalid, because the load generator was late or the limit"),
        (Status::Aborted, "aborted"),
        (Status::Unsupported, "not supported"),
    ] {
        if count(status) > 0 {
            let _ = write!(text, "; {} {words}", count(status));
        }
    }
    text + "."
}

/// The median of what a broker's runs say on a use case that it passed.
fn median(case: &Use<'_>, label: &str, value: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
    let broker = of(case, label).filter(|broker| worst(broker) == Status::Passed)?;
    broker.spread(value).map(|spread| spread.median).filter(|median| *median > 0.0)
}

fn p99_us(run: &RunResult) -> Option<f64> {
    run.latency().filter(|of| of.count > 0).map(|of| of.p99_us as f64)
}

fn memory_bytes(run: &RunResult) -> Option<f64> {
    run.resources.as_ref().map(|of| of.rss_stable_bytes as f64)
}

/// What one broker took of another's CPU, latency and memory, over the use cases both passed.
fn relation(uses: &[Use<'_>], base: &str, other: &str) -> Option<String> {
    let ratio = |value: fn(&RunResult) -> Option<f64>| {
        let of_case = |case| Some(median(case, other, value)? / median(case, base, value)?);
        let logs: Vec<f64> = uses.iter().filter_map(of_case).map(f64::ln).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (!logs.is_empty()).then(|| (mean.exp(), logs.len()))
    };
    let (p99, cases) = ratio(p99_us)?;
    let mut parts = vec![format!("{p99:.2} times the p99 latency")];
    let cpu = ratio(RunResult::cpu_us_each).map(|(cpu, _)| format!("{cpu:.2} times the CPU"));
    let memory = ratio(memory_bytes).map(|(memory, _)| format!("{memory:.2} times the memory"));
    parts.splice(0..0, cpu);
    parts.extend(memory);
    let last = parts.pop().unwrap_or_default();
    let list = if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) };
    let both = if cases == 1 { "use case" } else { "use cases" };
    Some(format!("Over {cases} {both} that both passed, {other} had {list} of {base}."))
}

/// What the only broker of a page needed, from the use case with the least to the one with most.
fn figures(uses: &[Use<'_>], label: &str) -> Option<String> {
    let span = |value: fn(&RunResult) -> Option<f64>, text: &dyn Fn(f64) -> String| {
        let known =
            || uses.iter().filter_map(|case| Some((median(case, label, value)?, case.name)));
        let low = known().min_by(|one, other| one.0.total_cmp(&other.0))?;
        let high = known().max_by(|one, other| one.0.total_cmp(&other.0))?;
        let of = |(value, name)| format!("{} ({})", text(value), short(name));
        Some(if known().count() == 1 {
            text(low.0)
        } else {
            format!("{} to {}", of(low), of(high))
        })
    };
    let p99 = span(p99_us, &|us| format!("{} ms", millis(us)))?;
    let cpu = span(RunResult::cpu_us_each, &|us| format!("{} µs", millis(us * 1e3)));
    let cpu = cpu.map_or_else(String::new, |cpu| format!("; its CPU per message or connect {cpu}"));
    Some(format!("Its p99 latency was {p99}{cpu}."))
}
