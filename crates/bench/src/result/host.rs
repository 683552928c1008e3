//! The host of a run, as it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The host. Load and broker share it unless the broker is a URL elsewhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Host {
    /// CPU model as the kernel names it.
    pub cpu_model: String,
    /// Logical processors.
    pub cores: u32,
    /// Frequency governor, or why it is not known.
    pub governor: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Name and release.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Hypervisor, if one is seen.
    pub virtualization: String,
    /// Load averages before the run, 1, 5 and 15 minutes.
    pub load_before: [f64; 3],
    /// Open files allowed for this process.
    pub open_files_max: u64,
    /// Relevant kernel settings by name.
    pub sysctls: BTreeMap<String, String>,
    /// Clocks, processors and connections, as the kernel treats them.
    #[serde(default)]
    pub kernel_facts: KernelFacts,
    /// Pinning of broker and load, in words.
    pub pinning: String,
    /// TCP round trip to the broker before the run, in microseconds: median of some.
    pub round_trip_us_before: Option<f64>,
    /// The same after the run.
    pub round_trip_us_after: Option<f64>,
    /// What the host did in measure beside the run.
    #[serde(default)]
    pub disturbance: Disturbance,
}

/// Processors that were taken from a run in measure. Absent where nobody can tell: of an older
/// kernel, or where broker or load run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// By other programs of the host.
    pub others_cores: Option<f64>,
    /// The same in the worst interval.
    pub others_cores_max: Option<f64>,
    /// By the hypervisor, for other guests.
    pub steal_cores: Option<f64>,
    /// The same in the worst interval.
    pub steal_cores_max: Option<f64>,
    /// What of it is too much, a line each; empty where the host was quiet.
    pub reasons: Vec<String>,
}

/// How the kernel treats clocks, processors and connections, beside its settings. Every field is
/// filled, or says that it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelFacts {
    /// What reading the clock costs here, in nanoseconds; 0 where it was not measured.
    pub clock_read_ns: f64,
    /// Frequency governors of all processors, each with how many have it.
    pub governors: String,
    /// Whether the processor may raise its frequency by itself.
    pub boost: String,
    /// Whether every packet is looked up in a table of connections.
    pub connection_tracking: String,
    /// Mitigations of the processor's faults, as the kernel was told on its command line.
    pub mitigations: String,
}
