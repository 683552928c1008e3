//! The search as a value: `next` says what to try, `seen` takes what came of it.
//!
//! Upwards by a factor until a step misses, then halving between the highest that met and the
//! lowest that missed; then that lowest is tried once more, and a confirmation is run below the
//! knee. A step misses only if it does so twice, and bounds a knee only if it does so at the end
//! again: one pause of a shared host looks like a limit, and so does a slow minute of it.

use serde::{Deserialize, Serialize};

/// From step to step on the way up, and on the way down where the first step misses.
pub(super) const GROWTH: f64 = 1.5;

/// How close the lowest miss is to the knee at the end, as a share of the knee.
pub(super) const TOLERANCE: f64 = 0.05;

/// Where the knee is confirmed, as a share of it.
const CONFIRM_SHARE: f64 = 0.9;

/// Confirmations that are tried, each at [`CONFIRM_SHARE`] of the one before.
const CONFIRMATIONS_MAX: u32 = 3;

/// Times that a bound which gave way is climbed past; then the knee is what it is.
const RECHECKS_MAX: u32 = 2;

/// From step to step past a bound that gave way: the knee is near.
const GROWTH_AGAIN: f64 = 1.15;

/// Runs of a step before it counts as missed.
const TRIES: u32 = 2;

/// Runs of a search; the widest span takes some forty.
const RUNS_MAX: u32 = 120;

/// Steps down from the first, where even that misses or is more than the generator can.
const DESCENT_MAX: f64 = 1_000.0;

/// What a step was run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// To find a miss, or a meeting on the way down.
    Climb,
    /// To find the knee between the two.
    Bisect,
    /// To see whether what missed does so still.
    Recheck,
    /// To see that it holds below the knee.
    Confirm,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The objective was met.
    Met,
    /// It was not.
    Missed,
    /// The generator, or the host, was the limit: nothing is known of the broker.
    GeneratorLimit,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Run this.
    Run(f64, Purpose),
    /// It is over.
    Done(Knee),
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The knee lies between what met and what missed.
    Found,
    /// Everything up to the end of the span met.
    SpanEnded,
    /// The generator was the limit right above what met: the knee is there or higher.
    GeneratorLimit,
    /// Nothing met.
    NothingMet,
    /// Too many runs.
    RunsSpent,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Highest value that met the objective.
    pub met: Option<f64>,
    /// Lowest value that missed it.
    pub missed: Option<f64>,
    /// Highest value below the knee that met it once more.
    pub confirmed: Option<f64>,
    /// How it ended.
    pub ending: Ending,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    from: f64,
    to: f64,
    is_whole: bool,
    met: Option<f64>,
    missed: Option<f64>,
    /// Lowest value at which the generator was the limit.
    limited: Option<f64>,
    /// Misses of the step under way: by the broker, by the generator.
    misses: [u32; 2],
    runs: u32,
    growth: f64,
    rechecks: u32,
    is_rechecking: bool,
    confirming: Option<Confirming>,
}

#[derive(Clone, Copy, Debug)]
struct Confirming {
    at: f64,
    tries: u32,
    confirmed: Option<f64>,
}

impl Search {
    /// Over `from` to `to`, both above 0; whole numbers only if `is_whole`.
    pub fn new(from: f64, to: f64, is_whole: bool) -> Self {
        assert!(from > 0.0 && to >= from && to.is_finite(), "a span above 0, upwards");
        let to = if is_whole { to.floor().max(from.round()) } else { to };
        Self {
            from,
            to,
            is_whole,
            met: None,
            missed: None,
            limited: None,
            misses: [0; 2],
            runs: 0,
            growth: GROWTH,
            rechecks: 0,
            is_rechecking: false,
            confirming: None,
        }
    }

    fn rounded(&self, value: f64) -> f64 {
        if self.is_whole { value.round().max(1.0) } else { value }
    }

    /// Lowest value that the broker or the generator did not bear.
    fn bound(&self) -> Option<f64> {
        let bounds = self.missed.into_iter().chain(self.limited);
        bounds.reduce(f64::min)
    }

    /// Highest value that has met so far.
    pub const fn met(&self) -> Option<f64> {
        self.met
    }

    /// What to do now; the same until something was seen.
    pub fn next(&self) -> Next {
        if self.runs >= RUNS_MAX {
            return self.done(Ending::RunsSpent);
        }
        if let Some(confirming) = self.confirming {
            let is_over = confirming.confirmed.is_some() || confirming.tries >= CONFIRMATIONS_MAX;
            return if is_over {
                self.done(self.ending())
            } else {
                Next::Run(self.rounded(confirming.at), Purpose::Confirm)
            };
        }
        match (self.met, self.bound()) {
            (None, None) => Next::Run(self.rounded(self.from), Purpose::Climb),
            (Some(met), None) => {
                Next::Run(self.rounded((met * self.growth).min(self.to)), Purpose::Climb)
            }
            (None, Some(bound)) => {
                let lower = self.rounded(bound / GROWTH);
                let is_over = lower >= bound || lower < self.from / DESCENT_MAX;
                if is_over { self.done(self.ending()) } else { Next::Run(lower, Purpose::Climb) }
            }
            (Some(_), Some(bound)) if self.is_rechecking => Next::Run(bound, Purpose::Recheck),
            (Some(met), Some(bound)) => {
                Next::Run(self.rounded((met * bound).sqrt()), Purpose::Bisect)
            }
        }
    }

    /// Takes what came of the run that [`Search::next`] asked for.
    pub fn seen(&mut self, seen: Seen) {
        let Next::Run(value, purpose) = self.next() else { return };
        self.runs += 1;
        if purpose == Purpose::Recheck {
            return self.rechecked(value, seen);
        }
        if seen != Seen::Met {
            let misses = &mut self.misses[usize::from(seen == Seen::GeneratorLimit)];
            *misses += 1;
            if *misses < TRIES {
                return;
            }
        }
        self.misses = [0; 2];
        if purpose == Purpose::Confirm {
            return self.confirmed(value, seen);
        }
        match seen {
            Seen::Met => self.met = Some(value),
            Seen::Missed => self.missed = Some(value),
            Seen::GeneratorLimit => self.limited = Some(value),
        }
        if self.is_bracketed() {
            self.is_rechecking = self.bound().is_some() && self.rechecks < RECHECKS_MAX;
            if !self.is_rechecking {
                self.confirm();
            }
        }
    }

    /// The bound holds, or gives way and is climbed past.
    fn rechecked(&mut self, value: f64, seen: Seen) {
        self.is_rechecking = false;
        self.rechecks += 1;
        if seen != Seen::Met {
            return self.confirm();
        }
        (self.met, self.missed, self.limited) = (Some(value), None, None);
        self.growth = GROWTH_AGAIN;
        if self.is_bracketed() {
            self.confirm();
        }
    }

    /// Whether nothing is left to look for but whether it holds.
    fn is_bracketed(&self) -> bool {
        match (self.met, self.bound()) {
            (Some(met), Some(bound)) => {
                let gap = bound - met;
                gap <= met * TOLERANCE || (self.is_whole && gap <= 1.0)
            }
            (Some(met), None) => met >= self.to,
            _ => false,
        }
    }

    fn confirm(&mut self) {
        self.confirming =
            self.met.map(|met| Confirming { at: met * CONFIRM_SHARE, tries: 0, confirmed: None });
    }

    fn confirmed(&mut self, value: f64, seen: Seen) {
        if let Some(confirming) = &mut self.confirming {
            confirming.tries += 1;
            match seen {
                Seen::Met => confirming.confirmed = Some(value),
                _ => confirming.at = value * CONFIRM_SHARE,
            }
        }
    }

    fn ending(&self) -> Ending {
        match (self.met, self.bound()) {
            (Some(_), Some(bound)) if self.missed != Some(bound) => Ending::GeneratorLimit,
            (Some(_), Some(_)) => Ending::Found,
            (Some(_), None) => Ending::SpanEnded,
            // What the generator cannot do says nothing of the broker.
            (None, Some(_)) if self.missed.is_none() => Ending::GeneratorLimit,
            (None, _) => Ending::NothingMet,
        }
    }

    fn done(&self, ending: Ending) -> Next {
        let confirmed = self.confirming.and_then(|confirming| confirming.confirmed);
        Next::Done(Knee { met: self.met, missed: self.missed, confirmed, ending })
    }
}

#[cfg(test)]
mod tests;
