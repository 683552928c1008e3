//! The result of one use case on one broker, as it is kept in `result.json`.
//!
//! Everything the report, the tables and a later comparison need; nothing is computed twice.
//! Latencies are microseconds, memory is bytes, CPU is cores, unless a name says otherwise.

mod cluster;
mod course;
mod disclosed;
pub(crate) mod disclosure;
mod host;
mod marks;
mod read;
mod repetition;
pub mod series;
mod system;

pub use cluster::{ClusterResult, NodeResult, Promise, SessionsResult};
pub use course::{CourseResult, FaultResult};
pub use disclosed::{BrokerFacts, Disclosed, HostFacts, LoadFacts, NetworkFacts};
pub use host::{Disturbance, Host, KernelFacts};
pub use marks::Mark;
pub use read::{ReadError, read};
pub use repetition::{InvalidRun, Repetition, Slope};
pub use series::{SeriesRow, SystemRow};
pub use system::{MonitorCost, System};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use weir_load::outcome::{Connections, Handshakes, Messages, Operations};
use weir_load::outcome::{Lateness, Phase};

/// Version of the schema of `result.json`. A reader lifts what is older and refuses what is newer.
pub const SCHEMA: u32 = 2;

/// One use case on one broker, once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that ran it.
    pub suite: Suite,
    /// What was run.
    pub use_case: UseCaseRun,
    /// Against what.
    pub broker: Broker,
    /// On what.
    pub host: Host,
    /// Place among its repeats; absent for a run of its own.
    #[serde(default)]
    pub repetition: Option<Repetition>,
    /// Runs before it that came out invalid, in whose place it was made.
    #[serde(default)]
    pub invalid_before: Vec<InvalidRun>,
    /// Whether it can be believed and whether the contract was kept.
    pub verdict: Verdict,
    /// Phases with their lengths.
    #[serde(default)]
    pub phases: Vec<PhaseResult>,
    /// Connections.
    pub connections: Connections,
    /// Handshakes of TLS; none where it is not spoken.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// Subscriptions.
    pub subscriptions: Operations,
    /// Deliveries published in warm-up.
    pub warm_up: Messages,
    /// Deliveries published in measure: the result.
    pub measure: Messages,
    /// Rates of the measure phase.
    pub rates: Rates,
    /// By name: connect and, where there is a handshake, its parts tcp_connect, handshake and
    /// connack; subscribe, acknowledge, acknowledge_from_intended, end_to_end,
    /// end_to_end_from_send, generator_lag, generator_turn. Absent where nothing was measured.
    #[serde(default)]
    pub latencies: BTreeMap<String, LatencyResult>,
    /// The broker's resources in the measure phase; absent where its processes cannot be seen.
    pub resources: Option<Resources>,
    /// The same beside CPU and memory, the host, and what follows from them.
    #[serde(default)]
    pub system: Option<System>,
    /// The generator.
    pub generator: Generator,
    /// What the steps of the use case brought; absent for one without.
    #[serde(default)]
    pub course: Option<CourseResult>,
    /// Nodes, what went between them and what became of sessions; absent for a broker of one node.
    #[serde(default)]
    pub cluster: Option<ClusterResult>,
    /// How fast the broker's memory grew in measure; absent where it was seen too seldom.
    #[serde(default)]
    pub memory_slope: Option<Slope>,
    /// The series, one row an interval.
    #[serde(default)]
    pub series: Vec<SeriesRow>,
    /// Metrics the suite names and this run has not, each with its reason.
    #[serde(default)]
    pub not_measured: BTreeMap<String, String>,
    /// Times in which the broker sent nothing although something was owed: it stood still.
    #[serde(default)]
    pub silences: Vec<SilenceResult>,
    /// Moments of the run that its charts name, such as faults.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Latencies over time in full, by name as in `latencies`: a histogram for each row of
    /// `series`, HdrHistogram V2, deflated, base64, in microseconds; empty where nothing was
    /// measured.
    #[serde(default)]
    pub interval_histograms: BTreeMap<String, Vec<String>>,
    /// What full disclosure asks for beyond the above.
    #[serde(default)]
    pub disclosed: Disclosed,
}

impl RunResult {
    /// Whether messages are sent, or clients only connect.
    pub fn has_messages(&self) -> bool {
        self.use_case.qos.is_some()
    }

    /// Whether the broker was started and loaded: what was not has no figures, not zeros.
    pub fn was_run(&self) -> bool {
        self.connections.planned > 0
    }

    /// Whether there are figures to show: what was not run, or was stopped before its end, has
    /// none. The zeros in it would read as if they had been measured.
    pub fn has_figures(&self) -> bool {
        self.was_run() && self.verdict.status != Status::Aborted
    }

    /// Whether its figures say something of the broker.
    pub fn is_valid(&self) -> bool {
        self.has_figures() && self.verdict.status != Status::Invalid
    }

    /// The program that the broker's process ran, as its SHA-256; nothing where it is not known.
    pub fn program(&self) -> Option<&str> {
        let hash = self.disclosed.broker.executable_sha256.as_str();
        hash.bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then_some(hash)
            .filter(|of| !of.is_empty())
    }

    /// The latency that the use case is about: of messages, or of connections.
    pub fn latency(&self) -> Option<&LatencyResult> {
        self.latencies.get(if self.has_messages() { "end_to_end" } else { "connect" })
    }

    /// The broker's CPU per delivery, or a connection where there are no messages, in microseconds.
    pub fn cpu_us_each(&self) -> Option<f64> {
        let of = self.resources.as_ref()?;
        if self.has_messages() { of.cpu_us_per_delivery } else { of.cpu_us_per_connection }
    }

    /// Stable less baseline memory of the broker's process, by connections; nothing where it did
    /// not grow: so few connections cannot be told from what else a process does.
    pub fn bytes_per_connection(&self) -> Option<f64> {
        let resources = self.resources.as_ref()?;
        let connected = self.connections.connected;
        let grown = resources.rss_stable_bytes.checked_sub(resources.rss_baseline_bytes);
        let grown = grown.filter(|&bytes| bytes > 0 && connected > 0)?;
        Some(grown as f64 / connected as f64)
    }
}

/// The program that ran it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Suite {
    /// Version of Weir.
    pub version: String,
    /// Its commit, with `-dirty` if the tree was changed.
    pub commit: String,
    /// The command line.
    pub command: Vec<String>,
    /// Begin of the run, RFC 3339, UTC.
    pub started: String,
    /// End of the run, RFC 3339, UTC.
    pub ended: String,
}

impl Suite {
    /// A time as it is kept: RFC 3339 in UTC, to the second.
    pub fn time(time: jiff::Timestamp) -> String {
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// What was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UseCaseRun {
    /// Full name, such as singlenode-p2p-1K-1K-1K-1K.
    pub name: String,
    /// Set: basic, enterprise, throughput, perf, beyond, storms, faults, or empty for a file of the
    /// user's.
    pub set: String,
    /// One line for a person.
    pub about: String,
    /// Revision of the file.
    pub revision: u32,
    /// SHA-256 of the file, hex.
    pub file_sha256: String,
    /// The file itself.
    pub file: String,
    /// Scale asked for; 1 is the suite's size.
    pub scale_asked: f64,
    /// Scale run: smaller where a limit of the host stood in the way.
    pub scale: f64,
    /// Why the scale is smaller than asked, if it is.
    pub scale_reason: Option<String>,
    /// MQTT version, "3.1.1" or "5.0".
    pub mqtt_version: String,
    /// 0 to 2, the highest where they differ; absent without messages.
    pub qos: Option<u8>,
    /// Payload in bytes, the largest where they differ; absent without messages.
    pub payload_bytes: Option<u32>,
    /// Bytes of one such PUBLISH on the wire, for the first topic.
    pub publish_bytes_on_wire: Option<u32>,
    /// Clients that only hold a connection.
    pub idle_clients: u64,
    /// Clients that publish.
    pub publishers: u64,
    /// Clients that subscribe.
    pub subscribers: u64,
    /// Distinct topics published to.
    pub topics: u64,
    /// Messages a second that are due to be published in all.
    pub publish_rate_planned: f64,
    /// Deliveries a second that follow from it.
    pub deliver_rate_planned: f64,
    /// New connections per second.
    pub connect_rate_planned: f64,
    /// Measure phase asked for, in seconds.
    pub duration_s: f64,
}

/// The broker under test.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Broker {
    /// Driver: a name of the catalog, of a command, or url.
    pub driver: String,
    /// Name for tables, such as Mosquitto.
    pub name: String,
    /// As the broker itself says it, or "unknown".
    pub version: String,
    /// What it runs on, such as "Erlang/OTP 25"; empty where none decides its speed.
    #[serde(default)]
    pub runtime: String,
    /// Profile of its configuration: default, tuned, or "unknown" for a URL.
    pub profile: String,
    /// Each setting that differs from the broker's default, with its reason.
    pub profile_changes: Vec<String>,
    /// Command line it was started with; empty for a URL.
    pub command: Vec<String>,
    /// Its whole configuration; empty for a URL.
    pub configuration: String,
    /// host:port, of each node.
    pub address: String,
    /// How many nodes it has; 0 where there is only one.
    #[serde(default)]
    pub nodes: u32,
}

impl Broker {
    /// Its name and version, for a person.
    pub fn title(&self) -> String {
        let nodes = self.nodes_text();
        let words = match self.version.as_str() {
            "" | "unknown" => [self.name.as_str(), "", &nodes],
            version => [self.name.as_str(), version, &nodes],
        };
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// How many nodes it has, for a person; empty where there is only one.
    pub(crate) fn nodes_text(&self) -> String {
        if self.nodes > 1 { format!("({} nodes)", self.nodes) } else { String::new() }
    }
}

/// Whether the run can be believed, and whether the use case's contract was kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub struct Verdict {
    /// passed, failed (the broker broke the contract), invalid (the generator was the limit),
    /// or aborted (the run did not reach its end).
    pub status: Status,
    /// Why, one line each; when passed, only what makes its figures doubtful: a host that was not
    /// quiet.
    pub reasons: Vec<String>,
}

/// The ends of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Contract kept, generator healthy.
    Passed,
    /// The broker broke the contract: rate, loss, connections, or it died.
    Failed,
    /// The generator was the limit: no statement about the broker.
    Invalid,
    /// Stopped by a person.
    Aborted,
    /// The broker lacks what the use case needs, and was not started.
    Unsupported,
}

impl Status {
    /// As it stands in `result.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Aborted => "aborted",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A phase.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PhaseResult {
    /// connect, subscribe, warm-up, measure, drain.
    pub name: String,
    /// Seconds since the start of the run.
    pub start_s: f64,
    /// Seconds since the start of the run.
    pub end_s: f64,
}

/// The phase as a person and the results name it.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Connect => "connect",
        Phase::Subscribe => "subscribe",
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
}

/// A time in which the broker sent nothing at all although something was owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SilenceResult {
    /// Seconds from the run's begin, as in the series.
    pub t_s: f64,
    /// How long it was.
    pub length_s: f64,
}

/// Rates of the measure phase, a second.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Messages sent.
    pub published: f64,
    /// Messages received while the phase lasted.
    pub received: f64,
    /// Connections made, over the connect phase.
    pub connected: f64,
    /// Packets the broker received and sent, counted from the client side: PUBLISH and its acks.
    pub packets_to_broker: f64,
    /// The other way.
    pub packets_from_broker: f64,
    /// delivered / expected; 1 where nothing was expected.
    pub success: f64,
}

/// One latency.
#[expect(missing_docs, reason = "the names say it; microseconds")]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyResult {
    pub count: u64,
    pub mean_us: f64,
    pub min_us: u64,
    pub p50_us: u64,
    pub p75_us: u64,
    pub p90_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
    /// The whole histogram: HdrHistogram V2, deflated, base64.
    pub histogram: String,
}

/// The broker's process tree and the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Of the measure phase: average and highest second, in cores.
    pub cpu_cores_avg: f64,
    /// Highest interval.
    pub cpu_cores_max: f64,
    /// Of the average, in user mode.
    pub cpu_user_cores_avg: f64,
    /// Of the average, in the kernel.
    pub cpu_system_cores_avg: f64,
    /// The same in percent of all processors, as mqttbs prints it.
    pub cpu_percent_avg: f64,
    /// Highest interval.
    pub cpu_percent_max: f64,
    /// CPU seconds in measure by deliveries in measure, in microseconds; absent without deliveries.
    pub cpu_us_per_delivery: Option<f64>,
    /// CPU seconds of the connect phase by connections made, in microseconds.
    pub cpu_us_per_connection: Option<f64>,
    /// Deliveries within measure: what `cpu_us_per_delivery` is divided by.
    #[serde(default)]
    pub deliveries: u64,
    /// CPU of the kernel's network thread (`ksoftirqd`) of the broker's core in measure. It works
    /// for the broker and is in none of the figures above; absent where the broker is not pinned
    /// to a core.
    #[serde(default)]
    pub softirq_us: Option<u64>,
    /// The same in the connect phase.
    #[serde(default)]
    pub connect_softirq_us: Option<u64>,
    /// Resident memory of the tree before the first connection.
    pub rss_baseline_bytes: u64,
    /// Over the whole run.
    pub rss_max_bytes: u64,
    /// Over the measure phase.
    pub rss_avg_bytes: u64,
    /// Median of the last third of measure.
    pub rss_stable_bytes: u64,
    /// Proportional set size at the end of measure.
    pub pss_bytes: Option<u64>,
    /// Host memory in use (total - available), highest.
    pub host_used_max_bytes: u64,
    /// Host memory in use before the broker was started.
    pub host_used_baseline_bytes: u64,
    /// Host memory in use, over the measure phase; 0 in results of before.
    #[serde(default)]
    pub host_used_avg_bytes: u64,
    /// The same, median of the last third of measure.
    #[serde(default)]
    pub host_used_stable_bytes: u64,
    /// Most open files.
    pub files_max: u64,
    /// Most threads.
    pub threads_max: u64,
    /// Bytes read from and written to storage in measure, a second.
    pub disk_read_bytes_per_s: f64,
    /// Written.
    pub disk_write_bytes_per_s: f64,
}

/// The generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// In measure, in cores.
    pub cpu_cores_avg: f64,
    /// Of it, in user mode.
    pub cpu_user_cores_avg: f64,
    /// Of it, in the kernel.
    pub cpu_system_cores_avg: f64,
    /// Memory of the ledger.
    pub ledger_bytes: u64,
    /// Its absences while clients connected and subscribed.
    #[serde(default)]
    pub late_setup: Lateness,
    /// Its absences in measure, and in drain while messages were owed.
    #[serde(default)]
    pub late_measure: Lateness,
    /// Why it was the limit; empty when it was not.
    pub invalid: Vec<String>,
    /// The agents that shared the load, a line for each; empty where one thread was all.
    #[serde(default)]
    pub agents: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_per_connection_is_what_grew_with_them_or_nothing() {
        let mut run = read(include_str!("../tests/data/result-2.json")).unwrap();
        let mut of = |before, after, connected| {
            let resources = run.resources.as_mut().unwrap();
            (resources.rss_baseline_bytes, resources.rss_stable_bytes) = (before, after);
            run.connections.connected = connected;
            run.bytes_per_connection()
        };
        assert_eq!(of(1_000, 11_000, 10), Some(1_000.0));
        assert_eq!(of(1_000, 1_000, 10), None);
        assert_eq!(of(2_000, 1_000, 10), None);
        assert_eq!(of(1_000, 2_000, 0), None);
    }
}
