//! What happens while a command runs its use cases, as one stream that every viewer hears.

use crate::result::{RunResult, SeriesRow, Status};
use serde::Serialize;

/// One thing that happened. As JSON: `{"event": "interval", "of": {...}}`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", content = "of", rename_all = "snake_case")]
pub enum Event {
    /// What the command is going to run, in order.
    Planned(Vec<Cell>),
    /// A run begins: its broker answers.
    Started(Box<Started>),
    /// A phase of the run has begun.
    Phase(PhaseBegun),
    /// An interval has ended: a row of the run's series.
    Interval(Box<SeriesRow>),
    /// Something was done to the broker or the load, such as a fault.
    Mark(Mark),
    /// The run is over and judged.
    Ended(Box<Ended>),
    /// The command is over.
    Over,
}

/// One run of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Full name of the use case.
    pub use_case: String,
    /// The broker as the command line names it.
    pub broker: String,
}

/// What is known of a run before it begins.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Started {
    /// Full name of the use case.
    pub use_case: String,
    /// It in one line.
    pub about: String,
    /// The broker as the command line names it.
    pub driver: String,
    /// Its name and version, for a person.
    pub broker: String,
    /// host:port.
    pub address: String,
    /// Profile of its configuration.
    pub profile: String,
    /// Whether its processes can be watched.
    pub is_watched: bool,
    /// Why the scale is smaller than asked, if it is.
    pub note: Option<String>,
    /// Processes that share the load; 0 where it is a thread of ours.
    pub agents: usize,
    /// Where its result goes.
    pub folder: String,
    /// Connections to be made.
    pub connections: u64,
    /// Messages a second that are due to be published.
    pub publish_rate_per_s: f64,
    /// Deliveries a second that follow from it.
    pub deliver_rate_per_s: f64,
    /// The phases in order.
    pub phases: Vec<PhaseLength>,
}

/// How long a phase is going to be.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PhaseLength {
    /// As in results.
    pub name: &'static str,
    /// Seconds; absent where nobody knows. Of drain: at most.
    pub length_s: Option<f64>,
}

/// A phase has begun.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PhaseBegun {
    /// As in results.
    pub name: &'static str,
    /// Seconds since the start of the run.
    pub t_s: f64,
}

/// Something was done at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the start of the run.
    pub t_s: f64,
    /// What, in a few words.
    pub text: String,
}

/// How a run ended, in the figures that fit a line.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// The verdict.
    pub status: Status,
    /// Why, where it did not pass.
    pub reasons: Vec<String>,
    /// Messages sent a second of measure.
    pub published_per_s: f64,
    /// Messages received a second of measure.
    pub received_per_s: f64,
    /// Median of the latency that the use case is about: of messages, or of connections.
    pub p50_us: Option<u64>,
    /// Its 99th percentile.
    pub p99_us: Option<u64>,
    /// Deliveries owed that never came.
    pub lost: u64,
    /// The broker's CPU in measure.
    pub cpu_cores: Option<f64>,
    /// The broker's resident memory, stable at.
    pub rss_bytes: Option<u64>,
}

impl Ended {
    /// The line of a result.
    pub fn of(run: &RunResult) -> Self {
        let latency = run.latency();
        let resources = run.resources.as_ref();
        Self {
            status: run.verdict.status,
            reasons: run.verdict.reasons.clone(),
            published_per_s: run.rates.published,
            received_per_s: run.rates.received,
            p50_us: latency.map(|latency| latency.p50_us),
            p99_us: latency.map(|latency| latency.p99_us),
            lost: run.measure.lost,
            cpu_cores: resources.map(|resources| resources.cpu_cores_avg),
            rss_bytes: resources.map(|resources| resources.rss_stable_bytes),
        }
    }
}
