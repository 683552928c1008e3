//! The load generator: a [`Plan`] in, an [`Outcome`] out.
//!
//! Open loop: every message has an intended time on one schedule, and latency counts from there.
//! A ledger audits every delivery. The generator watches itself and says when it was the limit.
//! Knows no broker, no use case, no report: `weir-bench` makes the plan and reads the outcome.

pub mod agent;
mod audience;
mod audit;
mod baton;
mod cast;
mod cpu;
mod distribution;
mod engine;
mod histogram;
pub mod null;
pub mod outcome;
pub mod payload;
pub mod plan;
pub mod proxy;
mod publisher;
mod recorder;
mod rotation;
mod schedule;
mod shifts;
mod stamp;
pub mod steps;
mod stream;
mod template;

pub use cpu::thread_cpu_us;
pub use distribution::Distribution;
pub use histogram::histogram;
pub use outcome::{Interval, Outcome};
pub use plan::Plan;
pub use plan::{Shared, Slice, deal};
pub use schedule::{Due, Schedule};
pub use shifts::{Seat, Shifts, StartBarrier};
pub use stamp::{STAMP_BYTES, Stamp};
pub use steps::{Cue, StepPlan};
pub use stream::Stream;

pub use weir_client::{Scheme, Url};

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Asks a run to stop, from another thread or a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

/// What [`Stop`] holds, in the order of urgency.
const FINISH: u8 = 1;
const STOP: u8 = 2;

impl Stop {
    /// The run ends within a turn of its loop, with [`outcome::End::Stopped`].
    pub fn stop(&self) {
        self.0.fetch_max(STOP, Ordering::Relaxed);
    }

    /// Nothing more becomes due; what is due is sent, drained and audited, and the run is complete.
    /// Before publishing has begun, and for a slice of a plan, the same as [`Stop::stop`].
    pub fn finish(&self) {
        self.0.fetch_max(FINISH, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop at once.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed) == STOP
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= FINISH
    }
}

/// Why a plan could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan contradicts itself.
    #[error("the plan is not usable: {0}")]
    Plan(String),
    /// An agent and the one who leads it do not understand each other.
    #[error("{0}")]
    Protocol(String),
    /// The system refused what the generator itself needs.
    #[error("the load generator cannot run: {0}")]
    System(#[from] std::io::Error),
}

/// Runs `plan` on the calling thread. `on_interval` hears every interval as it ends and must not
/// block.
///
/// # Errors
/// A plan that contradicts itself, or a system that refuses epoll. What the broker does wrong is
/// in the outcome.
pub fn run(
    plan: &Plan,
    stop: &Stop,
    on_interval: &mut dyn FnMut(&Interval),
) -> Result<Outcome, LoadError> {
    engine::run(plan, stop, &Cue::default(), on_interval)
}

/// As [`run`]; `cue` tells another thread when measure begins.
///
/// # Errors
/// As [`run`].
pub fn run_cued(
    plan: &Plan,
    stop: &Stop,
    cue: &Cue,
    on_interval: &mut dyn FnMut(&Interval),
) -> Result<Outcome, LoadError> {
    let outcome = engine::run(plan, stop, cue, on_interval);
    cue.end();
    outcome
}

/// Connections that one process can hold: open files, and beyond these direct descriptors of
/// io_uring where the system lets us.
pub fn connections_max() -> u64 {
    let max = weir_reactor::Backend::Auto.connections_max() as u64;
    max.saturating_sub(FILES_RESERVED)
}

/// Files a process needs beside its connections.
pub const FILES_RESERVED: u64 = 100;

fn topic_error(group: &str, topic: &str) -> LoadError {
    LoadError::Plan(format!("group {group}: {topic:?} is not a valid topic name or filter"))
}
