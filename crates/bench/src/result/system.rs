//! What the monitor sees beside CPU and memory of the broker, as it stands in results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One interval. What could not be seen is absent, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SystemRow {
    /// Proportional set size of the broker's process tree when last looked at.
    pub broker_pss_bytes: Option<u64>,
    /// How often a thread of the tree was put on a processor.
    pub context_switches_per_s: Option<f64>,
    /// Read from storage by the tree.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Written to storage by the tree.
    pub disk_written_bytes_per_s: Option<f64>,
    /// CPU of the whole host at work, in cores.
    pub host_cpu_cores: Option<f64>,
    /// CPU that the hypervisor gave to others, in cores.
    pub host_steal_cores: Option<f64>,
    /// Bytes over loopback, each counted once.
    pub loopback_bytes_per_s: Option<f64>,
    /// Packets over loopback as the kernel counts them: one may be a segment of many KiB.
    pub loopback_packets_per_s: Option<f64>,
    /// Bytes received over all other interfaces of the host.
    pub net_received_bytes_per_s: Option<f64>,
    /// The same in packets.
    pub net_received_packets_per_s: Option<f64>,
    /// Bytes sent over all other interfaces of the host.
    pub net_sent_bytes_per_s: Option<f64>,
    /// The same in packets.
    pub net_sent_packets_per_s: Option<f64>,
    /// CPU of the broker's control group, in cores.
    pub cgroup_cpu_cores: Option<f64>,
    /// Processors' worth of time that the group was kept from running by its share.
    pub cgroup_throttled_cores: Option<f64>,
    /// Memory of the group, the page cache of its files too.
    pub cgroup_memory_bytes: Option<u64>,
    /// Power of the processors' packages: of the host, broker, load and all.
    pub power_watts: Option<f64>,
}

/// A figure of [`SystemRow`] as charts and tables name it.
pub struct SystemColumn {
    /// The field.
    pub name: &'static str,
    /// For a person.
    pub label: &'static str,
    /// bytes, bytes/s, packets/s, /s, cores or W.
    pub unit: &'static str,
    /// How it is read off.
    pub of: fn(&SystemRow) -> Option<f64>,
}

macro_rules! columns {
    ($($name:ident, $label:literal, $unit:literal;)*) => {
        /// Every figure of [`SystemRow`], in its order.
        pub const SYSTEM_COLUMNS: &[SystemColumn] = &[$(SystemColumn {
            name: stringify!($name),
            label: $label,
            unit: $unit,
            of: |row| row.$name.map(|value| value as f64),
        }),*];
    };
}

columns! {
    broker_pss_bytes, "broker's proportional memory (PSS)", "bytes";
    context_switches_per_s, "broker's context switches", "/s";
    disk_read_bytes_per_s, "broker's reads from storage", "bytes/s";
    disk_written_bytes_per_s, "broker's writes to storage", "bytes/s";
    host_cpu_cores, "CPU of the host", "cores";
    host_steal_cores, "CPU given to other guests", "cores";
    loopback_bytes_per_s, "loopback", "bytes/s";
    loopback_packets_per_s, "loopback", "packets/s";
    net_received_bytes_per_s, "received by the host", "bytes/s";
    net_received_packets_per_s, "received by the host", "packets/s";
    net_sent_bytes_per_s, "sent by the host", "bytes/s";
    net_sent_packets_per_s, "sent by the host", "packets/s";
    cgroup_cpu_cores, "CPU of the broker's control group", "cores";
    cgroup_throttled_cores, "time the control group was kept from running", "cores";
    cgroup_memory_bytes, "memory of the broker's control group", "bytes";
    power_watts, "power of the processors", "W";
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_an_older_result_has_nothing_and_every_figure_has_a_column() {
        assert_eq!(serde_json::from_str::<SystemRow>("{}").unwrap(), SystemRow::default());
        let value = serde_json::to_value(SystemRow::default()).unwrap();
        let mut fields: Vec<&String> = value.as_object().unwrap().keys().collect();
        let mut names: Vec<&str> = SYSTEM_COLUMNS.iter().map(|column| column.name).collect();
        fields.sort_unstable();
        names.sort_unstable();
        assert_eq!(fields, names);
    }
}
