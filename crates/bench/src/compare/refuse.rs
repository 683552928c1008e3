//! What makes two runs incomparable, each difference by its name.

use crate::result::RunResult;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that two sides must have in common and have not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What differs, with its use case where that matters.
    pub what: String,
    /// As one run has it.
    pub one: String,
    /// As another has it.
    pub other: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, one, other } = self;
        write!(out, "{what}: {one} and {other}")
    }
}

/// Longest text of a value that is shown.
const SHOWN_CHARS_MAX: usize = 60;

type Aspect = (&'static str, fn(&RunResult) -> String);

/// Of the host: the same in all use cases.
const OF_HOST: &[Aspect] = &[
    ("schema", |run| run.schema.to_string()),
    ("host CPU", |run| run.host.cpu_model.clone()),
    ("host cores", |run| run.host.cores.to_string()),
    ("host governor", |run| run.host.governor.clone()),
    ("host memory", |run| format!("{} MiB", run.host.memory_bytes >> 20)),
    ("host system", |run| run.host.os.clone()),
    ("host kernel", |run| run.host.kernel.clone()),
    ("host virtualization", |run| run.host.virtualization.clone()),
    ("pinning", |run| run.host.pinning.clone()),
    ("load agents", |run| run.generator.agents.len().to_string()),
    ("profile", |run| run.broker.profile.clone()),
];

/// Of what was run.
const OF_USE_CASE: &[Aspect] = &[
    ("scale", |run| run.use_case.scale.to_string()),
    ("revision", |run| run.use_case.revision.to_string()),
    ("file", |run| short_hash(&run.use_case.file_sha256)),
    ("duration", |run| format!("{} s", run.use_case.duration_s)),
    ("warm-up", |run| format!("{:.1} s", warm_up_s(run))),
    ("abreast", |run| abreast(run)),
];

fn short_hash(hex: &str) -> String {
    format!("sha256 {}", hex.get(..12).unwrap_or(hex))
}

fn warm_up_s(run: &RunResult) -> f64 {
    let phase = run.phases.iter().find(|phase| phase.name == "warm-up");
    phase.map_or(0.0, |phase| phase.end_s - phase.start_s)
}

fn abreast(run: &RunResult) -> String {
    let length_ms = run.repetition.as_ref().and_then(|of| of.abreast_ms);
    length_ms.map_or_else(|| "one after the other".into(), |ms| format!("turns of {ms} ms"))
}

/// What differs among runs that are to be compared, all of one use case: each with the first.
pub fn differences(runs: &[&RunResult]) -> Vec<Difference> {
    let mut found = Vec::new();
    let Some((first, rest)) = runs.split_first() else { return found };
    let mut note = |what: String, one: &str, other: &str| {
        let difference = Difference { what, one: cut(one), other: cut(other) };
        if one != other && !found.contains(&difference) {
            found.push(difference);
        }
    };
    for run in rest {
        for (what, of) in OF_HOST {
            note((*what).to_owned(), &of(first), &of(run));
        }
        for (what, of) in OF_USE_CASE {
            note(format!("{what} of {}", first.use_case.name), &of(first), &of(run));
        }
        let (mine, theirs) = (&first.host.sysctls, &run.host.sysctls);
        for (name, value) in mine {
            if let Some(other) = theirs.get(name) {
                note(format!("host {name}"), value, other);
            }
        }
    }
    found
}

fn cut(text: &str) -> String {
    let shown = |text: &str| text.chars().filter(|char| !char.is_control()).collect::<String>();
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => shown(text),
        Some((end, _)) => shown(&text[..end]) + "...",
    }
}

/// What does not forbid a comparison and must be known with it.
pub(super) fn notes(base: &[RunResult], other: &[RunResult]) -> Vec<String> {
    let mut notes = Vec::new();
    let session = |runs: &[RunResult]| {
        runs.iter().find_map(|run| Some(run.repetition.as_ref()?.session.clone()))
    };
    if session(base).is_none() || session(base) != session(other) {
        notes.push(
            "the sides were not run in turn, so changes of the host over time are part of the \
             difference"
                .into(),
        );
    }
    let suite = |run: &RunResult| format!("{} ({})", run.suite.version, run.suite.commit);
    if let ([one, ..], [another, ..]) = (base, other)
        && suite(one) != suite(another)
    {
        let text = format!("the suite itself differs: {} and {}", suite(one), suite(another));
        notes.push(text);
    }
    notes
}
