//! Two sides of a use case, judged metric by metric.

use super::metrics::{COMPARED, Compared};
use super::sides::Matched;
use crate::result::{RunResult, Status};
use crate::stats::{self, Interval, REPEATS_MIN, Ratio, Spread, Standing};
use crate::tables::broker;
use serde::{Deserialize, Serialize};

/// Reasons of failed runs that are kept for a side, so that a hundred repeats stay readable.
const REASONS_MAX: usize = 3;

/// A use case on two sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Its name.
    pub use_case: String,
    /// What the other is compared with.
    pub base: Side,
    /// What is judged.
    pub other: Side,
    /// One a metric that either side has, in the order of [`COMPARED`].
    pub cells: Vec<Cell>,
}

/// A broker with its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Side {
    /// Name, version and profile.
    pub label: String,
    /// Runs in all.
    pub runs: usize,
    /// Of them, those that kept the contract: only these have figures.
    pub passed: usize,
    /// Runs that broke the contract: how many, and with which part; empty where none did.
    pub failed: Vec<String>,
    /// Runs without a statement: the generator was the limit, somebody stopped them, or the broker
    /// lacks what they need.
    pub void: usize,
    /// Runs on a host that was not quiet, whose figures are doubtful.
    #[serde(default)]
    pub disturbed: usize,
}

/// One metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Of [`Compared::name`].
    pub metric: String,
    /// Smallest difference that matters, as a share.
    pub relevant: f64,
    /// Repeats of the base.
    pub base: Option<Spread>,
    /// Repeats of the other.
    pub other: Option<Spread>,
    /// Other by base: geometric mean.
    pub ratio: Option<f64>,
    /// Of the ratio, at the level of `Comparison::share`.
    pub interval: Option<Interval>,
    /// Rounds that both sides ran in; 0 where they did not run in turn.
    pub pairs: usize,
    /// The verdict on the other; nothing where there can be none.
    pub standing: Option<Standing>,
    /// Why there is none, or why it says little.
    pub why: String,
}

fn has_failed(runs: &[&RunResult]) -> bool {
    runs.iter().any(|run| run.verdict.status == Status::Failed)
}

/// A value of a metric, with the session and round of its run.
type Figure<'a> = (Option<(&'a str, u32)>, f64);

/// A figure of each run that kept the contract.
fn figures<'a>(runs: &[&'a RunResult], metric: &Compared) -> Vec<Figure<'a>> {
    let passed = runs.iter().filter(|run| run.verdict.status == Status::Passed);
    let of = |run: &&'a RunResult| {
        let place = run.repetition.as_ref().map(|of| (of.session.as_str(), of.round));
        Some((place, metric.of(run)?))
    };
    passed.filter_map(of).collect()
}

fn is_judged(pair: &Matched<'_>, metric: &Compared) -> bool {
    !has_failed(&pair.base)
        && !has_failed(&pair.other)
        && figures(&pair.base, metric).len() >= REPEATS_MIN
        && figures(&pair.other, metric).len() >= REPEATS_MIN
}

/// Metrics of a pair that get a verdict: what the chance of a false one is divided by.
pub(super) fn count(pair: &Matched<'_>) -> usize {
    COMPARED.iter().filter(|metric| is_judged(pair, metric)).count()
}

/// Judges a pair; `share` is the chance of a false verdict in each cell.
pub(super) fn judge(pair: &Matched<'_>, share: f64, seed: u64) -> Pair {
    let cells = COMPARED.iter().enumerate();
    let cells = cells.filter_map(|(at, metric)| cell(pair, metric, share, seed ^ at as u64));
    let (mut base, mut other) = (side(&pair.base), side(&pair.other));
    let [mine, theirs] = [&pair.base, &pair.other].map(|runs| program(runs));
    if base.label == other.label && mine != theirs {
        // Two builds of one version.
        for (side, program) in [(&mut base, mine), (&mut other, theirs)] {
            side.label += &program.map(|hash| format!(" ({hash:.7})")).unwrap_or_default();
        }
    }
    Pair { use_case: pair.use_case.into(), base, other, cells: cells.collect() }
}

fn program<'a>(runs: &[&'a RunResult]) -> Option<&'a str> {
    runs.iter().find_map(|run| run.program())
}

fn side(runs: &[&RunResult]) -> Side {
    let count = |status| runs.iter().filter(|run| run.verdict.status == status).count();
    let failed = runs.iter().filter(|run| run.verdict.status == Status::Failed);
    let mut reasons: Vec<String> = Vec::new();
    for reason in failed.flat_map(|run| &run.verdict.reasons) {
        if reasons.len() < REASONS_MAX && !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    if count(Status::Failed) > 0 {
        let text = format!("{} of {} runs broke the contract", count(Status::Failed), runs.len());
        reasons.insert(0, text);
    }
    Side {
        label: runs.first().map(|run| broker(run)).unwrap_or_default(),
        runs: runs.len(),
        passed: count(Status::Passed),
        failed: reasons,
        void: [Status::Invalid, Status::Aborted, Status::Unsupported].map(count).iter().sum(),
        disturbed: runs.iter().filter(|run| !run.host.disturbance.reasons.is_empty()).count(),
    }
}

/// A metric; nothing where neither side has it.
fn cell(pair: &Matched<'_>, metric: &Compared, share: f64, seed: u64) -> Option<Cell> {
    let (base, other) = (figures(&pair.base, metric), figures(&pair.other, metric));
    let spread = |of: &[Figure<'_>]| Spread::of(of.iter().map(|&(_, value)| value));
    let mut cell = Cell {
        metric: metric.name.into(),
        relevant: metric.relevant,
        base: spread(&base),
        other: spread(&other),
        ratio: None,
        interval: None,
        pairs: 0,
        standing: None,
        why: String::new(),
    };
    if base.is_empty() && other.is_empty() {
        return None;
    }
    if !is_judged(pair, metric) {
        cell.why = if has_failed(&pair.base) || has_failed(&pair.other) {
            "a broken contract".into()
        } else {
            let least = base.len().min(other.len());
            format!("only {least} repeats; at least {REPEATS_MIN} are needed")
        };
        return Some(cell);
    }
    let Some(ratio) = ratio(&base, &other, share, seed) else {
        cell.why = "a value is not above 0".into();
        return Some(cell);
    };
    cell.ratio = Some(ratio.ratio);
    cell.interval = Some(ratio.interval);
    cell.pairs = ratio.pairs;
    let standing = stats::judge(&ratio, metric.relevant, metric.better());
    if standing == Standing::TooNoisy {
        cell.why = "more repeats are needed to tell".into();
    }
    cell.standing = Some(standing);
    Some(cell)
}

/// By round where enough rounds are shared: that takes out what the host did to both.
fn ratio(base: &[Figure<'_>], other: &[Figure<'_>], share: f64, seed: u64) -> Option<Ratio> {
    let partner = |&(place, value): &Figure<'_>| {
        let place = place?;
        let same = other.iter().find(|(another, _)| *another == Some(place))?;
        Some((value, same.1))
    };
    let pairs: Vec<(f64, f64)> = base.iter().filter_map(partner).collect();
    if pairs.len() >= REPEATS_MIN {
        return stats::paired(&pairs, share, seed);
    }
    let [base, other] =
        [base, other].map(|of| of.iter().map(|&(_, value)| value).collect::<Vec<_>>());
    stats::unpaired(&base, &other, share, seed)
}
