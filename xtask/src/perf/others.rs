//! What the host's processors did for others while something of ours ran: the noise of a run.

use std::time::Instant;

/// Begun before the run.
pub(crate) struct Others {
    at: Instant,
    ticks: u64,
}

/// Of a second, as the kernel tells user space.
const TICKS_PER_S: f64 = 100.0;

impl Others {
    pub(crate) fn begin() -> Self {
        Self { at: Instant::now(), ticks: ticks() }
    }

    /// Cores that neither our children, waited for by now, nor idleness had, on average.
    pub(crate) fn cores(self) -> f64 {
        let others_s = ticks().saturating_sub(self.ticks) as f64 / TICKS_PER_S;
        others_s / self.at.elapsed().as_secs_f64().max(1e-3)
    }
}

/// Ticks of all processors since boot that were busy, less those of children waited for.
fn ticks() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    busy(&read("/proc/stat")).saturating_sub(of_children(&read("/proc/self/stat")))
}

/// user, nice, system, irq, softirq, steal of the line `cpu`, which has idle and iowait in between.
fn busy(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let numbers = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0));
    let numbers: Vec<u64> = numbers.take(8).collect();
    numbers.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum()
}

/// cutime and cstime, the 16th and 17th field; the second is a name that may hold anything.
fn of_children(stat: &str) -> u64 {
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    behind_name.split_whitespace().skip(13).take(2).map(|word| word.parse().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_our_childrens_are_nobodys_noise() {
        assert_eq!(busy("cpu  1 2 4 1000 2000 8 16 32 4000 0\ncpu0 1 1 1"), 63);
        let stat = "7 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 5 6 700 800 20 0 1";
        assert_eq!(of_children(stat), 1500);
    }

    #[test]
    fn a_busy_child_is_not_another() {
        let others = Others::begin();
        let before = of_children(&std::fs::read_to_string("/proc/self/stat").unwrap());
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        std::process::Command::new("sh").args(["-c", script]).status().unwrap();
        let after = of_children(&std::fs::read_to_string("/proc/self/stat").unwrap());
        assert!(after > before, "the child took ticks");
        assert!(others.cores() >= 0.0);
    }
}
