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
        sample.cpu_user_us += self.used.cpu_user_us;
        sample.cpu_system_us += self.used.cpu_system_us;
        sample.disk_read_bytes += self.used.disk_read_bytes;
        sample.disk_write_bytes += self.used.disk_write_bytes;
        if let Some(before) = self.used.switches {
            sample.switches = Some(sample.switches.unwrap_or(0) + before);
        }
        self.last = sample;
        sample
    }
}
