//! Runs the steps that a search asks for.

use super::objective::Objective;
use super::record::{Ladder, Limits, SCHEMA, Step};
use super::rung::{self, What};
use super::search::{GROWTH, Next, Search, TOLERANCE};
use crate::driver::Driver;
use crate::result::{RunResult, Status};
use crate::run::{Interrupted, RunOptions, run_one};
use crate::usecase::{Times, UseCase};
use anyhow::{Context, bail, ensure};
use std::sync::atomic::Ordering;

/// What is climbed, and how far.
#[derive(Clone, Debug)]
pub struct LadderOptions {
    /// What grows.
    pub what: What,
    /// What a step has to meet.
    pub objective: Objective,
    /// First step; the use case's own where it is not given.
    pub from: Option<f64>,
    /// Last step; a thousand times the first where it is not given.
    pub to: Option<f64>,
}

/// From the first step to the last, where nothing else is asked for.
const SPAN: f64 = 1_000.0;

/// The span of a search over what is `base` in the use case, and how it goes about it.
fn limits(
    use_case: &UseCase,
    options: &LadderOptions,
    run: &RunOptions,
    base: f64,
) -> anyhow::Result<Limits> {
    let from = options.from.unwrap_or(base);
    let to = options.to.unwrap_or(from * SPAN);
    ensure!(
        from > 0.0 && to >= from && to.is_finite(),
        "--from {from} --to {to} is no span: both must be above 0, and --to not below --from"
    );
    let Times { measure_s, warm_up_s, .. } = Times::new(use_case, run.warm_up_s, run.measure_s);
    let (growth, tolerance, scale) = (GROWTH, TOLERANCE, run.scale);
    Ok(Limits { from, to, growth, tolerance, measure_s, warm_up_s, scale })
}

/// Climbs one use case on one broker. `on_step` hears of each step as it is done. Steps are kept
/// in `run.out`; a ladder that is interrupted has no knee.
///
/// # Errors
/// A use case without what is to grow, or that the broker lacks the means for; a span that is none;
/// what stands in the way of a run.
pub fn climb(
    use_case: &UseCase,
    driver: &dyn Driver,
    options: &LadderOptions,
    run: &RunOptions,
    interrupted: &Interrupted,
    on_step: &mut dyn FnMut(&Step),
) -> anyhow::Result<Ladder> {
    let base = rung::base(use_case, options.what, run.scale)?;
    let limits = limits(use_case, options, run, base)?;
    let mut search = Search::new(limits.from, limits.to, options.what.is_whole());
    let mut steps: Vec<Step> = Vec::new();
    let mut first: Option<RunResult> = None;
    let mut ended = String::new();
    let knee = loop {
        let (value, purpose) = match search.next() {
            Next::Done(knee) => break Some(knee),
            Next::Run(value, purpose) => (value, purpose),
        };
        let step_case = rung::rung(use_case, options.what, value / base)?;
        let ran = run_one(&step_case, driver, run, interrupted)
            .with_context(|| format!("{} at {value:.0} {}", use_case.name, options.what.unit()));
        let (result, folder) = match ran {
            Ok(ran) => ran,
            // What was found so far is kept.
            Err(error) if !steps.is_empty() => {
                tracing::error!("{error:#}");
                break None;
            }
            Err(error) => return Err(error),
        };
        if result.verdict.status == Status::Unsupported {
            bail!("{} on {}: {}", use_case.name, driver.name(), result.verdict.reasons.join("; "));
        }
        if result.verdict.status == Status::Aborted || interrupted.load(Ordering::Relaxed) {
            first.get_or_insert(result);
            break None;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = steps.len() as u32 + 1;
        let step = Step::new(number, purpose, value, &result, &options.objective, name);
        on_step(&step);
        search.seen(step.seen);
        steps.push(step);
        ended.clone_from(&result.suite.ended);
        first.get_or_insert(result);
    };
    let first = first.context("a search asks for a step at least")?;
    let mut suite = first.suite;
    suite.ended = ended;
    Ok(Ladder {
        schema: SCHEMA,
        suite,
        use_case: use_case.name.clone(),
        revision: use_case.revision,
        file_sha256: use_case.sha256(),
        what: options.what,
        objective: options.objective.clone(),
        limits,
        broker: first.broker,
        host: first.host,
        steps,
        knee,
    })
}
