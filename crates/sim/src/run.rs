//! One run: steps with a calm now and then, and the end.

use crate::finding::Finding;
use crate::plant::Plant;
use crate::world::World;
use weir_core::Stats;

/// Steps from one calm to the next.
const CALM_STEPS: usize = 250;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What everything hangs on.
    pub seed: u64,
    /// Steps until the end.
    pub steps: usize,
    /// Shards of the broker.
    pub shards: u16,
    /// Stop before the end, after this step.
    pub until: Option<usize>,
    /// A fault that the host commits.
    pub plant: Option<Plant>,
    /// Whether to keep the lines of the trace.
    pub is_printed: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// The step at which something was found.
    pub step: usize,
    /// What was found there; the run ends with it.
    pub findings: Vec<Finding>,
    /// FNV of the trace: the same run has the same.
    pub hash: u64,
    /// The trace, if it was kept.
    pub lines: Vec<String>,
    /// How often the fault was committed.
    pub strikes: usize,
    /// The counters of the shards.
    pub stats: Vec<Stats>,
}

impl Run {
    /// Runs it.
    pub fn run(&self) -> Outcome {
        let mut world = World::new(self.seed, self.shards, self.plant, self.is_printed);
        let mut last = 0;
        for step in 1..=self.steps.min(self.until.unwrap_or(usize::MAX)) {
            last = step;
            world.trace.add(format_args!("step {step}"));
            world.step(step);
            if step % CALM_STEPS == 0 && world.model.findings.is_empty() {
                world.calm();
            }
            if !world.model.findings.is_empty() {
                break;
            }
        }
        if world.model.findings.is_empty() && self.until.is_none() {
            world.calm();
        }
        if world.model.findings.is_empty() && self.until.is_none() {
            world.end();
        }
        Outcome {
            step: last,
            strikes: world.strikes(),
            stats: world.stats(),
            hash: world.trace.hash(),
            lines: world.trace.lines().to_vec(),
            findings: world.model.findings,
        }
    }
}
