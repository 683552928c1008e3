//! The broker's processes and the host, looked at while a run lasts.

pub mod disturbance;
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
use std::mem::take;
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
    /// CPU of the process tree since its begin.
    pub cpu_us: u64,
    /// As much of it as the kernel's ticks met in user mode. They miss much: only what grows in a
    /// time, set against the next, says how the CPU of that time is split.
    pub user_ticks_us: u64,
    /// The same in the kernel.
    pub system_ticks_us: u64,
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
    /// Of it, handling network packets and other soft interrupts.
    pub softirq_us: Option<u64>,
    /// CPU that the hypervisor gave to others since boot.
    pub steal_us: Option<u64>,
    /// CPU of this process since its begin: the load, unless agents generate it, and the monitor.
    pub suite_us: u64,
    /// Energy of the processors' packages since the first look.
    pub energy_uj: Option<u64>,
}

impl Sample {
    /// Adds the counters of another tree.
    fn add(&mut self, tree: &Self) {
        self.cpu_us += tree.cpu_us;
        self.user_ticks_us += tree.user_ticks_us;
        self.system_ticks_us += tree.system_ticks_us;
        self.rss_bytes += tree.rss_bytes;
        self.threads += tree.threads;
        self.disk_read_bytes += tree.disk_read_bytes;
        self.disk_write_bytes += tree.disk_write_bytes;
        if let Some(switches) = tree.switches {
            self.switches = Some(self.switches.unwrap_or(0) + switches);
        }
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Looks {
    /// Of all trees together, and the host.
    samples: Vec<Sample>,
    /// By tree, where there are several: its own counters.
    trees: Vec<Vec<Sample>>,
}

type Shared = Arc<(Mutex<Looks>, Condvar)>;

/// A thread that looks at process trees, or at the host alone.
pub struct Monitor {
    looked: Shared,
    /// Told to look at once; dropped to end the thread.
    looks: Sender<()>,
    /// The processes that are looked at; 0 is none.
    pids: Arc<[AtomicU32]>,
    thread: JoinHandle<()>,
    /// The control group of the first tree, and whether this process is in it, too.
    pub group: Option<(String, bool)>,
}

impl Monitor {
    /// Looks at the trees of `pids` every `interval` from now on, and at what the kernel's network
    /// thread does on `core`, if they are pinned to one.
    pub fn start(
        pids: impl IntoIterator<Item = u32>,
        core: Option<usize>,
        interval: Duration,
    ) -> Self {
        let looked = Shared::default();
        let (looks, asked) = channel::<()>();
        let shared = Arc::clone(&looked);
        let pids: Vec<u32> = pids.into_iter().collect();
        let watched: Arc<[AtomicU32]> = pids.iter().map(|&pid| AtomicU32::new(pid)).collect();
        let of_thread = Arc::clone(&watched);
        let mut looker = Looker::new(pids, core);
        let group = looker.group().map(|group| (group.name.clone(), group.is_ours));
        let thread = std::thread::spawn(move || {
            let mut ended: Vec<Ended> = of_thread.iter().map(|_| Ended::default()).collect();
            loop {
                let begin = Instant::now();
                let of_thread = of_thread.iter().map(|pid| pid.load(Ordering::Relaxed));
                let pids: Vec<Option<u32>> =
                    of_thread.map(|pid| Some(pid).filter(|&pid| pid > 0)).collect();
                looker.follow(&pids);
                let (mut sample, trees) = looker.look();
                let with_ended = |(ended, (pid, tree)): (&mut Ended, (&Option<u32>, Sample))| {
                    let of = Sample { at_us: sample.at_us, ..tree };
                    ended.with(*pid, of)
                };
                let trees: Vec<Sample> =
                    ended.iter_mut().zip(pids.iter().zip(trees)).map(with_ended).collect();
                trees.iter().for_each(|tree| sample.add(tree));
                if let Ok(mut looks) = shared.0.lock() {
                    looks.samples.push(sample);
                    if trees.len() > 1 {
                        looks.trees.resize(trees.len(), Vec::new());
                        looks.trees.iter_mut().zip(trees).for_each(|(of, tree)| of.push(tree));
                    }
                }
                shared.1.notify_all();
                let wait = interval.max(begin.elapsed() * LOOK_PARTS);
                if asked.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        });
        Self { looked, looks, pids: watched, thread, group }
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

    /// From now on this process is looked at in the place of another: a node was started again.
    pub(crate) fn follow(&self, tree: usize, pid: Option<u32>) {
        if let Some(of) = self.pids.get(tree) {
            of.store(pid.unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// The first look, waited for.
    pub fn first(&self, timeout: Duration) -> Option<Sample> {
        let looks = self.looked.0.lock().ok()?;
        let is_empty = |looks: &mut Looks| looks.samples.is_empty();
        let (looks, _) = self.looked.1.wait_timeout_while(looks, timeout, is_empty).ok()?;
        looks.samples.first().copied()
    }

    /// The newest looks in order, enough of them for an interval of some seconds.
    pub fn newest(&self) -> Vec<Sample> {
        let Ok(looks) = self.looked.0.lock() else { return Vec::new() };
        let samples = &looks.samples;
        samples[samples.len().saturating_sub(NEWEST)..].to_vec()
    }

    /// What was seen of each tree so far, where there are several.
    pub(crate) fn trees(&self) -> Vec<Vec<Sample>> {
        self.looked.0.lock().map(|looks| looks.trees.clone()).unwrap_or_default()
    }

    /// Ends the thread; all looks in order.
    pub fn stop(self) -> Vec<Sample> {
        drop(self.looks);
        // A monitor that broke down leaves what it saw before.
        let _ = self.thread.join();
        self.looked.0.lock().map(|mut looks| take(&mut looks.samples)).unwrap_or_default()
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

/// Proportional set size of the trees: shared pages counted in parts.
pub fn pss(pids: &[u32]) -> Option<u64> {
    look::pss_of(look::trees(pids).iter().flatten())
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
    let growth = |of: fn(&Sample) -> u64| per_us(samples, from_us, to_us, &of).unwrap_or(0.0);
    let cores = growth(|sample| sample.cpu_us);
    let (user, system) = match (growth(|of| of.user_ticks_us), growth(|of| of.system_ticks_us)) {
        // No tick met it in this time: as in all of its time.
        (0.0, 0.0) => (end.user_ticks_us as f64, end.system_ticks_us as f64),
        of_this_time => of_this_time,
    };
    let cpu_user_cores = if user > 0.0 { cores * user / (user + system) } else { 0.0 };
    At {
        cpu_user_cores,
        cpu_system_cores: cores - cpu_user_cores,
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
        let cpu_us = sum(span, |sample| sample.cpu_us)?;
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
        rss_avg_bytes: mean(&within, |sample| sample.rss_bytes),
        rss_stable_bytes: median_of_last_third(&within, |sample| sample.rss_bytes),
        pss_bytes,
        host_used_max_bytes: highest(|sample| sample.host_used_bytes),
        host_used_baseline_bytes: baseline.host_used_bytes,
        host_used_avg_bytes: mean(&within, |sample| sample.host_used_bytes),
        host_used_stable_bytes: median_of_last_third(&within, |sample| sample.host_used_bytes),
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
            let cores = to.cpu_us.saturating_sub(from.cpu_us) as f64 / wall_us as f64;
            highest = Some(highest.map_or(cores, |highest| highest.max(cores)));
            from = to;
        }
    }
    highest
}

fn mean(samples: &[&Sample], of: fn(&Sample) -> u64) -> u64 {
    let sum: u64 = samples.iter().copied().map(of).sum();
    sum / samples.len().max(1) as u64
}

fn median_of_last_third(samples: &[&Sample], of: fn(&Sample) -> u64) -> u64 {
    let last = &samples[samples.len() - samples.len().div_ceil(3)..];
    let mut sizes: Vec<u64> = last.iter().copied().map(of).collect();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
