//! Counters of a broker that is killed and started again.

use super::Sample;

/// What processes used that were looked at before: counters never fall.
#[derive(Default)]
pub(super) struct Ended {
    pid: Option<u32>,
    used: Sample,
    last: Sample,
}

impl Ended {
    pub(super) fn with(&mut self, pid: Option<u32>, mut sample: Sample) -> Sample {
        // A process that is gone before its successor is there has counters of nothing.
        if self.pid != pid || sample.threads == 0 {
            self.used = self.last;
            self.pid = pid;
        }
        sample.cpu_us += self.used.cpu_us;
        sample.user_ticks_us += self.used.user_ticks_us;
        sample.system_ticks_us += self.used.system_ticks_us;
        sample.disk_read_bytes += self.used.disk_read_bytes;
        sample.disk_write_bytes += self.used.disk_write_bytes;
        if let Some(before) = self.used.switches {
            sample.switches = Some(sample.switches.unwrap_or(0) + before);
        }
        self.last = sample;
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_started_again_keeps_what_it_used_before() {
        let look = |used: u64, threads| Sample {
            cpu_us: 10 * used,
            user_ticks_us: 7 * used,
            system_ticks_us: 3 * used,
            disk_read_bytes: 5 * used,
            disk_write_bytes: 6 * used,
            switches: (threads > 0).then_some(2 * used),
            threads,
            ..Sample::default()
        };
        let mut ended = Ended::default();
        assert_eq!(ended.with(Some(1), look(40, 2)), look(40, 2));
        // Killed; then there is nobody; then its successor, under another process id.
        for gone in [Some(1), None] {
            let seen = ended.with(gone, look(0, 0));
            assert_eq!(Sample { threads: 1, ..seen }, Sample { threads: 1, ..look(40, 1) });
        }
        assert_eq!(ended.with(Some(2), look(1, 2)), look(41, 2));
        assert_eq!(ended.with(Some(2), look(9, 2)), look(49, 2));
    }
}
