//! The broker's processes and the host, looked at while a run lasts.

mod ended;
mod energy;
mod group;
mod look;
mod network;
pub mod system;

pub use group::GroupSample;
pub use look::tree;
pub use network::Network;

pub(crate) use look::is_going;

use crate::result::Resources;
use ended::Ended;
use look::Looker;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Looks take at most one part in so many of the time.
const LOOK_PARTS: u32 = 50;

/// Looks that [`Monitor::newest`] gives.
const NEWEST: usize = 16;

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Microseconds of the monotonic clock, as the load's.
    pub at_us: u64,
    /// CPU of the process tree since its begin, in user mode.
    pub cpu_user_us: u64,
    /// The same in the kernel.
    pub cpu_system_us: u64,
    /// Resident memory of the tree.
    pub rss_bytes: u64,
    /// Threads of the tree.
    pub threads: u64,
    /// Open files of the tree, when last counted.
    pub files: u64,
    /// Proportional set size of the tree, when last looked at.
    pub pss_bytes: Option<u64>,
    /// How often a thread of the tree was put on a processor, of the threads that still are.
    pub switches: Option<u64>,
    /// Read from storage since its begin.
    pub disk_read_bytes: u64,
    /// Written to storage since its begin.
    pub disk_write_bytes: u64,
    /// Memory of the host in use.
    pub host_used_bytes: u64,
    /// CPU of the kernel's network thread of the broker's core, since boot.
    pub softirq_us: Option<u64>,
    /// The host beside the tree.
    pub host: HostSample,
    /// The tree's control group.
    pub group: GroupSample,
    /// CPU of the monitor itself, since its begin.
    pub monitor_cpu_us: u64,
}

/// The host at one look. What cannot be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Its interfaces.
    pub network: Option<Network>,
    /// CPU at work since boot, of all processors.
    pub busy_us: Option<u64>,
    /// CPU that the hypervisor gave to others since boot.
    pub steal_us: Option<u64>,
    /// Energy of the processors' packages since the first look.
    pub energy_uj: Option<u64>,
}

impl Sample {
    fn cpu_us(&self) -> u64 {
        self.cpu_user_us + self.cpu_system_us
    }
}

type Samples = Arc<(Mutex<Vec<Sample>>, Condvar)>;

/// A thread that looks at a process tree, or at the host alone.
pub struct Monitor {
    samples: Samples,
    /// Told to look at once; dropped to end the thread.
    looks: Sender<()>,
    /// The process that is looked at; 0 is none.
    pid: Arc<AtomicU32>,
    thread: JoinHandle<()>,
    /// The control group of the tree, and whether this process is in it, too.
    pub group: Option<(String, bool)>,
}

impl Monitor {
    /// Looks at the tree of `pid` every `interval` from now on, and at what the kernel's network
    /// thread does on `core`, if the tree is pinned to one.
    pub fn start(pid: Option<u32>, core: Option<usize>, interval: Duration) -> Self {
        let samples = Samples::default();
        let (looks, asked) = channel::<()>();
        let shared = Arc::clone(&samples);
        let watched = Arc::new(AtomicU32::new(pid.unwrap_or(0)));
        let of_thread = Arc::clone(&watched);
        let mut looker = Looker::new(pid, core);
        let group = looker.group().map(|group| (group.name.clone(), group.is_ours));
        let thread = std::thread::spawn(move || {
            let mut ended = Ended::default();
            loop {
                let begin = Instant::now();
                let pid = Some(of_thread.load(Ordering::Relaxed)).filter(|&pid| pid > 0);
                looker.follow(pid);
                let sample = ended.with(pid, looker.look());
                if let Ok(mut samples) = shared.0.lock() {
                    samples.push(sample);
                }
                shared.1.notify_all();
                let wait = interval.max(begin.elapsed() * LOOK_PARTS);
                if asked.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        });
        Self { samples, looks, pid: watched, thread, group }
    }

    /// Looks at `from_us` and at `to_us` as well: between two looks, one before and one behind the
    /// end of all work, interpolation is wrong by the work of up to a quarter of the time between
    /// them. Returns early when `over` is disconnected, and looks then.
    pub(crate) fn look_at_edges(&self, from_us: u64, to_us: u64, over: &Receiver<()>) {
        for at_us in [from_us, to_us] {
            let wait = Duration::from_micros(at_us.saturating_sub(now_us()));
            let is_over = over.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected);
            // A monitor that broke down has said so.
            let _ = self.looks.send(());
            if is_over {
                return;
            }
        }
    }

    /// Looks at once, beside the regular looks.
    pub fn look(&self) {
        // A monitor that broke down has said so.
        let _ = self.looks.send(());
    }

    /// From now on this process is looked at: the broker was started again.
    pub(crate) fn follow(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }

    /// The first look, waited for.
    pub fn first(&self, timeout: Duration) -> Option<Sample> {
        let samples = self.samples.0.lock().ok()?;
        let is_empty = |samples: &mut Vec<Sample>| samples.is_empty();
        let (samples, _) = self.samples.1.wait_timeout_while(samples, timeout, is_empty).ok()?;
        samples.first().copied()
    }

    /// The newest looks in order, enough of them for an interval of some seconds.
    pub fn newest(&self) -> Vec<Sample> {
        let Ok(samples) = self.samples.0.lock() else { return Vec::new() };
        samples[samples.len().saturating_sub(NEWEST)..].to_vec()
    }

    /// Ends the thread; all looks in order.
    pub fn stop(self) -> Vec<Sample> {
        drop(self.looks);
        // A monitor that broke down leaves what it saw before.
        let _ = self.thread.join();
        self.samples.0.lock().map(|samples| samples.clone()).unwrap_or_default()
    }
}

/// The processes of a tree, by id.
pub(crate) fn tree_pids(pid: u32) -> Vec<i32> {
    tree(pid).iter().map(|(process, _)| process.pid).collect()
}

/// Microseconds of the monotonic clock.
pub fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Names of the processes of a tree.
pub(crate) fn names(pid: u32) -> Vec<String> {
    tree(pid).into_iter().map(|(_, stat)| stat.comm).collect()
}

/// Proportional set size of the tree: shared pages counted in parts.
pub fn pss(pid: u32) -> Option<u64> {
    look::pss_of(&tree(pid))
}

/// The state of the broker at the end of an interval, and its CPU within it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named in SeriesRow")]
pub struct At {
    pub cpu_user_cores: f64,
    pub cpu_system_cores: f64,
    pub rss_bytes: u64,
    pub files: u64,
    pub threads: u64,
    pub host_used_bytes: u64,
}

/// The broker over `from_us` to `to_us`. CPU is interpolated between the looks before and after
/// each end; the rest is of the look nearest to the end. Zeros where nobody looked.
pub fn at(samples: &[Sample], from_us: u64, to_us: u64) -> At {
    let nearest = samples.iter().min_by_key(|sample| sample.at_us.abs_diff(to_us));
    let Some(end) = nearest else { return At::default() };
    At {
        cpu_user_cores: per_us(samples, from_us, to_us, &|sample| sample.cpu_user_us)
            .unwrap_or(0.0),
        cpu_system_cores: per_us(samples, from_us, to_us, &|sample| sample.cpu_system_us)
            .unwrap_or(0.0),
        rss_bytes: end.rss_bytes,
        files: end.files,
        threads: end.threads,
        host_used_bytes: end.host_used_bytes,
    }
}

/// Growth of a counter in a microsecond, over the part of the time that was looked at.
fn per_us(
    samples: &[Sample],
    from_us: u64,
    to_us: u64,
    of: &dyn Fn(&Sample) -> u64,
) -> Option<f64> {
    let (first, last) = (samples.first()?.at_us, samples.last()?.at_us);
    let (from_us, to_us) = (from_us.max(first), to_us.min(last));
    let wall_us = to_us.checked_sub(from_us).filter(|wall_us| *wall_us > 0)?;
    let growth = counter(samples, to_us, of)? - counter(samples, from_us, of)?;
    // A process of the tree that ends takes its counters with it.
    Some(growth.max(0.0) / wall_us as f64)
}

/// A counter at a time between the first look and the last.
fn counter(samples: &[Sample], time_us: u64, of: &dyn Fn(&Sample) -> u64) -> Option<f64> {
    let after = samples.partition_point(|sample| sample.at_us < time_us);
    let to = samples.get(after)?;
    let from = after.checked_sub(1).map_or(to, |before| &samples[before]);
    let wall_us = (to.at_us - from.at_us).max(1) as f64;
    let share = 1.0 - (to.at_us - time_us) as f64 / wall_us;
    Some(of(from) as f64 + (of(to) as f64 - of(from) as f64) * share)
}

/// What the sums of a run are taken over.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The measure phase, microseconds of the monotonic clock.
    pub measure_us: (u64, u64),
    /// The connect phase.
    pub connect_us: (u64, u64),
    /// Deliveries within measure.
    pub deliveries: u64,
    /// Connections made within connect.
    pub connections: u64,
    /// Processors of the host.
    pub cores: u32,
}

/// The sums of a run. `baseline` is the look before the first connection.
pub fn resources(
    samples: &[Sample],
    baseline: &Sample,
    window: &Window,
    pss_bytes: Option<u64>,
) -> Resources {
    let (start_us, end_us) = window.measure_us;
    let within: Vec<&Sample> =
        samples.iter().filter(|sample| (start_us..=end_us).contains(&sample.at_us)).collect();
    let all = at(samples, start_us, end_us);
    let cores_avg = all.cpu_user_cores + all.cpu_system_cores;
    let cores_max = highest_cpu(&within).unwrap_or(cores_avg).max(cores_avg);
    let percent = |cores: f64| cores / f64::from(window.cores.max(1)) * 100.0;
    // Absent, not zero, where nothing was done or nobody looked.
    let sum = |(from_us, to_us): (u64, u64), of: fn(&Sample) -> u64| {
        Some(per_us(samples, from_us, to_us, &of)? * (to_us - from_us) as f64)
    };
    let per = |span, count: u64| {
        let cpu_us = sum(span, Sample::cpu_us)?;
        (count > 0).then(|| cpu_us / count as f64)
    };
    let is_softirq_seen = samples.iter().all(|sample| sample.softirq_us.is_some());
    let softirq = |span| {
        let us = is_softirq_seen.then(|| sum(span, |sample| sample.softirq_us.unwrap_or(0)))??;
        Some(us.round() as u64)
    };
    let disk = |of: fn(&Sample) -> u64| per_us(samples, start_us, end_us, &of).unwrap_or(0.0) * 1e6;
    let highest = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
    Resources {
        cpu_cores_avg: cores_avg,
        cpu_cores_max: cores_max,
        cpu_user_cores_avg: all.cpu_user_cores,
        cpu_system_cores_avg: all.cpu_system_cores,
        cpu_percent_avg: percent(cores_avg),
        cpu_percent_max: percent(cores_max),
        cpu_us_per_delivery: per(window.measure_us, window.deliveries),
        cpu_us_per_connection: per(window.connect_us, window.connections),
        deliveries: window.deliveries,
        softirq_us: softirq(window.measure_us),
        connect_softirq_us: softirq(window.connect_us),
        rss_baseline_bytes: baseline.rss_bytes,
        rss_max_bytes: highest(|sample| sample.rss_bytes),
        rss_avg_bytes: mean(&within),
        rss_stable_bytes: median_of_last_third(&within),
        pss_bytes,
        host_used_max_bytes: highest(|sample| sample.host_used_bytes),
        host_used_baseline_bytes: baseline.host_used_bytes,
        files_max: highest(|sample| sample.files),
        threads_max: highest(|sample| sample.threads),
        disk_read_bytes_per_s: disk(|sample| sample.disk_read_bytes),
        disk_write_bytes_per_s: disk(|sample| sample.disk_write_bytes),
    }
}

/// CPU in cores over the busiest second or so: between looks at least one second apart.
fn highest_cpu(samples: &[&Sample]) -> Option<f64> {
    let mut highest: Option<f64> = None;
    let mut from = samples.first()?;
    for to in samples {
        let wall_us = to.at_us - from.at_us;
        if wall_us >= 1_000_000 {
            let cores = to.cpu_us().saturating_sub(from.cpu_us()) as f64 / wall_us as f64;
            highest = Some(highest.map_or(cores, |highest| highest.max(cores)));
            from = to;
        }
    }
    highest
}

fn mean(samples: &[&Sample]) -> u64 {
    let sum: u64 = samples.iter().map(|sample| sample.rss_bytes).sum();
    sum / samples.len().max(1) as u64
}

fn median_of_last_third(samples: &[&Sample]) -> u64 {
    let last = &samples[samples.len() - samples.len().div_ceil(3)..];
    let mut sizes: Vec<u64> = last.iter().map(|sample| sample.rss_bytes).collect();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::look::{Softirq, tree};
    use super::*;
    use procfs::process::all_processes;

    fn sample(second: u64, cpu_s: u64, rss_bytes: u64) -> Sample {
        let (at_us, cpu_user_us) = (second * 1_000_000, cpu_s * 1_000_000);
        Sample { at_us, cpu_user_us, rss_bytes, ..Sample::default() }
    }

    #[test]
    fn cpu_is_of_the_measure_phase_and_stable_memory_of_its_last_third() {
        let samples: Vec<Sample> = (0..10).map(|s| sample(s, s * s / 10, 100 * s)).collect();
        let window = Window {
            measure_us: (3_000_000, 9_000_000),
            connect_us: (0, 3_000_000),
            deliveries: 1000,
            connections: 10,
            cores: 2,
        };
        let resources = resources(&samples, &samples[0], &window, None);
        assert!((resources.cpu_cores_avg - 8.0 / 6.0).abs() < 1e-9, "{resources:?}");
        assert!((resources.cpu_percent_avg - 100.0 * 4.0 / 6.0).abs() < 1e-9);
        assert_eq!(resources.rss_stable_bytes, 800);
        assert_eq!(resources.rss_max_bytes, 900);
        assert_eq!(resources.cpu_us_per_delivery, Some(8000.0));
        assert_eq!(resources.cpu_us_per_connection, Some(0.0));
    }

    #[test]
    fn what_nobody_looked_at_is_absent_and_not_zero() {
        let window = Window {
            measure_us: (3_000_000, 9_000_000),
            connect_us: (0, 3_000_000),
            deliveries: 1000,
            connections: 10,
            cores: 2,
        };
        let resources = resources(&[sample(1, 1, 1)], &sample(1, 1, 1), &window, None);
        assert_eq!(resources.cpu_us_per_delivery, None);
        assert_eq!(resources.cpu_us_per_connection, None);
        assert_eq!(resources.rss_stable_bytes, 0);
        assert_eq!(at(&[], 0, 1), At::default());
    }

    #[test]
    fn the_kernels_network_thread_counts_where_it_was_seen_at_every_look() {
        let look = |second: u64| Sample { softirq_us: Some(50 * second), ..sample(second, 0, 1) };
        let mut samples: Vec<Sample> = (0..10).map(look).collect();
        let window = Window {
            measure_us: (3_000_000, 9_000_000),
            connect_us: (0, 2_000_000),
            deliveries: 1000,
            connections: 10,
            cores: 2,
        };
        let of = |samples: &[Sample]| {
            let resources = resources(samples, &samples[0], &window, None);
            (resources.softirq_us, resources.connect_softirq_us, resources.deliveries)
        };
        assert_eq!(of(&samples), (Some(300), Some(100), 1000));
        samples[5].softirq_us = None;
        assert_eq!(of(&samples), (None, None, 1000));
    }

    #[test]
    fn the_network_thread_of_a_core_is_found_by_its_name() {
        let is_seen = |core| Softirq::of(core).and_then(|softirq| softirq.cpu_us()).is_some();
        // In a container the kernel's threads are not to be seen.
        let all = all_processes().unwrap().flatten();
        let has_kernel = all.flat_map(|p| p.stat()).any(|stat| stat.comm == "ksoftirqd/0");
        assert_eq!(is_seen(0), has_kernel);
        assert!(!is_seen(1_000_000));
    }

    #[test]
    fn the_edges_of_measure_are_looked_at_whatever_the_interval() {
        let monitor = Monitor::start(Some(std::process::id()), None, Duration::from_secs(3_600));
        let (_until_over, over) = channel::<()>();
        monitor.first(Duration::from_secs(60)).unwrap();
        let (from_us, to_us) = (now_us() + 1_000, now_us() + 2_000);
        monitor.look_at_edges(from_us, to_us, &over);
        let samples = monitor.stop();
        assert_eq!(samples.len(), 3);
        assert!(samples[1].at_us >= from_us && samples[2].at_us >= to_us, "{samples:?}");
    }

    #[test]
    fn cpu_of_a_time_between_two_looks_is_interpolated() {
        let samples = [sample(0, 0, 5), sample(2, 0, 6), sample(4, 4, 7)];
        let row = at(&samples, 1_000_000, 3_000_000);
        assert!((row.cpu_user_cores - 1.0).abs() < 1e-9, "{row:?}");
        // Only what was looked at counts: the broker did not idle after the last look.
        let row = at(&samples, 2_000_000, 9_000_000);
        assert!((row.cpu_user_cores - 2.0).abs() < 1e-9, "{row:?}");
        assert_eq!(row.rss_bytes, 7);
    }

    #[test]
    fn a_monitor_without_a_process_sees_the_host() {
        let monitor = Monitor::start(None, None, Duration::from_millis(5));
        let first = monitor.first(Duration::from_secs(10)).unwrap();
        assert!(first.host_used_bytes > 0 && first.cpu_us() == 0 && first.rss_bytes == 0);
        assert!(!monitor.stop().is_empty());
        assert!(pss(std::process::id()).is_none_or(|bytes| bytes > 0));
    }

    #[test]
    fn a_busy_child_is_seen_to_use_cpu() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done'; :"])
            .spawn()
            .unwrap();
        let monitor = Monitor::start(Some(child.id()), None, Duration::from_millis(20));
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_seen = || monitor.newest().last().is_some_and(|s| s.cpu_us() > 0 && s.threads >= 2);
        while !is_seen() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let found = tree(child.id());
        for (process, _) in &found {
            let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        child.wait().unwrap();
        let samples = monitor.stop();
        assert!(found.len() >= 2, "the shell and its child");
        assert!(samples.iter().any(|s| s.cpu_us() > 0 && s.rss_bytes > 0), "{samples:?}");
    }
}
