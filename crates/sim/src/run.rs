//! One run: steps with a calm now and then, and the end.

use crate::chance::Chance;
use crate::finding::{Checker, Finding};
use crate::plant::Plant;
use crate::world::{Size, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// Nodes, and shards of each.
    pub size: Size,
    /// Stop before the end, after this step.
    pub until: Option<usize>,
    /// A fault that the host commits.
    pub plant: Option<Plant>,
    /// Whether the broker crashes now and then.
    pub crashes: Crashes,
    /// Whether to keep the lines of the trace.
    pub is_printed: bool,
}

/// In which runs the broker keeps a log and crashes now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    /// In none.
    Never,
    /// In those of some seeds.
    Some,
    /// In all.
    Always,
    /// Of several nodes each keeps a log, which is copied to another: nodes are lost, and others
    /// stand in for them.
    OfNodes,
    /// The same with three copies: two nodes are lost at once.
    OfTwoNodes,
}

impl Crashes {
    fn are_in(self, seed: u64, size: Size) -> bool {
        match self {
            Self::Never => false,
            Self::Some => size.nodes == 1 && Chance::new(seed, CRASHES_STREAM).one_in(3),
            Self::Always => size.nodes == 1,
            Self::OfNodes | Self::OfTwoNodes => size.nodes > 1,
        }
    }

    /// How many nodes are lost at once whose logs others have.
    fn lost_at_once(self, size: Size) -> u16 {
        match self {
            Self::OfNodes => 1.min(size.nodes - 1),
            Self::OfTwoNodes => 2.min(size.nodes - 1),
            Self::Never | Self::Some | Self::Always => 0,
        }
    }
}

/// The stream of chance that says whether there are crashes: no step has it.
const CRASHES_STREAM: u64 = u64::MAX - 3;

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
    /// How often the broker crashed.
    pub crashes: usize,
    /// How often a crash cut a log in the middle of a session's copy.
    pub copies_cut: usize,
    /// How often a node was lost whose log another has.
    pub nodes_lost: usize,
    /// How many messages a crash found between two shards.
    pub redelivered: usize,
    /// The counters of the shards.
    pub stats: Vec<Stats>,
}

impl Run {
    /// Runs it.
    pub fn run(&self) -> Outcome {
        let mut world = World::new(
            self.seed,
            self.size,
            self.plant,
            (self.crashes.are_in(self.seed, self.size), self.crashes.lost_at_once(self.size)),
            self.is_printed,
        );
        let mut last = 0;
        let steps = self.steps.min(self.until.unwrap_or(usize::MAX));
        // After a panic the world is looked at, and not gone on with.
        let panic = catch_unwind(AssertUnwindSafe(|| {
            while last < steps && world.model.findings.is_empty() {
                last += 1;
                world.trace.add(format_args!("step {last}"));
                world.step(last);
                if last % CALM_STEPS == 0 && world.model.findings.is_empty() {
                    world.calm();
                }
            }
            for close in [World::calm, World::end] {
                if world.model.findings.is_empty() && self.until.is_none() {
                    close(&mut world);
                }
            }
        }));
        if let Err(what) = panic {
            let text = what.downcast_ref::<String>().map(String::as_str);
            let text = text.or(what.downcast_ref().copied()).unwrap_or_default();
            world.model.fail(Checker::Panic, text.into());
        }
        Outcome {
            step: last,
            strikes: world.strikes(),
            crashes: world.crashes(),
            copies_cut: world.copies_cut(),
            nodes_lost: world.nodes_lost(),
            redelivered: world.redelivered(),
            stats: world.stats(),
            hash: world.trace.hash(),
            lines: world.trace.lines().to_vec(),
            findings: world.model.findings,
        }
    }
}
