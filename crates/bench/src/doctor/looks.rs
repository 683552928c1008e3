//! What the kernel shows of a host, read below a root so that a test can show it another.

use crate::host::{self, Files};
use procfs::process::all_processes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at how busy the processors are.
const SAMPLE: Duration = Duration::from_millis(250);

/// A host: files of `/proc` and `/sys`, and how busy it was just now.
#[derive(Clone, Debug)]
pub(super) struct Looks {
    pub(super) files: Files,
    /// Connections that a process can hold by files and, where it may, by io_uring.
    pub(super) holds: u64,
    /// Nothing where the kernel does not show it.
    pub(super) busy: Option<Busy>,
    /// The busiest processes meanwhile, with the processors that each took.
    pub(super) busiest: Vec<(String, f64)>,
}

/// As many processes are named as somebody reads.
const BUSIEST_MAX: usize = 3;

/// What the processors did between two looks, in cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Busy {
    /// Working for somebody.
    pub(super) cores: f64,
    /// Of it, handling network packets and other soft interrupts.
    pub(super) softirq: f64,
    /// Taken by the hypervisor for others.
    pub(super) steal: f64,
}

impl Looks {
    /// At this host; takes a quarter of a second.
    pub(super) fn here() -> Self {
        let (files, holds) = (Files::here(), weir_load::connections_max());
        let mut looks = Self { files, holds, busy: None, busiest: Vec::new() };
        let (begin, before, processes) = (Instant::now(), looks.files.ticks(), cpu_ticks());
        std::thread::sleep(SAMPLE);
        // A busy host lets a sleeper lie: what was asked for is not how long it was.
        let elapsed = begin.elapsed();
        looks.busy = before.zip(looks.files.ticks()).map(|(from, to)| Busy::of(from, to, elapsed));
        looks.busiest = busiest(&processes, &cpu_ticks(), elapsed);
        looks
    }

    /// At what a test shows.
    #[cfg(test)]
    pub(super) fn at(root: &Path) -> Self {
        Self { files: Files::at(root), holds: 0, busy: None, busiest: Vec::new() }
    }

    /// The files named `file` of the cgroups that this process is in, from its own upwards, of the
    /// first and second version of cgroups.
    pub(super) fn cgroup_files(&self, controller: &str, file: &str) -> Vec<String> {
        let Some(text) = self.files.read("proc/self/cgroup") else { return Vec::new() };
        let mut found = Vec::new();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(names), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let base = match (number, names) {
                ("0", "") => PathBuf::from("sys/fs/cgroup"),
                (_, names) if names.split(',').any(|name| name == controller) => {
                    Path::new("sys/fs/cgroup").join(controller)
                }
                _ => continue,
            };
            let path = Path::new(path.trim_start_matches('/'));
            for folder in path.ancestors() {
                found.extend(self.files.read(base.join(folder).join(file)));
            }
        }
        found
    }

    /// Processors that this process may run on.
    pub(super) fn processors(&self) -> Option<u64> {
        let text = self.files.read("proc/self/status")?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let mut count = 0;
        for range in list.trim().split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            count += (last + 1).saturating_sub(first);
        }
        Some(count)
    }
}

impl Busy {
    /// Between two looks so far apart.
    fn of(from: host::Ticks, to: host::Ticks, elapsed: Duration) -> Self {
        let cores = |to: u64, from: u64| cores(to.saturating_sub(from), elapsed);
        Self {
            cores: cores(to.busy, from.busy),
            softirq: cores(to.softirq, from.softirq),
            steal: cores(to.steal, from.steal),
        }
    }
}

/// So many ticks of CPU in so much time.
fn cores(ticks: u64, elapsed: Duration) -> f64 {
    ticks as f64 / (procfs::ticks_per_second() as f64 * elapsed.as_secs_f64())
}

/// By process: its name, and the ticks of CPU that it has had.
type Ticks = HashMap<i32, (String, u64)>;

fn cpu_ticks() -> Ticks {
    let Ok(all) = all_processes() else { return Ticks::new() };
    let stats = all.flatten().filter_map(|process| process.stat().ok());
    stats.map(|stat| (stat.pid, (stat.comm, stat.utime + stat.stime))).collect()
}

/// Those that had most between the two.
fn busiest(before: &Ticks, after: &Ticks, elapsed: Duration) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = after
        .iter()
        .filter_map(|(pid, (name, ticks))| {
            let had = ticks.saturating_sub(before.get(pid)?.1);
            (had > 0).then(|| (name.clone(), cores(had, elapsed)))
        })
        .collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.truncate(BUSIEST_MAX);
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A host of these files.
    pub(in crate::doctor) fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Looks) {
        let root = host::files::tests::host(files);
        let looks = Looks::at(root.path());
        (root, looks)
    }

    #[test]
    fn what_the_processors_did_is_by_the_time_that_passed() {
        let look = |text| host(&[("proc/stat", text)]).1.files.ticks().unwrap();
        let from = look("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1\ncpu1 1\nintr 5");
        let to = look("cpu  150 0 110 1400 100 10 30 200 0 0\ncpu0 1\ncpu1 1\nintr 5");
        // 5 s of two processors: 100 ticks busy, of them 30 in soft interrupts; 200 stolen.
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let busy = Busy::of(from, to, Duration::from_secs_f64(500.0 / ticks_per_s));
        assert_eq!(busy, Busy { cores: 0.2, softirq: 0.06, steal: 0.4 });
        // A processor without ticks while it idles lets its idle time fall behind, and go back.
        let odd = look("cpu  150 0 110 750 0 10 30 0 0 0\ncpu0 1\ncpu1 1\nintr 5");
        let busy = Busy::of(from, odd, Duration::from_secs_f64(50.0 / ticks_per_s));
        assert_eq!(busy.cores, 2.0, "no more than the two that there are");
    }

    #[test]
    fn the_busiest_processes_are_those_that_had_most_meanwhile() {
        let ticks = |list: &[(i32, &str, u64)]| -> Ticks {
            list.iter().map(|&(pid, name, ticks)| (pid, (name.to_owned(), ticks))).collect()
        };
        let before = ticks(&[(1, "init", 900), (2, "cc", 5), (3, "top", 1), (4, "a", 1)]);
        let after =
            ticks(&[(1, "init", 900), (2, "cc", 25), (3, "top", 2), (4, "a", 4), (5, "new", 9)]);
        let found = busiest(&before, &after, Duration::from_secs(2));
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["cc", "a", "top"]);
        assert_eq!(found[0].1, 10.0 / procfs::ticks_per_second() as f64);
    }

    #[test]
    fn cgroups_of_both_versions_are_found_upwards() {
        let (_root, looks) = host(&[
            ("proc/self/cgroup", "3:cpu,cpuacct:/old\n0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000"),
            ("sys/fs/cgroup/cpu/old/cpu.max", "first version"),
        ]);
        assert_eq!(
            looks.cgroup_files("cpu", "cpu.max"),
            ["first version", "max 100000", "50000 100000"]
        );
    }

    #[test]
    fn allowed_processors_are_counted_by_ranges() {
        let status = "Name:\tx\nCpus_allowed_list:\t0-3,7,9-10\nMems:\t1";
        let (_root, looks) = host(&[("proc/self/status", status)]);
        assert_eq!(looks.processors(), Some(7));
    }
}
