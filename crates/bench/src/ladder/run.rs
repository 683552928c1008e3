//! Runs the steps that a search asks for.

use super::objective::Objective;
use super::record::{Ladder, LadderStep, Limits, SCHEMA};
use super::rung::{self, What};
use super::search::{GROWTH, Next, Search, TOLERANCE};
use super::table::named;
use crate::driver::Driver;
use crate::interrupt::Interrupted;
use crate::result::{RunResult, Status, Suite};
use crate::run::{RunOptions, run_one};
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
        "--from {from} --to {to} is not a range: both must be above 0, and --to must not be below \
         --from"
    );
    let Times { measure_s, warm_up_s, .. } = Times::new(use_case, run.warm_up_s, run.measure_s);
    let (growth, tolerance, scale) = (GROWTH, TOLERANCE, run.scale);
    Ok(Limits { from, to, growth, tolerance, measure_s, warm_up_s, scale })
}

/// One use case on one broker, climbed step by step, so that several can take turns.
pub struct Climb<'a> {
    use_case: &'a UseCase,
    driver: &'a dyn Driver,
    options: &'a LadderOptions,
    /// As [`Ladder::round`].
    round: u32,
    base: f64,
    limits: Limits,
    search: Search,
    steps: Vec<LadderStep>,
    first: Option<RunResult>,
    ended: String,
    /// It had to stop before the search's end.
    is_stopped: bool,
}

impl<'a> Climb<'a> {
    /// A search at its beginning; `round` as [`Ladder::round`].
    ///
    /// # Errors
    /// A use case without what is to grow; a span that is none.
    pub fn new(
        use_case: &'a UseCase,
        driver: &'a dyn Driver,
        options: &'a LadderOptions,
        run: &RunOptions,
        round: u32,
    ) -> anyhow::Result<Self> {
        let base = rung::base(use_case, options.what, run.scale)?;
        let limits = limits(use_case, options, run, base)?;
        let search = Search::new(limits.from, limits.to, options.what.is_whole());
        let (steps, first, ended) = (Vec::new(), None, String::new());
        let is_stopped = false;
        Ok(Self {
            use_case,
            driver,
            options,
            round,
            base,
            limits,
            search,
            steps,
            first,
            ended,
            is_stopped,
        })
    }

    /// What its steps are told by: the broker, and which of its ladders.
    pub fn name(&self) -> String {
        named(self.driver.name(), self.round)
    }

    /// What is counted on its steps.
    pub const fn unit(&self) -> &'static str {
        self.options.what.unit()
    }

    /// Whether there is no step left.
    pub fn is_over(&self) -> bool {
        self.is_stopped || matches!(self.search.next(), Next::Done(_))
    }

    /// Runs the next step, kept in `run.out`; none if the search is over, or had to stop.
    ///
    /// # Errors
    /// What the broker lacks the means for; what stands in the way of the first run.
    pub fn step(
        &mut self,
        run: &RunOptions,
        interrupted: &Interrupted,
    ) -> anyhow::Result<Option<&LadderStep>> {
        let Next::Run(value, purpose) = self.search.next() else { return Ok(None) };
        let Self { use_case, driver, options, .. } = self;
        let step_case = rung::rung(use_case, options.what, value / self.base)?;
        let ran = run_one(&step_case, *driver, run, interrupted)
            .with_context(|| format!("{} at {value:.0} {}", use_case.name, options.what.unit()));
        let (result, folder) = match ran {
            Ok(ran) => ran,
            // What was found so far is kept.
            Err(error) if !self.steps.is_empty() => {
                tracing::error!("{error:#}");
                self.is_stopped = true;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if result.verdict.status == Status::Unsupported {
            bail!("{} on {}: {}", use_case.name, driver.name(), result.verdict.reasons.join("; "));
        }
        if result.verdict.status == Status::Aborted || interrupted.load(Ordering::Relaxed) {
            self.first.get_or_insert(result);
            self.is_stopped = true;
            return Ok(None);
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = self.steps.len() as u32 + 1;
        let step = LadderStep::new(number, purpose, value, &result, &options.objective, name);
        self.search.seen(step.seen);
        self.steps.push(step);
        self.ended.clone_from(&result.suite.ended);
        self.first.get_or_insert(result);
        Ok(self.steps.last())
    }

    /// Takes no further step.
    pub const fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// What was climbed; without a knee where the search had to stop. None of a search that never
    /// began.
    pub fn ladder(self) -> Option<Ladder> {
        let knee = match self.search.next() {
            Next::Done(knee) if !self.is_stopped => Some(knee),
            _ => None,
        };
        let first = self.first?;
        let suite = Suite { ended: self.ended, ..first.suite };
        Some(Ladder {
            schema: SCHEMA,
            suite,
            use_case: self.use_case.name.clone(),
            revision: self.use_case.revision,
            file_sha256: self.use_case.sha256(),
            what: self.options.what,
            objective: self.options.objective.clone(),
            limits: self.limits,
            broker: first.broker,
            host: first.host,
            round: self.round,
            steps: self.steps,
            knee,
        })
    }
}
