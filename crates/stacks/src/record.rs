//! What is kept in `clients.json`. Times are microseconds, memory is bytes, unless a name says
//! otherwise; what was not measured is absent.

use crate::catalog::Workflow;
use serde::{Deserialize, Serialize};
use weir_bench::ladder::{Ending, Purpose};
use weir_bench::result::Slope;
use weir_bench::result::{Host, LatencyResult, Suite};

/// Version of the schema of `clients.json`.
pub const SCHEMA: u32 = 1;

/// A stack that handled less of the rate was not at that rate.
const RATE_SHARE: f64 = 0.97;

/// All points of one command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Clients {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that ran it.
    pub suite: Suite,
    /// On what.
    pub host: Host,
    /// How.
    pub settings: Settings,
    /// The stacks, in the order they were asked for; missing ones too.
    pub stacks: Vec<StackUsed>,
    /// Runs at fixed rates, in the order they were run.
    pub points: Vec<Point>,
    /// Ladders, in the order they were run.
    pub knees: Vec<KneeFound>,
}

/// How it was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Workflows, in order.
    pub workflows: Vec<Workflow>,
    /// Fixed rates, operations a second.
    pub rates: Vec<f64>,
    /// Whether knees were looked for.
    pub knee: bool,
    /// QoS of both directions.
    pub qos: Vec<u8>,
    /// Rounds.
    pub repeats: u32,
    /// Seed of the order and of intervals.
    pub seed: u64,
    /// Seconds before measure.
    pub warm_up_s: f64,
    /// Seconds of measure at a fixed rate.
    pub measure_s: f64,
    /// Seconds of measure of a step of a ladder.
    pub step_s: f64,
    /// Messages that arrive together.
    pub per_segment: u32,
    /// QoS 1 messages that may be unacknowledged.
    pub window: u32,
    /// Seconds an adapter may take to be ready, and to answer.
    pub patience_s: f64,
    /// What a step of a ladder has to keep: p99 from the intended time.
    pub p99_max_ms: f64,
    /// Bytes of a payload.
    pub payload_bytes: u64,
    /// Name of the stack that others are set beside.
    pub base: String,
    /// Which processor has whom.
    pub pinning: String,
}

/// A stack of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackUsed {
    /// Name of the variant.
    pub name: String,
    /// Name of its folder.
    pub folder: String,
    /// Language of the adapter.
    pub language: String,
    /// One line.
    pub about: String,
    /// Version of the library; empty until it was started.
    pub library: String,
    /// Runtime and its version.
    pub runtime: String,
    /// JSON library and its version.
    pub json: String,
    /// Why it was not run.
    pub missing: Option<String>,
}

/// What can be said of a point, the worse the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It kept up and the books are right.
    Kept,
    /// It did not keep up; what it did in the window counts.
    Overloaded,
    /// The replay server was the limit, or late: the point says nothing.
    ReplayLimit,
    /// It lost, doubled, changed or made up messages.
    Wrong,
    /// It did not hold to the protocol, or ended.
    Broken,
}

impl Standing {
    /// For a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept up",
            Self::Overloaded => "overloaded",
            Self::Wrong => "wrong",
            Self::ReplayLimit => "replay limit",
            Self::Broken => "broken",
        }
    }

    /// Whether the stack did what it must not, and not only too little.
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Wrong | Self::Broken)
    }
}

/// One stack in one workflow at one rate, once. The window is between two answers of the adapter
/// to `counts`, at both ends of measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Name of the variant.
    pub stack: String,
    /// What it did.
    pub workflow: Workflow,
    /// QoS of both directions.
    pub qos: u8,
    /// Operations a second that were due.
    pub rate_per_s: f64,
    /// From 1.
    pub round: u32,
    /// Place in the order of the whole command, from 1.
    pub position: u32,
    /// Of a step of a ladder.
    pub purpose: Option<Purpose>,
    /// Verdict.
    pub standing: Standing,
    /// Why it is not `kept`.
    pub reasons: Vec<String>,
    /// Protocol level of its CONNECT.
    pub level: Option<u8>,
    /// Length of the window, seconds.
    pub window_s: f64,
    /// It is so far from what was asked for that costs within say nothing.
    #[serde(default)]
    pub is_window_missed: bool,
    /// Operations within: messages received or published, or connects.
    pub handled: u64,
    /// CPU within, user mode, divided as the ticks of the system are.
    pub cpu_user_us: f64,
    /// The same in the kernel.
    pub cpu_system_us: f64,
    /// Intended time to the result's receipt, of messages due in measure.
    pub latency: Option<LatencyResult>,
    /// Intended time to PUBACK, the same.
    pub acknowledge: Option<LatencyResult>,
    /// Highest resident memory of the process tree.
    pub rss_max_bytes: u64,
    /// Growth of it within the window.
    pub rss_slope: Option<Slope>,
    /// Most threads.
    pub threads_max: u64,
    /// The books.
    pub ledger: PointLedger,
    /// The replay server.
    pub replay: ReplaySide,
}

/// The books of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointLedger {
    /// Messages written to the stack, or that it says it published; connects it says it made.
    pub sent: u64,
    /// Messages the stack says it received, or that came from it; connects that came.
    pub received: u64,
    /// Messages that had to come back.
    pub required: u64,
    /// Those the stack says it found.
    pub matched: u64,
    /// Messages that the stack did not take in time, and that were not sent.
    #[serde(default)]
    pub unsent: u64,
    /// Those that came back.
    pub delivered: u64,
    /// Those that did not, though the stack had received them all.
    pub lost: u64,
    /// What the stack had not come to when the wait was over.
    pub behind: u64,
    /// Results that came more than once.
    pub duplicated: u64,
    /// Results nobody asked for.
    pub alien: u64,
    /// Results with other bytes, or of another QoS, than their message.
    pub altered: u64,
    /// Results that came after one of a later message.
    #[serde(default)]
    pub reordered: u64,
    /// What was published to another topic.
    #[serde(default)]
    pub astray: u64,
    /// What was published with RETAIN.
    #[serde(default)]
    pub retained: u64,
    /// Results that the stack says it published, beyond those that came or were lost.
    #[serde(default)]
    pub overstated: u64,
    /// QoS 1 messages without PUBACK.
    pub unacknowledged: u64,
    /// Operations that failed, as the stack says.
    pub failed: u64,
}

/// What the replay server says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplaySide {
    /// Its CPU in measure, cores.
    pub cpu_cores: f64,
    /// Its own lateness, p99.
    pub lag_p99_us: u64,
    /// Messages in a write, on average.
    pub messages_per_send: f64,
    /// Messages that waited for the window.
    pub held_by_window: u64,
    /// Messages that waited for the stack to read.
    pub held_by_output: u64,
    /// From the last write to the end of all that was owed, as far as the server sees it.
    pub settled_us: u64,
}

impl Point {
    fn has_cost(&self) -> bool {
        self.handled > 0 && !self.is_window_missed
    }

    /// CPU an operation, user and kernel, microseconds.
    pub fn cpu_us_each(&self) -> Option<f64> {
        self.has_cost().then(|| (self.cpu_user_us + self.cpu_system_us) / self.handled as f64)
    }

    /// The same in user mode alone, and in the kernel.
    pub fn cpu_parts_us_each(&self) -> Option<(f64, f64)> {
        let each = |us: f64| us / self.handled as f64;
        self.has_cost().then(|| (each(self.cpu_user_us), each(self.cpu_system_us)))
    }

    /// Operations a second of CPU: the score.
    pub fn per_core_s(&self) -> Option<f64> {
        self.cpu_us_each().filter(|us| *us > 0.0).map(|us| 1e6 / us)
    }

    /// CPU, in cores.
    pub fn cpu_cores(&self) -> f64 {
        (self.cpu_user_us + self.cpu_system_us) / (self.window_s * 1e6).max(1.0)
    }

    /// Whether the stack has done all that it was sent: what comes next finds it with nothing to
    /// do.
    pub fn is_idle(&self) -> bool {
        let of = &self.ledger;
        let is_owed = of.behind > 0 || of.unacknowledged > 0 || of.unsent > 0;
        !is_owed && !self.standing.is_fault()
    }

    /// Operations a second within the window.
    pub fn handled_per_s(&self) -> f64 {
        if self.window_s > 0.0 { self.handled as f64 / self.window_s } else { 0.0 }
    }

    /// Whether its costs say something. Of a stack that is overloaded they do, and where the replay
    /// server was late but kept the rate.
    pub fn is_sound(&self) -> bool {
        let is_at_rate = self.handled_per_s() >= RATE_SHARE * self.rate_per_s;
        let is_cost = match self.standing {
            Standing::Kept | Standing::Overloaded => true,
            Standing::ReplayLimit => is_at_rate,
            Standing::Wrong | Standing::Broken => false,
        };
        is_cost && self.has_cost()
    }

    /// Whether its latencies are the stack's, too.
    pub fn is_latency_sound(&self) -> bool {
        self.is_sound() && self.standing != Standing::ReplayLimit
    }
}

/// The highest rate a stack kept up with, in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KneeFound {
    /// Name of the variant.
    pub stack: String,
    /// What it did.
    pub workflow: Workflow,
    /// QoS of both directions.
    pub qos: u8,
    /// From 1.
    pub round: u32,
    /// Operations a second; absent where nothing met.
    pub rate_per_s: Option<f64>,
    /// Highest rate below it that met once more.
    pub confirmed_per_s: Option<f64>,
    /// Operations a second of CPU at the knee.
    pub per_core_s: Option<f64>,
    /// How the search ended; absent where it broke off.
    pub ending: Option<Ending>,
    /// Why it broke off.
    pub broken: Option<String>,
    /// Every step.
    pub steps: Vec<Point>,
}
