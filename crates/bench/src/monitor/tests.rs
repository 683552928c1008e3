//! What a process tree used, against what its processes say themselves.

use super::look::{Looker, Softirq, tree};
use super::*;
use procfs::process::{Process, all_processes};

fn sample(second: u64, cpu_s: u64, rss_bytes: u64) -> Sample {
    let (at_us, cpu_us) = (second * 1_000_000, cpu_s * 1_000_000);
    Sample { at_us, cpu_us, user_ticks_us: cpu_us, rss_bytes, ..Sample::default() }
}

const WINDOW: Window = Window {
    measure_us: (3_000_000, 9_000_000),
    connect_us: (0, 3_000_000),
    deliveries: 1000,
    connections: 10,
    cores: 2,
};

#[test]
fn cpu_is_of_the_measure_phase_and_stable_memory_of_its_last_third() {
    let samples: Vec<Sample> = (0..10).map(|s| sample(s, s * s / 10, 100 * s)).collect();
    let resources = resources(&samples, &samples[0], &WINDOW, None);
    assert!((resources.cpu_cores_avg - 8.0 / 6.0).abs() < 1e-9, "{resources:?}");
    assert!((resources.cpu_percent_avg - 100.0 * 4.0 / 6.0).abs() < 1e-9);
    assert_eq!(resources.rss_stable_bytes, 800);
    assert_eq!(resources.rss_max_bytes, 900);
    assert_eq!(resources.cpu_us_per_delivery, Some(8000.0));
    assert_eq!(resources.cpu_us_per_connection, Some(0.0));
}

#[test]
fn what_nobody_looked_at_is_absent_and_not_zero() {
    let resources = resources(&[sample(1, 1, 1)], &sample(1, 1, 1), &WINDOW, None);
    assert_eq!(resources.cpu_us_per_delivery, None);
    assert_eq!(resources.cpu_us_per_connection, None);
    assert_eq!(resources.rss_stable_bytes, 0);
    assert_eq!(at(&[], 0, 1), At::default());
}

#[test]
fn the_kernels_network_thread_counts_where_it_was_seen_at_every_look() {
    let look = |second: u64| Sample { softirq_us: Some(50 * second), ..sample(second, 0, 1) };
    let mut samples: Vec<Sample> = (0..10).map(look).collect();
    let window = Window { connect_us: (0, 2_000_000), ..WINDOW };
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
    assert!(first.host_used_bytes > 0 && first.cpu_us == 0 && first.rss_bytes == 0);
    assert!(!monitor.stop().is_empty());
    assert!(pss(&[std::process::id()]).is_none_or(|bytes| bytes > 0));
}

/// The kernel makes its ticks fit the whole, and lets neither part fall: after a start in user mode
/// it says for long that nothing is.
#[test]
fn user_and_system_are_split_by_the_ticks_of_the_interval() {
    let look = |second: u64, cpu_us: u64, user_ticks_us: u64, system_ticks_us: u64| Sample {
        at_us: second * 1_000_000,
        cpu_us,
        user_ticks_us,
        system_ticks_us,
        ..Sample::default()
    };
    let samples = [
        look(0, 0, 0, 0),
        look(1, 900_000, 800_000, 0),
        look(2, 1_700_000, 840_000, 120_000),
        look(3, 1_800_000, 840_000, 120_000),
    ];
    let row = at(&samples, 1_000_000, 2_000_000);
    assert!((row.cpu_user_cores - 0.2).abs() < 1e-9, "{row:?}");
    assert!((row.cpu_system_cores - 0.6).abs() < 1e-9, "{row:?}");
    let row = at(&samples, 2_000_000, 3_000_000);
    assert!((row.cpu_user_cores - 0.0875).abs() < 1e-9, "as in all of its time: {row:?}");
    assert!((row.cpu_system_cores - 0.0125).abs() < 1e-9, "{row:?}");
}

/// Ended, with all its processes, with the value.
struct Tree(std::process::Child);

impl Tree {
    fn start(script: &str) -> Self {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).stdin(std::process::Stdio::piped());
        Self(command.stdout(std::process::Stdio::piped()).spawn().unwrap())
    }

    /// Waits until its processes have written so many lines.
    fn lines(&mut self, count: usize) {
        use std::io::BufRead as _;
        let lines = std::io::BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert_eq!(lines.take(count).map(Result::unwrap).count(), count);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for (process, _) in tree(self.0.id()) {
            let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Nanoseconds of a process that has one thread, as the scheduler counts them.
fn scheduled_ns(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// A look with what all trees took.
fn all((mut sample, trees): (Sample, Vec<Sample>)) -> Sample {
    trees.iter().for_each(|tree| sample.add(tree));
    sample
}

fn look_until(pid: u32, is_it: impl Fn(&Sample) -> bool) -> Sample {
    let mut looker = Looker::new(vec![pid], None);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let sample = all(looker.look());
        if is_it(&sample) {
            return sample;
        }
        assert!(Instant::now() < deadline, "{sample:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One child burns in user mode, one holds 16 MiB, and the parent of both does nothing.
#[test]
fn a_tree_is_its_children_too_and_user_mode_is_not_the_kernels() {
    // A job in the background reads nothing, so it sleeps; `:` keeps the shell with its variable.
    let holds = "x=$(head -c 16777216 /dev/zero | tr '\\000' x); echo $$; sleep 1000; :";
    let script =
        format!("(echo 1; while :; do :; done) & sh -c \"{}\" & wait", holds.replace('$', "\\$"));
    let mut tree_of = Tree::start(&script);
    tree_of.lines(2);
    let root = tree_of.0.id();
    let is_burnt = |sample: &Sample| sample.user_ticks_us + sample.system_ticks_us >= 400_000;
    // Parent, both children and a sleeper, which is found when the tree is next looked through.
    let is_whole = |sample: &Sample| sample.threads >= 4 && sample.rss_bytes > 16 << 20;
    look_until(root, |sample| is_burnt(sample) && is_whole(sample));
    let parent = Process::new(root as i32).unwrap().stat().unwrap();
    assert!(parent.rss * procfs::page_size() < 8 << 20, "the parent holds nothing itself");
    // What the scheduler says of each before and after a look bounds the look's.
    let pids: Vec<i32> = tree(root).iter().map(|(process, _)| process.pid).collect();
    let sum_us = || pids.iter().copied().map(scheduled_ns).sum::<u64>() / 1_000;
    let mut looker = Looker::new(vec![root], None);
    let mut bounded = || (sum_us(), all(looker.look()), sum_us());
    let (from_us, first, first_us) = bounded();
    look_until(root, |now| now.cpu_us >= first.cpu_us + 200_000);
    let (last_us, last, to_us) = bounded();
    let grown_us = last.cpu_us - first.cpu_us;
    // Each of the pids is rounded down to a microsecond in the look.
    let (least_us, most_us) = (last_us - first_us, to_us - from_us);
    let is_within = (least_us..=most_us + 10).contains(&(grown_us + 5));
    assert!(is_within, "{least_us} {grown_us} {most_us}");
    let user_us = last.user_ticks_us - first.user_ticks_us;
    let system_us = last.system_ticks_us - first.system_ticks_us;
    assert!(user_us > system_us, "{user_us} {system_us}");
}

/// What a child used that has ended is in the books of its parent.
#[test]
fn cpu_of_a_child_that_ended_is_not_lost() {
    let script = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; echo $$; read y";
    let mut tree_of = Tree::start(script);
    tree_of.lines(1);
    let root = Process::new(tree_of.0.id() as i32).unwrap().stat().unwrap();
    let ticks = (root.cutime + root.cstime).unsigned_abs();
    assert!(ticks > 1, "the child has burned: {root:?}");
    let sample = all(Looker::new(vec![tree_of.0.id()], None).look());
    assert!(sample.cpu_us >= ticks * 1_000_000 / procfs::ticks_per_second(), "{sample:?}");
}

#[test]
fn a_busy_child_is_seen_to_use_cpu() {
    let mut child = std::process::Command::new("sh")
        .args(["-c", "sh -c 'while :; do :; done'; :"])
        .spawn()
        .unwrap();
    let monitor = Monitor::start(Some(child.id()), None, Duration::from_millis(20));
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_seen = || monitor.newest().last().is_some_and(|s| s.cpu_us > 0 && s.threads >= 2);
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
    assert!(samples.iter().any(|s| s.cpu_us > 0 && s.rss_bytes > 0), "{samples:?}");
}

#[test]
fn the_highest_cpu_is_that_of_the_busiest_second_and_not_of_less() {
    let look = |at_ms: u64, cpu_ms: u64| Sample {
        at_us: at_ms * 1_000,
        cpu_us: cpu_ms * 1_000,
        ..Sample::default()
    };
    // 0.4 cores, then 1.5 in half a second, 0.8 with the half second after it, 0.1.
    let looks = [look(0, 0), look(1_000, 400), look(1_500, 1_150), look(2_000, 1_200)];
    let all: Vec<&Sample> = looks.iter().collect();
    assert_eq!(highest_cpu(&all), Some(0.8));
    assert_eq!(highest_cpu(&all[..2]), Some(0.4));
    assert_eq!(highest_cpu(&all[..1]), None, "one look has no second");
}

/// A process that does nothing has just the figures that the kernel tells of it.
#[test]
fn the_figures_of_a_process_at_rest_are_those_of_the_kernel() {
    let mut tree_of = Tree::start("echo ready; read line");
    tree_of.lines(1);
    let pid = tree_of.0.id();
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let is_at_rest = || Process::new(pid as i32).unwrap().stat().unwrap().state == 'S';
    while !is_at_rest() {
        std::thread::yield_now();
    }
    let (from_us, looker) = (now_us(), &mut Looker::new(vec![pid], None));
    let sample = all(looker.look());
    assert!((from_us..=now_us()).contains(&sample.at_us), "{sample:?}");
    let number = |text: &str, at: usize| -> u64 {
        text.split_whitespace().nth(at).unwrap().parse().unwrap()
    };
    // The kernel keeps a part of the count on each processor, and does not always add them up.
    let rss_bytes = number(&read("statm"), 1) * procfs::page_size();
    assert!(sample.rss_bytes.abs_diff(rss_bytes) <= 1 << 20, "{rss_bytes} {sample:?}");
    assert!(sample.rss_bytes >= 256 << 10, "{sample:?}");
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    assert_eq!((sample.threads, sample.files), (1, files));
    assert_eq!(sample.cpu_us, number(&read("schedstat"), 0) / 1_000);
    assert_eq!(sample.switches, Some(number(&read("schedstat"), 2)));
    let io = |name: &str| {
        let text = read("io");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        number(line, 0)
    };
    assert_eq!(sample.disk_read_bytes, io("read_bytes:"));
    assert_eq!(sample.disk_write_bytes, io("write_bytes:"));
    let pss_kb = || {
        let text = read("smaps_rollup");
        number(text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap(), 0)
    };
    // Other shells share its pages, and come and go.
    assert!(sample.pss_bytes.is_some_and(|bytes| bytes / 1_024 <= 4 * pss_kb()), "{sample:?}");
    assert!(sample.pss_bytes.is_some_and(|bytes| 4 * bytes / 1_024 >= pss_kb()), "{sample:?}");
}

/// The host's CPU in microseconds, between what the kernel tells before a look and after it.
#[test]
fn the_hosts_figures_are_those_of_the_kernel() {
    let tick_us = 1_000_000 / procfs::ticks_per_second();
    let all = || {
        let ticks = crate::host::Files::here().ticks().unwrap();
        [ticks.busy, ticks.softirq, ticks.steal].map(|ticks| ticks * tick_us)
    };
    let (before, sample, after) = (all(), Looker::new(Vec::new(), None).look().0, all());
    let host = sample.host;
    let seen = [host.busy_us, host.softirq_us, host.steal_us].map(Option::unwrap);
    for (at, us) in seen.iter().enumerate() {
        // A look a tick ahead of a sum over processors is none of ours.
        assert!((before[at]..=after[at] + tick_us).contains(us), "{before:?} {seen:?} {after:?}");
    }
    let suite_us = || Looker::new(Vec::new(), None).look().0.host.suite_us;
    let (one, two) = (suite_us(), suite_us());
    assert!(0 < one && one <= two, "{one} {two}");
}
