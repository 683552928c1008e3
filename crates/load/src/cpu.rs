//! CPU time of the generator's thread.

use rustix::time::{ClockId, clock_gettime};

/// User and system time of the calling thread so far, and the time it waited for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadCpu {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) waited_us: u64,
}

/// CPU time of the calling thread in microseconds, user and system together.
pub fn thread_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

impl ThreadCpu {
    /// The exact sum, divided as the kernel's ticks of 10 ms say.
    pub(crate) fn now() -> Self {
        let total_us = thread_cpu_us();
        let (user, system) = ticks().unwrap_or((1, 0));
        let (user_us, system_us) = split(total_us, user, system);
        Self { user_us, system_us, waited_us: waited_us().unwrap_or(0) }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            waited_us: self.waited_us.saturating_sub(earlier.waited_us),
        }
    }
}

/// A time in two parts, in the ratio of the ticks.
fn split(total_us: u64, user: u64, system: u64) -> (u64, u64) {
    let user_us = total_us * user / (user + system).max(1);
    (user_us, total_us - user_us)
}

/// Runnable without a core, which a kernel without schedstats does not tell.
fn waited_us() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited_ns: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(waited_ns / 1_000)
}

/// Fields 14 and 15 of the thread's stat; the name in field 2 may hold anything but ends at `)`.
fn ticks() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_split_as_the_ticks_say() {
        assert_eq!(split(10_001, 3, 1), (7_500, 2_501));
        assert_eq!(split(10_000, 0, 5), (0, 10_000));
        assert_eq!(split(10_000, 1, 0), (10_000, 0));
        assert_eq!(split(10_000, 0, 0), (0, 10_000));
    }

    #[test]
    fn what_is_used_since_is_the_difference_of_each() {
        let cpu = |user_us, system_us, waited_us| ThreadCpu { user_us, system_us, waited_us };
        assert_eq!(cpu(70, 50, 30).since(cpu(10, 20, 25)), cpu(60, 30, 5));
        assert_eq!(cpu(1, 2, 3).since(cpu(2, 1, 4)), cpu(0, 1, 0), "a split may be set right");
    }

    #[test]
    fn a_thread_that_burns_in_user_mode_is_seen_to() {
        let (first, from) = (thread_cpu_us(), ticks().unwrap());
        let mut last = first;
        // Until the kernel's ticks have met it there.
        while ticks().unwrap().0 < from.0 + 3 {
            for _ in 0..10_000 {
                let now = std::hint::black_box(thread_cpu_us());
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        }
        let (before, now, after) = (thread_cpu_us(), ThreadCpu::now(), thread_cpu_us());
        assert!((before..=after).contains(&(now.user_us + now.system_us)), "{now:?}");
        assert!(after - first >= 20_000, "three ticks have passed: {first} to {after}");
        let waited = |at: usize| -> u64 {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            text.split_whitespace().nth(at).unwrap().parse().unwrap()
        };
        let (from_ns, told_us, to_ns) = (waited(1), waited_us().unwrap(), waited(1));
        assert!((from_ns / 1_000..=to_ns / 1_000).contains(&told_us), "{told_us}");
    }
}
