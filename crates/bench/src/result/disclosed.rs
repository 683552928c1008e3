//! What full disclosure asks for beyond what the tables and charts need.
//!
//! An empty text is a gap, which the report names; a text that says why something is not known is
//! none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disclosed {
    /// Who ran it, as they name themselves.
    pub run_by: String,
    /// SHA-256 of the suite's executable, hex.
    pub suite_sha256: String,
    /// Where chance came from.
    pub seed: String,
    /// The broker under test.
    pub broker: BrokerFacts,
    /// The host of the load, and of the broker where it runs here.
    pub host: HostFacts,
    /// The way between the two.
    pub network: NetworkFacts,
    /// The load generator.
    pub load: LoadFacts,
    /// Fields that the file of the result did not hold, by their JSON pointers. Found while
    /// reading, never written.
    #[serde(skip)]
    pub absent: Vec<String>,
}

/// The broker under test.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BrokerFacts {
    /// The program that runs: its path where that is the system's, else its name.
    pub executable: String,
    /// SHA-256 of that program, hex.
    pub executable_sha256: String,
    /// What the program runs on: a virtual machine, an interpreter, or nothing.
    pub runtime: String,
    /// The processes of its tree, by name.
    pub processes: String,
    /// Limits of its first process, as the kernel keeps them.
    pub limits: BTreeMap<String, String>,
    /// Whether and where it keeps messages.
    pub persistence: String,
    /// How clients prove who they are.
    pub authentication: String,
    /// Version and cipher, or none.
    pub tls: String,
    /// What was loaded into it.
    pub plugins: String,
    /// How much it writes to its log, and how much it wrote.
    pub log: String,
}

/// A host.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// Whether processors are threads of shared cores.
    pub smt: String,
    /// Memory nodes.
    pub numa: String,
    /// The disk that holds the results, and what the broker keeps.
    pub disk: String,
    /// Limits of the control group.
    pub cgroup: String,
    /// Clock of the kernel, and those it could take.
    pub clock_source: String,
    /// Use of huge pages.
    pub huge_pages: String,
    /// Share of the time that something waited for a processor, memory or disk, before the run.
    pub pressure_before: String,
    /// Limits of the suite's process, as the kernel keeps them.
    pub limits: BTreeMap<String, String>,
    /// More kernel settings, by name.
    pub sysctls: BTreeMap<String, String>,
}

/// The way between load and broker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkFacts {
    /// Which hosts, over what.
    pub topology: String,
    /// The interface and its kind.
    pub interface: String,
    /// Largest packet of the interface in bytes.
    pub mtu: String,
    /// TCP congestion control of a connection to the broker, and those the kernel offers.
    pub congestion_control: String,
    /// Buffers of a new connection to the broker, and by which rule they grow.
    pub socket_buffers: String,
    /// Options of the load's sockets.
    pub socket_options: String,
    /// Queueing discipline of the kernel.
    pub queueing: String,
    /// Spread of the round trip before and after, 10 to 90 %.
    pub jitter: String,
    /// What the way bears, or why it was not measured.
    pub bandwidth: String,
    /// Which clocks the latencies compare, and their error.
    pub clocks: String,
}

/// The load generator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadFacts {
    /// Whose MQTT client.
    pub client_library: String,
    /// Connections from each source address.
    pub connections_per_address: String,
    /// What the generator bears, or how to know.
    pub ceiling: String,
}
