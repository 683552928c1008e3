//! One look at a process tree and its host. What costs is done seldom, and less often the more it
//! costs.

use super::energy::Energy;
use super::group::Group;
use super::{Sample, now_us};
use crate::host::{Files, memory_bytes};
use procfs::process::{Process, Stat, StatFlags, Status, all_processes};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often all processes of the host are looked through for new ones of the tree.
const TREE_EVERY: Duration = Duration::from_secs(2);

/// How often open files are counted. An older kernel walks them all for that.
const FILES_EVERY: Duration = Duration::from_millis(2_500);

/// How often the pages of the tree are walked for their proportional size.
const PSS_EVERY: Duration = Duration::from_secs(10);

/// While its pages are walked a process cannot map more. One whose walk takes longer is walked no
/// more.
const PSS_MAX: Duration = Duration::from_millis(5);

/// Something done seldom takes at most one part in so many of the time.
const SELDOM_PARTS: u32 = 200;

/// Something that costs, and when it is to be done again.
struct Seldom {
    every: Duration,
    next: Option<Instant>,
}

impl Seldom {
    const fn new(every: Duration) -> Self {
        Self { every, next: None }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// It was done from `begin` to `end`.
    fn done(&mut self, begin: Instant, end: Instant) {
        self.next = Some(begin + self.every.max((end - begin) * SELDOM_PARTS));
    }
}

/// Looks at trees, or at the host alone.
pub(super) struct Looker {
    pids: Vec<Option<u32>>,
    softirq: Option<Softirq>,
    group: Option<Group>,
    energy: Option<Energy>,
    /// The processes of the trees as last found.
    trees: Vec<Vec<i32>>,
    trees_due: Seldom,
    files: u64,
    files_due: Seldom,
    pss_bytes: Option<u64>,
    /// Absent once a walk took too long.
    pss_due: Option<Seldom>,
}

impl Looker {
    pub(super) fn new(pids: Vec<u32>, core: Option<usize>) -> Self {
        Self {
            softirq: core.and_then(Softirq::of),
            group: pids.first().and_then(|&pid| Group::of(pid)),
            energy: Energy::new("/sys/class/powercap".as_ref()),
            trees: Vec::new(),
            trees_due: Seldom::new(TREE_EVERY),
            files: 0,
            files_due: Seldom::new(FILES_EVERY),
            pss_bytes: None,
            pss_due: (!pids.is_empty()).then(|| Seldom::new(PSS_EVERY)),
            pids: pids.into_iter().map(Some).collect(),
        }
    }

    /// Looks at other trees from now on, if they are others: a node was started again.
    pub(super) fn follow(&mut self, pids: &[Option<u32>]) {
        if self.pids != pids {
            self.pids = pids.to_vec();
            self.trees_due = Seldom::new(TREE_EVERY);
            self.files_due = Seldom::new(FILES_EVERY);
        }
    }

    /// The control group of the first tree, if it has one.
    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// The host with what is counted of all trees together, and each tree's own counters.
    pub(super) fn look(&mut self) -> (Sample, Vec<Sample>) {
        let (_, host_used_bytes) = memory_bytes();
        let mut sample = Sample { host_used_bytes, ..Sample::default() };
        sample.host.network = super::network::read();
        let tick_us = 1_000_000 / procfs::ticks_per_second().max(1);
        let ticks = Files::here().ticks();
        sample.host.busy_us = ticks.map(|ticks| ticks.busy * tick_us);
        sample.host.softirq_us = ticks.map(|ticks| ticks.softirq * tick_us);
        sample.host.steal_us = ticks.map(|ticks| ticks.steal * tick_us);
        sample.host.suite_us = cpu_of(ClockId::ProcessCPUTime);
        sample.host.energy_uj = self.energy.as_mut().and_then(Energy::read);
        sample.group = self.group.as_ref().map(Group::read).unwrap_or_default();
        let trees = self.processes();
        self.seldom(&trees);
        (sample.files, sample.pss_bytes) = (self.files, self.pss_bytes);
        sample.softirq_us = self.softirq.as_ref().and_then(Softirq::cpu_us);
        // The clock is read next to the CPU counters: their quotient is what counts.
        sample.at_us = now_us();
        let counted = |tree: &Tree| {
            let mut sample = Sample::default();
            tree.iter().for_each(|(process, stat)| add(&mut sample, process, stat));
            sample
        };
        let counted = trees.iter().map(counted).collect();
        sample.monitor_cpu_us = cpu_of(ClockId::ThreadCPUTime);
        (sample, counted)
    }

    fn processes(&mut self) -> Vec<Tree> {
        let begin = Instant::now();
        if !self.trees_due.is_due(begin) {
            let of = |pid: &i32| {
                let process = Process::new(*pid).ok()?;
                let stat = process.stat().ok()?;
                Some((process, stat))
            };
            return self.trees.iter().map(|tree| tree.iter().filter_map(of).collect()).collect();
        }
        // There is no process of this number.
        let pids: Vec<u32> = self.pids.iter().map(|pid| pid.unwrap_or(u32::MAX)).collect();
        let trees = trees(&pids);
        let pids = |tree: &Tree| tree.iter().map(|(process, _)| process.pid).collect();
        self.trees = trees.iter().map(pids).collect();
        self.trees_due.done(begin, Instant::now());
        trees
    }

    fn seldom(&mut self, trees: &[Tree]) {
        let processes = || trees.iter().flatten();
        let begin = Instant::now();
        if self.files_due.is_due(begin) {
            self.files = processes().filter_map(|(process, _)| open_files(process)).sum();
            self.files_due.done(begin, Instant::now());
        }
        let begin = Instant::now();
        if self.pss_due.as_ref().is_some_and(|due| due.is_due(begin)) {
            self.pss_bytes = pss_of(processes());
            let end = Instant::now();
            let is_cheap = end - begin <= PSS_MAX;
            self.pss_due = self.pss_due.take().filter(|_| is_cheap);
            if let Some(due) = &mut self.pss_due {
                due.done(begin, end);
            }
        }
    }
}

fn add(sample: &mut Sample, process: &Process, stat: &Stat) {
    let tick_us = 1_000_000 / procfs::ticks_per_second().max(1);
    let cpu = Cpu::of(process.pid).unwrap_or(Cpu {
        all_us: (stat.utime + stat.stime) * tick_us,
        ticks_us: (stat.utime + stat.stime) * tick_us,
        user_ticks_us: stat.utime * tick_us,
    });
    // Children that have ended are in the books of the parent that waited for them.
    let [user_us, system_us] = [stat.cutime, stat.cstime].map(|of| of.unsigned_abs() * tick_us);
    sample.cpu_us += cpu.all_us + user_us + system_us;
    sample.user_ticks_us += cpu.user_ticks_us + user_us;
    sample.system_ticks_us += cpu.ticks_us.saturating_sub(cpu.user_ticks_us) + system_us;
    sample.rss_bytes += stat.rss * procfs::page_size();
    sample.threads += stat.num_threads.max(0) as u64;
    if let Some(switches) = switches(process) {
        sample.switches = Some(sample.switches.unwrap_or(0) + switches);
    }
    if let Ok(io) = process.io() {
        sample.disk_read_bytes += io.read_bytes;
        sample.disk_write_bytes += io.write_bytes;
    }
}

/// How often the threads of a process were put on a processor. Absent where the kernel does not
/// count it.
fn switches(process: &Process) -> Option<u64> {
    let mut switches = 0;
    // One that ends meanwhile makes the sum useless.
    for task in process.tasks().ok()?.filter_map(Result::ok) {
        switches += task.schedstat().ok()?.pcount;
    }
    Some(switches)
}

/// CPU of a process with all its threads, those that have ended too.
struct Cpu {
    /// As the scheduler counts it, exact.
    all_us: u64,
    /// As ticks met it.
    ticks_us: u64,
    /// Of the ticks, in user mode.
    user_ticks_us: u64,
}

impl Cpu {
    /// By the process's own clocks. `utime` and `stime` of its `stat` are no ticks: the kernel
    /// makes them fit the whole and lets neither fall, so after a start that was mostly in user
    /// mode `utime` stands still for as long as its share of the whole is too high.
    fn of(pid: i32) -> Option<Self> {
        // The kernel's CPUCLOCK_PROF, CPUCLOCK_VIRT and CPUCLOCK_SCHED of a process.
        let [ticks, user, exact] = [0, 1, 2].map(|which| {
            let time = nix::time::ClockId::from_raw((!pid << 3) | which).now().ok()?;
            let us = time.tv_sec() * 1_000_000 + time.tv_nsec() / 1_000;
            u64::try_from(us).ok()
        });
        Some(Self { all_us: exact?, ticks_us: ticks?, user_ticks_us: user? })
    }
}

/// Processes, with what was just read of each.
pub(super) type Tree = Vec<(Process, Stat)>;

/// The process and all that descend from it.
pub fn tree(pid: u32) -> Vec<(Process, Stat)> {
    trees(&[pid]).pop().unwrap_or_default()
}

/// The same of several processes, none of which descends from another.
pub(super) fn trees(pids: &[u32]) -> Vec<Tree> {
    if pids.is_empty() {
        return Vec::new();
    }
    let all = all_processes().into_iter().flatten().filter_map(Result::ok);
    let mut rest: Tree =
        all.filter_map(|process| process.stat().ok().map(|stat| (process, stat))).collect();
    let take = |pid: &u32| {
        let root = i32::try_from(*pid).unwrap_or(i32::MAX);
        let mut found = Tree::new();
        loop {
            let is_ours = |(process, stat): &(Process, Stat)| {
                process.pid == root || found.iter().any(|(found, _)| found.pid == stat.ppid)
            };
            let Some(at) = rest.iter().position(is_ours) else { return found };
            found.push(rest.swap_remove(at));
        }
    };
    pids.iter().map(take).collect()
}

/// Whether a process has ended or is about to: killed, exiting, or writing its memory to disk.
pub(crate) fn is_going(pid: u32) -> bool {
    let Ok(process) = Process::new(i32::try_from(pid).unwrap_or(i32::MAX)) else { return true };
    let is_exiting = |stat: Stat| stat.flags & StatFlags::PF_EXITING.bits() != 0;
    let kill = 1 << (rustix::process::Signal::KILL.as_raw() - 1);
    let is_killed = |status: Status| {
        (status.sigpnd | status.shdpnd) & kill != 0 || status.core_dumping == Some(true)
    };
    process.stat().map_or(true, is_exiting) || process.status().map_or(true, is_killed)
}

/// Linux 6.2 and newer say it as the folder's size; before, they are counted.
fn open_files(process: &Process) -> Option<u64> {
    let folder = format!("/proc/{}/fd", process.pid);
    match std::fs::metadata(folder).ok()?.len() {
        0 => process.fd_count().ok().map(|count| count as u64),
        count => Some(count),
    }
}

pub(super) fn pss_of<'a>(processes: impl Iterator<Item = &'a (Process, Stat)>) -> Option<u64> {
    let of = |process: &Process| -> Option<u64> {
        let path = format!("/proc/{}/smaps_rollup", process.pid);
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kb| kb * 1024)
    };
    let sizes: Vec<u64> = processes.filter_map(|(process, _)| of(process)).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// The kernel's network thread of a core. What arrives over loopback is handled on the sender's
/// core: in the system call, as a rule, and by this thread under load.
pub(super) struct Softirq(PathBuf);

impl Softirq {
    pub(super) fn of(core: usize) -> Option<Self> {
        let name = format!("ksoftirqd/{core}");
        let mut all = all_processes().ok()?.flatten();
        let found = all.find(|process| process.stat().is_ok_and(|stat| stat.comm == name))?;
        Some(Self(format!("/proc/{}/schedstat", found.pid).into()))
    }

    pub(super) fn cpu_us(&self) -> Option<u64> {
        let text = std::fs::read_to_string(&self.0).ok()?;
        let ns: u64 = text.split_whitespace().next()?.parse().ok()?;
        Some(ns / 1_000)
    }
}

fn cpu_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_much_is_done_less_often() {
        let begin = Instant::now();
        let mut seldom = Seldom::new(Duration::from_secs(2));
        assert!(seldom.is_due(begin));
        seldom.done(begin, begin + Duration::from_millis(1));
        assert!(!seldom.is_due(begin + Duration::from_millis(1_999)));
        assert!(seldom.is_due(begin + Duration::from_secs(2)));
        seldom.done(begin, begin + Duration::from_millis(100));
        assert!(!seldom.is_due(begin + Duration::from_secs(19)));
        assert!(seldom.is_due(begin + Duration::from_secs(20)));
    }

    #[test]
    fn a_look_at_ourselves_sees_files_threads_switches_and_memory() {
        let mut looker = Looker::new(vec![std::process::id()], None);
        let files: Vec<_> = (0..20).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let (mut sample, trees) = looker.look();
        trees.iter().for_each(|tree| sample.add(tree));
        assert!(sample.files >= files.len() as u64, "{sample:?}");
        assert!(sample.threads > 0 && sample.rss_bytes > 0 && sample.monitor_cpu_us > 0);
        assert!(sample.switches.is_none_or(|switches| switches > 0), "{sample:?}");
        assert!(sample.pss_bytes.is_none_or(|bytes| bytes <= sample.rss_bytes * 2));
        assert_eq!(looker.look().0.files, sample.files, "not counted again so soon");
    }

    #[test]
    fn a_process_that_was_killed_or_has_ended_is_going() {
        use rustix::process::{Pid, Signal, kill_process};
        assert!(!is_going(std::process::id()));
        assert!(is_going(u32::MAX));
        // It hears nothing while it is stopped, and SIGKILL all the same.
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        let was_going = is_going(child.id());
        kill_process(pid, Signal::KILL).unwrap();
        let is_going = is_going(child.id());
        child.wait().unwrap();
        assert_eq!((was_going, is_going), (false, true));
    }
}
