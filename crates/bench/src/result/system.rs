//! What the monitor sees beside CPU and memory of the broker, as it stands in results.

use super::SystemRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct System {
    /// Rates over the measure phase, memory at its end.
    pub measure: SystemRow,
    /// Messages in and out of the broker for a second of its CPU, in measure.
    pub messages_per_core_s: Option<f64>,
    /// Resident memory, stable less before the first connection, for a connection made.
    pub kib_per_connection: Option<f64>,
    /// The same of the memory of the whole host: the kernel's sockets, and those of the load.
    pub host_kib_per_connection: Option<f64>,
    /// Context switches for a delivery, in measure.
    pub context_switches_per_delivery: Option<f64>,
    /// Energy of the whole host's processors for a delivery, in measure.
    pub microjoules_per_delivery: Option<f64>,
    /// Highest proportional set size seen.
    pub pss_max_bytes: Option<u64>,
    /// The broker's control group, if it has one.
    pub cgroup: Option<String>,
    /// Whether the load generator is in it too: then its figures are of both.
    pub is_cgroup_shared: bool,
    /// What watching cost.
    pub monitor: MonitorCost,
}

/// What watching cost: none of it is in the broker's or the generator's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MonitorCost {
    /// Looks of the whole run.
    pub looks: u64,
    /// CPU of a look, on average.
    pub look_us: f64,
    /// CPU of all looks over the run's time, in cores.
    pub cpu_cores: f64,
}
