//! Which runs stand against which.

use super::CompareError;
use crate::result::{Broker, RunResult};

/// The runs of one use case on two sides.
pub(super) struct Matched<'a> {
    pub(super) use_case: &'a str,
    pub(super) base: Vec<&'a RunResult>,
    pub(super) other: Vec<&'a RunResult>,
}

impl<'a> Matched<'a> {
    /// Of both sides.
    pub(super) fn runs(&self) -> Vec<&'a RunResult> {
        self.base.iter().chain(&self.other).copied().collect()
    }
}

/// A broker as one side: another version, build or profile of it is another.
#[derive(Clone, Copy)]
struct Who<'a> {
    name: &'a str,
    profile: &'a str,
    nodes: u32,
    version: &'a str,
    /// Nothing where it is not known: then the version has to do.
    program: Option<&'a str>,
}

impl PartialEq for Who<'_> {
    fn eq(&self, other: &Self) -> bool {
        let is_program = self.program.zip(other.program).is_none_or(|(one, other)| one == other);
        self.is_broker(other) && self.version == other.version && is_program
    }
}

impl Who<'_> {
    /// Whether it is the same but for version and build.
    fn is_broker(&self, other: &Who<'_>) -> bool {
        (self.name, self.profile, self.nodes) == (other.name, other.profile, other.nodes)
    }
}

fn who(run: &RunResult) -> Who<'_> {
    let Broker { name, profile, version, nodes, .. } = &run.broker;
    Who { name, profile, nodes: *nodes, version, program: run.program() }
}

/// What is there, each once, in the order of its first run.
fn distinct<'a, T: PartialEq>(runs: &'a [RunResult], of: fn(&'a RunResult) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for run in runs {
        let one = of(run);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn of<'a>(runs: &'a [RunResult], use_case: &str, broker: Who<'_>) -> Vec<&'a RunResult> {
    let is_it = |run: &&RunResult| run.use_case.name == use_case && who(run) == broker;
    runs.iter().filter(is_it).collect()
}

fn use_cases(runs: &[RunResult]) -> Vec<&str> {
    distinct(runs, |run| run.use_case.name.as_str())
}

/// Its place on the command line of repeats; of single runs the order of the list is all there is.
fn place(runs: &[RunResult], broker: Who<'_>) -> u32 {
    let of = runs.iter().filter(|run| who(run) == broker);
    of.filter_map(|run| Some(run.repetition.as_ref()?.broker)).min().unwrap_or(0)
}

/// The first broker of a list against each other one, by use case.
pub(super) fn within(runs: &[RunResult]) -> Result<Vec<Matched<'_>>, CompareError> {
    let mut brokers = distinct(runs, who);
    brokers.sort_by_key(|&broker| place(runs, broker));
    let [first, rest @ ..] = &*brokers else {
        return Err(CompareError::Nothing("there is no result".into()));
    };
    if rest.is_empty() {
        let text = format!("all runs are of {}; give two folders, or run two brokers", first.name);
        return Err(CompareError::Nothing(text));
    }
    let pairs: Vec<_> = rest.iter().map(|&other| (*first, other)).collect();
    matched(runs, runs, &pairs)
}

/// Each broker of one set against itself in the other: the same program, or the only version of it
/// that is left on either side. Or the only one against the only one.
pub(super) fn between<'a>(
    base: &'a [RunResult],
    other: &'a [RunResult],
) -> Result<Vec<Matched<'a>>, CompareError> {
    let [mine, theirs] = [base, other].map(|runs| distinct(runs, who));
    let mut both: Vec<_> =
        mine.iter().filter(|broker| theirs.contains(broker)).map(|&who| (who, who)).collect();
    let left = |all: &[Who<'a>], twin: &[Who<'a>]| -> Vec<Who<'a>> {
        all.iter().filter(|broker| !twin.contains(broker)).copied().collect()
    };
    let (mine_left, theirs_left) = (left(&mine, &theirs), left(&theirs, &mine));
    for &one in &mine_left {
        let versions = mine_left.iter().filter(|who| who.is_broker(&one)).count();
        let others: Vec<_> = theirs_left.iter().filter(|who| who.is_broker(&one)).collect();
        if let (1, [another]) = (versions, &*others) {
            both.push((one, **another));
        }
    }
    both.sort_by_key(|(one, _)| mine.iter().position(|who| who == one));
    let pairs = match (&*mine, &*theirs) {
        _ if !both.is_empty() => both,
        ([one], [another]) => vec![(*one, *another)],
        _ => {
            let names = |all: &[Who<'_>]| {
                let name = |of: &Who<'_>| {
                    let version = of.version.split(' ').next().unwrap_or_default();
                    format!("{} {version} ({})", of.name, of.profile)
                };
                all.iter().map(name).collect::<Vec<_>>()
            };
            let [mine, theirs] = [names(&mine).join(", "), names(&theirs).join(", ")];
            let text = format!("one side has {mine}, the other {theirs}");
            return Err(CompareError::Nothing(text));
        }
    };
    matched(base, other, &pairs)
}

/// Use cases that only one side has run: a line each.
pub(super) fn missing(base: &[RunResult], other: &[RunResult]) -> Vec<String> {
    let [mine, theirs] = [base, other].map(use_cases);
    let only = |one: &[&str], another: &[&str], side: &str| {
        let absent: Vec<&str> =
            one.iter().filter(|name| !another.contains(name)).copied().collect();
        (!absent.is_empty()).then(|| format!("only the {side} side ran {}", absent.join(", ")))
    };
    [only(&mine, &theirs, "first"), only(&theirs, &mine, "second")].into_iter().flatten().collect()
}

fn matched<'a>(
    base: &'a [RunResult],
    other: &'a [RunResult],
    pairs: &[(Who<'_>, Who<'_>)],
) -> Result<Vec<Matched<'a>>, CompareError> {
    let mut found = Vec::new();
    for use_case in use_cases(base) {
        for (one, another) in pairs {
            let (base, other) = (of(base, use_case, *one), of(other, use_case, *another));
            if !base.is_empty() && !other.is_empty() {
                found.push(Matched { use_case, base, other });
            }
        }
    }
    if found.is_empty() {
        let [mine, theirs] = [use_cases(base).join(", "), use_cases(other).join(", ")];
        let text = format!("one side ran {mine}, the other {theirs}");
        return Err(CompareError::Nothing(text));
    }
    Ok(found)
}
