//! An interval of a run: its figures, each with its meaning and with what stands for several.
//!
//! Both tables here are all there is of a figure but its value, which `assemble` and `monitor`
//! fill in: the series of results, the page's charts, the live metrics and docs/metrics.md are made
//! of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a figure behaves over time, and so what stands for several intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What is at the end of an interval; of several, the last.
    State,
    /// A rate over an interval, a second; their mean. Its sum over the run is a counter.
    Rate,
    /// What went wrong in an interval; their sum. Over the run it is a counter.
    Count,
    /// A mean over an interval; their mean.
    Mean,
    /// A high percentile or a maximum; the highest, so that no peak is hidden.
    Peak,
}

/// A figure of an interval.
#[derive(Clone, Copy, Debug)]
pub struct Figure<T> {
    /// As it is kept, with its unit last.
    pub name: &'static str,
    /// What it is, in a sentence or two.
    pub help: &'static str,
    /// How it behaves over time.
    pub kind: Kind,
    /// How it is read; nothing where it was not seen.
    pub of: fn(&T) -> Option<f64>,
}

impl<T> Figure<T> {
    /// Whether its sum over a run means something.
    pub fn is_summed(&self) -> bool {
        matches!(self.kind, Kind::Rate | Kind::Count)
    }

    /// What that sum is called.
    pub fn total_name(&self) -> &'static str {
        self.name.strip_suffix("_per_s").unwrap_or(self.name)
    }
}

/// Numbers as figures.
trait Number {
    fn number(self) -> Option<f64>;
}

impl Number for u64 {
    fn number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl Number for f64 {
    fn number(self) -> Option<f64> {
        Some(self)
    }
}

impl<T: Number> Number for Option<T> {
    fn number(self) -> Option<f64> {
        self.and_then(Number::number)
    }
}

/// A row and the table of its figures, with fields before and behind them that are none.
macro_rules! figures {
    (
        $(#[$of:meta])*
        $row:ident, $table:ident:
        { $($before:tt)* }
        $($kind:ident $name:ident: $type:ty = $help:literal;)*
        { $($behind:tt)* }
    ) => {
        $(#[$of])*
        pub struct $row {
            $($before)*
            $(#[doc = $help] pub $name: $type,)*
            $($behind)*
        }

        #[doc = concat!("Every figure of [`", stringify!($row), "`], in its order.")]
        pub const $table: &[Figure<$row>] = &[$(Figure {
            name: stringify!($name),
            help: $help,
            kind: Kind::$kind,
            of: |row| row.$name.number(),
        },)*];
    };
}

figures! {
    /// One interval: the load's and the broker's figures side by side. Also a row of series.csv.
    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    SeriesRow, SERIES:
    {
        /// Seconds from the run's begin to the interval's end.
        pub t_s: f64,
        /// The phase that it belongs to.
        pub phase: String,
    }
    State connections: u64 = "Connections open.";
    State subscribers: u64 = "Subscribers connected.";
    State publishers: u64 = "Publishers connected.";
    Rate connected_per_s: f64 = "Connections accepted.";
    Count connect_failures: u64 = "Connections failed or dropped.";
    Rate subscribed_per_s: f64 = "Subscriptions granted.";
    Count subscribe_failures: u64 = "Subscriptions refused.";
    Rate published_per_s: f64 = "Messages sent.";
    Rate acknowledged_per_s: f64 = "Messages acknowledged with success.";
    Count publish_failures: u64 = "Messages refused.";
    Rate received_per_s: f64 = "Messages received.";
    State outstanding: u64 = "Deliveries owed that have not arrived yet.";
    Count duplicated: u64 = "Duplicated deliveries.";
    Count reordered: u64 = "Deliveries out of order.";
    Rate bytes_out_per_s: f64 = "Bytes written to sockets.";
    Rate bytes_in_per_s: f64 = "Bytes read from sockets.";
    Mean connect_mean_us: f64 = "CONNECT to CONNACK, mean.";
    Peak connect_p99_us: u64 = "CONNECT to CONNACK, p99.";
    Mean subscribe_mean_us: f64 = "SUBSCRIBE to SUBACK, mean.";
    Peak subscribe_p99_us: u64 = "SUBSCRIBE to SUBACK, p99.";
    Mean acknowledge_mean_us: f64 = "PUBLISH to its last acknowledgement, mean.";
    Peak acknowledge_p99_us: u64 = "PUBLISH to its last acknowledgement, p99.";
    Mean latency_mean_us: f64 = "Intended time to receipt, mean.";
    Peak latency_p50_us: u64 = "Intended time to receipt, median.";
    Peak latency_p90_us: u64 = "Intended time to receipt, p90.";
    Peak latency_p99_us: u64 = "Intended time to receipt, p99.";
    Peak latency_max_us: u64 = "Intended time to receipt, highest.";
    Peak generator_lag_p99_us: u64 = "The generator's own lag, p99.";
    Peak generator_lag_max_us: u64 = "The generator's own lag, highest.";
    Mean generator_cpu_cores: f64 = "CPU of the generator.";
    Mean broker_cpu_user_cores: f64 = "CPU of the broker's processes in user mode.";
    Mean broker_cpu_system_cores: f64 = "CPU of the broker's processes in the kernel.";
    State broker_rss_bytes: u64 = "Resident memory of the broker's processes.";
    State broker_files: u64 = "Open files of the broker's processes.";
    State broker_threads: u64 = "Threads of the broker's processes.";
    State host_used_bytes: u64 = "Memory of the host in use.";
    {
        /// What the monitor sees beside.
        #[serde(flatten)]
        pub system: SystemRow,
    }
}

figures! {
    /// What the monitor sees of an interval beside CPU and memory. What could not be seen is
    /// absent, not zero.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    SystemRow, SYSTEM:
    {}
    State broker_pss_bytes: Option<u64> =
        "Proportional set size of the broker's process tree when last looked at.";
    Rate context_switches_per_s: Option<f64> =
        "How often a thread of the broker's process tree was scheduled.";
    Rate disk_read_bytes_per_s: Option<f64> = "Read from storage by the broker's tree.";
    Rate disk_written_bytes_per_s: Option<f64> = "Written to storage by the broker's tree.";
    Mean host_cpu_cores: Option<f64> = "Busy CPU of the whole host.";
    Mean host_steal_cores: Option<f64> = "CPU that the hypervisor gave to other guests.";
    Rate loopback_bytes_per_s: Option<f64> = "Bytes over loopback, each counted once.";
    Rate loopback_packets_per_s: Option<f64> =
        "Packets over loopback as the kernel counts them: one may be a segment of many KiB.";
    Rate net_received_bytes_per_s: Option<f64> =
        "Bytes received over all other interfaces of the host.";
    Rate net_received_packets_per_s: Option<f64> =
        "Packets received over all other interfaces of the host.";
    Rate net_sent_bytes_per_s: Option<f64> = "Bytes sent over all other interfaces of the host.";
    Rate net_sent_packets_per_s: Option<f64> =
        "Packets sent over all other interfaces of the host.";
    Mean cgroup_cpu_cores: Option<f64> = "CPU of the broker's control group.";
    Mean cgroup_throttled_cores: Option<f64> =
        "Processor time during which the control group was throttled by its quota.";
    State cgroup_memory_bytes: Option<u64> =
        "Memory of the control group, including the page cache of its files.";
    Mean power_watts: Option<f64> =
        "Power of the processor packages: of the whole host, including broker and load.";
    {}
}

impl SeriesRow {
    /// CPU of the broker's processes, in cores.
    pub fn broker_cpu_cores(&self) -> f64 {
        self.broker_cpu_user_cores + self.broker_cpu_system_cores
    }
}

/// What the suite makes of other figures, and does not keep.
pub const DERIVED: &[Figure<SeriesRow>] = &[Figure {
    name: "broker_cpu_cores",
    help: "CPU of the broker's processes.",
    kind: Kind::Mean,
    of: |row| Some(row.broker_cpu_cores()),
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_an_older_result_has_no_figures_of_the_system() {
        assert_eq!(serde_json::from_str::<SystemRow>("{}").unwrap(), SystemRow::default());
    }

    #[test]
    fn no_two_figures_have_one_name() {
        let names = SERIES.iter().chain(DERIVED).map(|figure| figure.name);
        let names = names.chain(SYSTEM.iter().map(|figure| figure.name));
        let count = names.clone().count();
        assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), count);
    }
}
