//! From looks to what the monitor sees beside CPU and memory of the broker.

use super::{Sample, per_us};
use crate::result::{MonitorCost, System, SystemRow};

/// The counters over `from_us` to `to_us`; what is no counter is of the look nearest to the end.
pub fn row(samples: &[Sample], from_us: u64, to_us: u64) -> SystemRow {
    let nearest = samples.iter().min_by_key(|sample| sample.at_us.abs_diff(to_us));
    let Some(end) = nearest else { return SystemRow::default() };
    let per_s = |of: fn(&Sample) -> Option<u64>| growth_per_us(samples, from_us, to_us, of);
    let rate = |of: fn(&Sample) -> Option<u64>| per_s(of).map(|per_us| per_us * 1e6);
    // Where there is no tree there are no figures of one.
    let tree = |rate: Option<f64>| rate.filter(|_| end.threads > 0);
    SystemRow {
        broker_pss_bytes: end.pss_bytes,
        context_switches_per_s: rate(|sample| sample.switches),
        disk_read_bytes_per_s: tree(rate(|sample| Some(sample.disk_read_bytes))),
        disk_written_bytes_per_s: tree(rate(|sample| Some(sample.disk_write_bytes))),
        host_cpu_cores: per_s(|sample| sample.host.busy_us),
        host_steal_cores: per_s(|sample| sample.host.steal_us),
        loopback_bytes_per_s: rate(|sample| Some(sample.host.network?.loopback_bytes)),
        loopback_packets_per_s: rate(|sample| Some(sample.host.network?.loopback_packets)),
        net_received_bytes_per_s: rate(|sample| Some(sample.host.network?.received_bytes)),
        net_received_packets_per_s: rate(|sample| Some(sample.host.network?.received_packets)),
        net_sent_bytes_per_s: rate(|sample| Some(sample.host.network?.sent_bytes)),
        net_sent_packets_per_s: rate(|sample| Some(sample.host.network?.sent_packets)),
        cgroup_cpu_cores: per_s(|sample| sample.group.cpu_us),
        cgroup_throttled_cores: per_s(|sample| sample.group.throttled_us),
        cgroup_memory_bytes: end.group.memory_bytes,
        // Microjoules in a microsecond are joules in a second.
        power_watts: per_s(|sample| sample.host.energy_uj),
    }
}

/// Growth of a counter that was seen at every look around the time.
fn growth_per_us(
    samples: &[Sample],
    from_us: u64,
    to_us: u64,
    of: fn(&Sample) -> Option<u64>,
) -> Option<f64> {
    samples.iter().all(|sample| of(sample).is_some()).then_some(())?;
    per_us(samples, from_us, to_us, &|sample| of(sample).unwrap_or(0))
}

/// What the derived figures of a run are made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// The measure phase, microseconds of the monotonic clock.
    pub measure_us: (u64, u64),
    /// Messages sent to the broker in measure.
    pub published: u64,
    /// Messages received from it in measure.
    pub delivered: u64,
    /// Connections made.
    pub connections: u64,
    /// CPU of the broker in measure, in cores.
    pub cpu_cores: f64,
    /// Resident memory before the first connection, and stable.
    pub rss_bytes: (u64, u64),
    /// Memory of the host in use before the broker was started, and highest.
    pub host_bytes: (u64, u64),
}

/// The figures of a run; those of a control group's name are for the caller to add.
pub fn run(samples: &[Sample], work: &Work) -> System {
    let (start_us, end_us) = work.measure_us;
    let measure = row(samples, start_us, end_us);
    let seconds = end_us.saturating_sub(start_us) as f64 / 1e6;
    let messages = (work.published + work.delivered) as f64;
    let cpu_s = work.cpu_cores * seconds;
    let each = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
    // What did not grow with the connections cannot be measured at this scale.
    let kib = |(before, after): (u64, u64)| {
        let grown = after.checked_sub(before).filter(|&bytes| bytes > 0)?;
        each(grown as f64 / 1024.0, work.connections)
    };
    let (first, last) = (samples.first(), samples.last());
    let lasted_us = first.zip(last).map_or(0, |(first, last)| last.at_us - first.at_us);
    let cost_us = last.map_or(0, |last| last.monitor_cpu_us) as f64;
    System {
        messages_per_core_s: (messages > 0.0 && cpu_s > 0.0).then(|| messages / cpu_s),
        kib_per_connection: kib(work.rss_bytes),
        host_kib_per_connection: kib(work.host_bytes),
        context_switches_per_delivery: measure
            .context_switches_per_s
            .and_then(|per_s| each(per_s * seconds, work.delivered)),
        microjoules_per_delivery: measure
            .power_watts
            .and_then(|watts| each(watts * seconds * 1e6, work.delivered)),
        pss_max_bytes: samples.iter().filter_map(|sample| sample.pss_bytes).max(),
        monitor: MonitorCost {
            looks: samples.len() as u64,
            look_us: each(cost_us, samples.len() as u64).unwrap_or(0.0),
            cpu_cores: if lasted_us > 0 { cost_us / lasted_us as f64 } else { 0.0 },
        },
        measure,
        ..System::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostSample, Network};
    use super::*;

    fn sample(second: u64) -> Sample {
        let network = Network { loopback_bytes: 1_000 * second, ..Network::default() };
        let host = HostSample {
            network: Some(network),
            energy_uj: Some(30_000_000 * second),
            ..HostSample::default()
        };
        Sample {
            at_us: second * 1_000_000,
            threads: 2,
            switches: Some(50 * second),
            pss_bytes: (second > 2).then_some(second),
            monitor_cpu_us: 100 * (second + 1),
            host,
            ..Sample::default()
        }
    }

    #[test]
    fn counters_become_rates_and_what_was_not_seen_is_absent() {
        let mut samples: Vec<Sample> = (0..10).map(sample).collect();
        let row = row(&samples, 2_000_000, 4_000_000);
        assert_eq!(row.loopback_bytes_per_s, Some(1_000.0));
        assert_eq!(row.context_switches_per_s, Some(50.0));
        assert_eq!(row.disk_read_bytes_per_s, Some(0.0));
        assert_eq!(row.power_watts, Some(30.0));
        assert_eq!(row.broker_pss_bytes, Some(4));
        assert_eq!((row.cgroup_cpu_cores, row.host_cpu_cores), (None, None));
        samples[5].switches = None;
        samples.iter_mut().for_each(|sample| sample.threads = 0);
        let row = super::row(&samples, 2_000_000, 4_000_000);
        assert_eq!((row.context_switches_per_s, row.disk_read_bytes_per_s), (None, None));
        assert_eq!(super::row(&[], 0, 1), SystemRow::default());
    }

    #[test]
    fn work_is_set_against_cpu_memory_and_energy() {
        let samples: Vec<Sample> = (0..10).map(sample).collect();
        let work = Work {
            measure_us: (2_000_000, 6_000_000),
            published: 1_000,
            delivered: 3_000,
            connections: 100,
            cpu_cores: 0.5,
            rss_bytes: (1_024_000, 3_072_000),
            host_bytes: (0, 102_400_000),
        };
        let system = run(&samples, &work);
        assert_eq!(system.messages_per_core_s, Some(2_000.0));
        assert_eq!(system.kib_per_connection, Some(20.0));
        assert_eq!(system.host_kib_per_connection, Some(1_000.0));
        assert_eq!(system.microjoules_per_delivery, Some(40_000.0));
        assert_eq!(system.pss_max_bytes, Some(9));
        assert_eq!(system.monitor.looks, 10);
        assert!((system.monitor.look_us - 100.0).abs() < 1e-9);
        // 1,000 us in the 9 s between the first look and the last.
        assert!((system.monitor.cpu_cores - 1e-3 / 9.0).abs() < 1e-9);
        let shrunk = Work { rss_bytes: (3_072_000, 1_024_000), host_bytes: (9, 9), ..work };
        let shrunk = run(&samples, &shrunk);
        assert_eq!((shrunk.kib_per_connection, shrunk.host_kib_per_connection), (None, None));
        let idle = run(&samples, &Work::default());
        assert_eq!((idle.messages_per_core_s, idle.kib_per_connection), (None, None));
    }
}
