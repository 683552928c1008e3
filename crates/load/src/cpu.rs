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
        let user_us = total_us * user / (user + system).max(1);
        Self { user_us, system_us: total_us - user_us, waited_us: waited_us().unwrap_or(0) }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            waited_us: self.waited_us.saturating_sub(earlier.waited_us),
        }
    }
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
