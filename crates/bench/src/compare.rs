//! One broker against another over repeats: a verdict for each metric, or why there is none.
//!
//! Results in, a `Comparison` out; called by `weir bench compare` and after repeats. The statistics
//! are in `stats`, the reasons for them in docs/adr/0013-verdicts.md.

mod cells;
mod metrics;
mod refuse;
mod sides;
mod table;

pub use cells::{Cell, Pair, Side};
pub use metrics::{COMPARED, Compared};
pub use refuse::{Difference, differences};
pub use table::render;
pub(crate) use table::{confidence, head, row};

use crate::result::{RunResult, Status};
use crate::stats::Standing;
use serde::{Deserialize, Serialize};
use sides::Matched;

/// Version of the schema of `comparison.json`.
pub const SCHEMA: u32 = 1;

/// The chance that a pair of brokers that are alike gets any false verdict in a use case.
const FALSE_SHARE: f64 = 0.05;

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of the bootstrap.
    pub seed: u64,
    /// Compare what cannot be compared, too, and say so.
    pub is_anyway: bool,
}

/// Verdicts over all use cases and metrics of two sides, or of the brokers of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Of the bootstrap.
    pub seed: u64,
    /// Metrics that were judged, over all pairs.
    pub judged: usize,
    /// Chance that one interval misses: 5 % by the metrics that are judged of a pair, so that a
    /// pair in a use case has 5 %.
    pub share: f64,
    /// What differs between the sides and should not; not empty only where it was asked for anyway.
    pub differences: Vec<Difference>,
    /// What a reader needs to know of how the runs came about.
    pub notes: Vec<String>,
    /// In the order of the use cases.
    pub pairs: Vec<Pair>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The sides have no use case, or no broker, in common.
    #[error("nothing to compare: {0}")]
    Nothing(String),
    /// The sides were not run alike.
    #[error("cannot be compared: {}; --anyway compares them regardless", list(.0))]
    Unlike(Vec<Difference>),
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The brokers of one set of runs, each with the one that ran first in the list.
///
/// # Errors
/// Fewer than two brokers, or runs that were not made alike.
pub fn within(runs: &[RunResult], options: Options) -> Result<Comparison, CompareError> {
    compare(&sides::within(runs)?, Vec::new(), options)
}

/// The brokers of repeats with each other, by the seed of their session. Nothing of single runs,
/// which allow no verdict, and of one broker alone.
pub fn of_repeats(runs: &[RunResult]) -> Option<Result<Comparison, CompareError>> {
    let seed = runs.iter().find_map(|run| Some(run.repetition.as_ref()?.seed))?;
    match within(runs, Options { seed, is_anyway: false }) {
        Err(CompareError::Nothing(_)) => None,
        stand => Some(stand),
    }
}

/// Two sets of runs: each broker with itself where both sets have it, or the only broker of one set
/// with the only one of the other.
///
/// # Errors
/// Sets without a use case or broker in common, or that were not run alike.
pub fn between(
    base: &[RunResult],
    other: &[RunResult],
    options: Options,
) -> Result<Comparison, CompareError> {
    let mut notes = refuse::notes(base, other);
    notes.extend(sides::missing(base, other));
    compare(&sides::between(base, other)?, notes, options)
}

fn compare(
    matched: &[Matched<'_>],
    notes: Vec<String>,
    options: Options,
) -> Result<Comparison, CompareError> {
    let mut differences: Vec<Difference> = Vec::new();
    for pair in matched {
        // Only runs with figures can be unlike: what never ran was not pinned either.
        let mut runs = pair.runs();
        runs.retain(|run| run.verdict.status == Status::Passed);
        for difference in refuse::differences(&runs) {
            if !differences.contains(&difference) {
                differences.push(difference);
            }
        }
    }
    if !differences.is_empty() && !options.is_anyway {
        return Err(CompareError::Unlike(differences));
    }
    let judged = matched.iter().map(cells::count);
    let share = FALSE_SHARE / judged.clone().max().unwrap_or(0).max(1) as f64;
    let pairs = matched.iter().enumerate();
    let pairs =
        pairs.map(|(at, pair)| cells::judge(pair, share, options.seed ^ ((at as u64) << 32)));
    Ok(Comparison {
        schema: SCHEMA,
        seed: options.seed,
        judged: judged.sum(),
        share,
        differences,
        notes,
        pairs: pairs.collect(),
    })
}

impl Comparison {
    /// Pairs whose other side is worse: by a verdict, by a contract that only it broke, or by no
    /// run that says anything where the base has one.
    pub fn worse(&self) -> usize {
        let is_worse = |pair: &&Pair| {
            let is_broken = pair.base.failed.is_empty() && !pair.other.failed.is_empty();
            let is_void = pair.base.passed > 0 && pair.other.passed == 0;
            is_broken
                || is_void
                || pair.cells.iter().any(|cell| cell.standing == Some(Standing::Worse))
        };
        self.pairs.iter().filter(is_worse).count()
    }
}
