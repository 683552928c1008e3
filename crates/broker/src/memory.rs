//! How much memory the process has, and whether that is near its ceiling.

use weir_core::Micros;

/// Resident memory is asked for this often while the ceiling is near, and ten times as rarely
/// while less than half of it is used.
const INTERVAL: Micros = Micros(10_000);

/// Pressed from 95 % of the ceiling on, until less than 90 %.
const PRESSED_PERCENT: u64 = 95;
const RELEASED_PERCENT: u64 = 90;

/// While pressed, free memory is given back to the system this often.
const TRIM_INTERVAL: Micros = Micros(1_000_000);

/// However little room is left, so much input passes between two looks.
const INPUT_BYTES_MIN: u64 = 256 * 1024;

/// Watches the ceiling: at intervals, and sooner when much input comes.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: u64,
    bytes: u64,
    next_at: Micros,
    trimmed_at: Option<Micros>,
    /// Input until the next look.
    input_bytes_left: u64,
    is_pressed: bool,
    /// So many shards watch the same memory, each for itself; the first gives free memory back.
    shards: u64,
    is_first: bool,
}

impl Memory {
    /// With a ceiling in bytes; 0 is three quarters of the host's memory. For shard `own` of
    /// `shards`.
    pub(crate) fn new(bytes_max: u64, own: u16, shards: u16) -> Self {
        let bytes_max = match bytes_max {
            0 => host_bytes().map_or(u64::MAX, |bytes| bytes / 4 * 3),
            bytes_max => bytes_max,
        };
        Self {
            bytes_max,
            bytes: 0,
            next_at: Micros(0),
            trimmed_at: None,
            input_bytes_left: 0,
            is_pressed: false,
            shards: u64::from(shards),
            is_first: own == 0,
        }
    }

    /// Input came in. Says whether it is time to look.
    #[inline]
    pub(crate) fn took(&mut self, bytes: usize) -> bool {
        self.input_bytes_left = self.input_bytes_left.saturating_sub(bytes as u64);
        self.input_bytes_left == 0
    }

    /// Looks again if it is time. Says whether the pressure changed.
    pub(crate) fn watch(&mut self, now: Micros) -> Option<bool> {
        if now < self.next_at && self.input_bytes_left > 0 {
            return None;
        }
        if self.is_pressed
            && self.is_first
            && self.trimmed_at.is_none_or(|at| at + TRIM_INTERVAL <= now)
        {
            self.trimmed_at = Some(now);
            weir_reactor::trim();
        }
        // Where the system does not tell, there is no ceiling to keep.
        self.bytes = resident_bytes().unwrap_or(0);
        self.is_pressed_by(self.bytes, now)
    }

    fn is_pressed_by(&mut self, bytes: u64, now: Micros) -> Option<bool> {
        let interval = if bytes < self.bytes_max / 2 { INTERVAL.0 * 10 } else { INTERVAL.0 };
        self.next_at = now + Micros(interval);
        let percent = if self.is_pressed { RELEASED_PERCENT } else { PRESSED_PERCENT };
        let threshold = self.bytes_max / 100 * percent;
        self.input_bytes_left =
            (threshold.saturating_sub(bytes) / 4 / self.shards).max(INPUT_BYTES_MIN);
        let is_pressed = bytes >= threshold;
        let changed = is_pressed != self.is_pressed;
        self.is_pressed = is_pressed;
        changed.then_some(is_pressed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Resident bytes at the last look, and the ceiling.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.bytes_max)
    }
}

fn resident_bytes() -> Option<u64> {
    let pages = procfs::process::Process::myself().ok()?.statm().ok()?.resident;
    Some(pages * procfs::page_size())
}

fn host_bytes() -> Option<u64> {
    use procfs::Current;
    Some(procfs::Meminfo::current().ok()?.mem_total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_begins_at_95_percent_and_ends_below_90() {
        let mut memory = Memory::new(1000, 0, 1);
        let mut at = |bytes| memory.is_pressed_by(bytes, Micros(0));
        assert_eq!(at(940), None);
        assert_eq!(at(950), Some(true));
        assert_eq!(at(910), None);
        assert_eq!(at(899), Some(false));
        assert_eq!(at(930), None);
    }

    #[test]
    fn the_system_tells_how_much_this_process_has() {
        let mut memory = Memory::new(1, 0, 1);
        assert_eq!(memory.watch(Micros(0)), Some(true));
        assert!(memory.is_full() && memory.bytes().0 > 100_000);
        assert!(Memory::new(0, 0, 1).bytes_max > 1_000_000);
    }
}
