//! How much memory the process has, and whether that is near its ceiling.

use crate::cgroup::memory_bytes_max;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;
use weir_core::{Micros, Stats};

/// Resident memory is asked for this often while the ceiling is near, and ten times as rarely
/// while less than half of it is used.
const INTERVAL: Micros = Micros(10_000);

/// Pressed from 95 % of the ceiling on, until less than 90 %; from less on where that leaves too
/// little for what threads have in hand.
const PRESSED_PERCENT: u64 = 95;
const RELEASED_PERCENT: u64 = 90;

/// Lean from so much of the ceiling on, until there is less than the second: whoever has much gets
/// no more.
const LEAN_PERCENT: u64 = 80;
const RELAXED_PERCENT: u64 = 75;

/// What a thread may have in hand, in bytes: what it has read, letters, output. All of them
/// together have no more than this part of the ceiling.
const IN_HAND_BYTES: u64 = 1024 * 1024;
const IN_HAND_PART: u64 = 8;

/// While pressed, free memory is given back to the system when this has passed since the last time,
/// or so many times what that took.
const TRIM_INTERVAL: Micros = Micros(10_000);
const TRIM_COSTS: u64 = 20;

/// Free memory is given back as well when half of so many connections, sessions, retained messages
/// and filters of a thread have gone.
const LEAVING_MIN: u64 = 64;

/// However little room is left, so many bytes pass between two looks of a thread.
const BYTES_MIN: u64 = 16 * 1024;

/// A byte that comes in may take so many: where it is put together, on its way to another thread,
/// where it is kept there, in pieces of memory that are larger than it or that lie free.
const COST_PER_BYTE: u64 = 16;

/// Letters between threads may hold this part of the ceiling, within these bounds in bytes. Over
/// it, nothing more is read from connections until some have come to where they go.
const LETTERS_PART: u64 = 64;
const LETTERS_MIN: u64 = 256 * 1024;
const LETTERS_MAX: u64 = 64 * 1024 * 1024;

/// What the threads of a process know together of its memory.
#[derive(Debug)]
pub(crate) struct Ceiling {
    /// May be another after a reload.
    bytes_max: AtomicU64,
    /// So many threads take input, and each looks for itself.
    watchers: u64,
    /// Resident bytes at the last look of any of them.
    bytes: AtomicU64,
    is_pressed: AtomicBool,
    /// Free memory is given back no sooner.
    trim_at: AtomicU64,
    /// What the system tells of this process; nothing where it does not.
    statm: Option<File>,
    /// Bytes in letters from thread to thread.
    in_letters: AtomicU64,
    in_letters_max: AtomicU64,
}

impl Ceiling {
    /// In bytes; 0 is three quarters of what the process may have: of the host's memory, or of what
    /// its control groups let it have.
    pub(crate) fn new(bytes_max: u64, watchers: u16) -> Self {
        let ceiling = Self {
            bytes_max: AtomicU64::default(),
            watchers: watchers.into(),
            bytes: AtomicU64::new(0),
            is_pressed: AtomicBool::new(false),
            trim_at: AtomicU64::new(0),
            statm: File::open("/proc/self/statm").ok(),
            in_letters: AtomicU64::new(0),
            in_letters_max: AtomicU64::default(),
        };
        ceiling.set(bytes_max);
        ceiling
    }

    /// It is another from now on, given as at the start. Threads see it at their next look.
    pub(crate) fn set(&self, bytes_max: u64) {
        let bytes_max = match bytes_max {
            0 => available_bytes().map_or(u64::MAX, |bytes| bytes / 4 * 3),
            bytes_max => bytes_max,
        };
        self.bytes_max.store(bytes_max, Relaxed);
        let in_letters_max = (bytes_max / LETTERS_PART).clamp(LETTERS_MIN, LETTERS_MAX);
        self.in_letters_max.store(in_letters_max, Relaxed);
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Relaxed)
    }

    /// Looks. Says how much may come and go before it is worth looking again.
    fn look(&self, now: Micros, unposted_bytes: u64) -> u64 {
        if self.is_pressed.load(Relaxed) {
            self.trim(now);
        }
        // Where the system does not tell, there is no ceiling to keep. What is in letters may
        // become more where it goes.
        let in_letters = self.in_letters.load(Relaxed) + unposted_bytes;
        self.note(self.resident_bytes().unwrap_or(0) + in_letters)
    }

    /// Gives free memory back, unless a thread did so a moment ago. Says whether it did.
    fn trim(&self, now: Micros) -> bool {
        let trim_at = self.trim_at.load(Relaxed);
        let is_due = now.0 >= trim_at;
        if !is_due || self.trim_at.compare_exchange(trim_at, u64::MAX, Relaxed, Relaxed).is_err() {
            return false;
        }
        let begin = Instant::now();
        weir_reactor::trim();
        let took_us = begin.elapsed().as_micros() as u64;
        self.trim_at.store(now.0 + TRIM_INTERVAL.0.max(took_us * TRIM_COSTS), Relaxed);
        true
    }

    /// The second number of statm, which is pages. Read without an allocation, since it is asked
    /// for while messages flow.
    fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let count = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let pages = std::str::from_utf8(&text[..count]).ok()?.split(' ').nth(1)?;
        Some(pages.parse::<u64>().ok()? * procfs::page_size())
    }

    fn note(&self, bytes: u64) -> u64 {
        self.bytes.store(bytes, Relaxed);
        let is_pressed = self.is_pressed.load(Relaxed);
        let bytes_max = self.bytes_max();
        let in_hand = (self.watchers * IN_HAND_BYTES).min(bytes_max / IN_HAND_PART);
        let pressed_from = (bytes_max / 100 * PRESSED_PERCENT).min(bytes_max - in_hand);
        let released_by = bytes_max / 100 * (PRESSED_PERCENT - RELEASED_PERCENT);
        let threshold = pressed_from - if is_pressed { released_by } else { 0 };
        if is_pressed != (bytes >= threshold) {
            self.is_pressed.store(!is_pressed, Relaxed);
        }
        (threshold.saturating_sub(bytes) / COST_PER_BYTE / self.watchers).max(BYTES_MIN)
    }
}

/// Watches the ceiling for one thread: at intervals, and sooner when much input comes.
#[derive(Debug)]
pub(crate) struct Memory {
    ceiling: Arc<Ceiling>,
    next_at: Micros,
    /// Input, output and what is kept until the next look.
    bytes_left: Cell<u64>,
    /// Of letters that are still to leave.
    unposted_bytes: Cell<u64>,
    /// As this thread knows it.
    is_pressed: bool,
    /// Memory is about to be short.
    is_lean: bool,
    /// The most that this thread held since free memory was last given back for it: connections,
    /// sessions, retained messages and filters.
    held_max: u64,
}

impl Memory {
    pub(crate) fn new(ceiling: Arc<Ceiling>) -> Self {
        Self {
            ceiling,
            next_at: Micros(0),
            bytes_left: Cell::new(0),
            unposted_bytes: Cell::new(0),
            is_pressed: false,
            is_lean: false,
            held_max: 0,
        }
    }

    /// So many bytes came in, or are to go out or to be kept. Says whether it is time to look.
    #[inline]
    pub(crate) fn took(&self, bytes: usize) -> bool {
        let left = self.bytes_left.get().saturating_sub(bytes as u64);
        self.bytes_left.set(left);
        left == 0
    }

    /// Whether another thread has seen what this one is still to be told.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        self.ceiling.is_pressed.load(Relaxed) != self.is_pressed
    }

    /// A letter of so many bytes is to leave.
    pub(crate) fn sent(&self, bytes: usize) {
        self.unposted_bytes.set(self.unposted_bytes.get() + bytes as u64);
    }

    /// Letters leave: the other threads are to know of what they hold.
    pub(crate) fn posted(&self) {
        let bytes = self.unposted_bytes.take();
        if bytes > 0 {
            self.ceiling.in_letters.fetch_add(bytes, Relaxed);
        }
    }

    /// Letters of so many bytes have come to where they went.
    pub(crate) fn came(&self, bytes: usize) {
        if bytes > 0 {
            self.ceiling.in_letters.fetch_sub(bytes as u64, Relaxed);
        }
    }

    /// Whether letters hold as much as they may.
    #[inline]
    pub(crate) fn has_full_letters(&self) -> bool {
        let bytes = self.ceiling.in_letters.load(Relaxed) + self.unposted_bytes.get();
        bytes > self.ceiling.in_letters_max.load(Relaxed)
    }

    /// Whether memory is short, looked at now if it is time.
    #[inline]
    pub(crate) fn is_short(&self, now: Micros) -> bool {
        if self.bytes_left.get() == 0 {
            self.bytes_left.set(self.ceiling.look(now, self.unposted_bytes.get()));
        }
        self.ceiling.is_pressed.load(Relaxed)
    }

    /// Looks again if it is time. Says whether the pressure changed, whoever saw it first.
    pub(crate) fn watch(&mut self, now: Micros, stats: impl FnOnce() -> Stats) -> Option<bool> {
        if now >= self.next_at || self.bytes_left.get() == 0 {
            if now >= self.next_at {
                self.watch_leaving(now, &stats());
            }
            self.bytes_left.set(self.ceiling.look(now, self.unposted_bytes.get()));
            let is_low = self.bytes().0 < self.ceiling.bytes_max() / 2;
            self.next_at = now + Micros(if is_low { INTERVAL.0 * 10 } else { INTERVAL.0 });
        }
        let is_pressed = self.ceiling.is_pressed.load(Relaxed);
        let changed = is_pressed != self.is_pressed;
        self.is_pressed = is_pressed;
        changed.then_some(is_pressed)
    }

    /// The memory of clients who left goes back to the system, and not for each of them.
    fn watch_leaving(&mut self, now: Micros, stats: &Stats) {
        let clients = stats.connections + stats.sessions;
        let held = clients + stats.retained + stats.filters + stats.interests;
        self.held_max = self.held_max.max(held);
        let have_left = held <= self.held_max / 2 && self.held_max >= LEAVING_MIN;
        if have_left && self.ceiling.trim(now) {
            self.held_max = held;
        }
    }

    /// Whether memory is about to be short, by what the last look saw.
    #[inline]
    pub(crate) fn watch_lean(&mut self) -> bool {
        let (bytes, bytes_max) = self.bytes();
        let percent = if self.is_lean { RELAXED_PERCENT } else { LEAN_PERCENT };
        self.is_lean = bytes >= bytes_max / 100 * percent;
        self.is_lean
    }

    /// The same, as it was when that was last asked.
    #[inline]
    pub(crate) fn is_lean(&self) -> bool {
        self.is_lean
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes().0 >= self.ceiling.bytes_max()
    }

    /// Resident bytes at the last look, and the ceiling.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.ceiling.bytes.load(Relaxed), self.ceiling.bytes_max())
    }
}

/// Memory that this process may have.
fn available_bytes() -> Option<u64> {
    use procfs::Current;
    let of_host = procfs::Meminfo::current().ok().map(|it| it.mem_total);
    let of_groups = memory_bytes_max(Path::new("/"));
    of_host.into_iter().chain(of_groups).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn pressure_begins_at_95_percent_and_ends_below_90() {
        let ceiling = Ceiling::new(1000 * MIB, 1);
        let at = |mib: u64| {
            ceiling.note(mib * MIB);
            ceiling.is_pressed.load(Relaxed)
        };
        assert!(!at(940));
        assert!(at(950));
        assert!(at(910));
        assert!(!at(899));
        assert!(!at(930));
    }

    #[test]
    fn another_ceiling_holds_at_the_next_look() {
        let ceiling = Arc::new(Ceiling::new(1000 * MIB, 1));
        let memory = Memory::new(ceiling.clone());
        ceiling.note(500 * MIB);
        assert!(!ceiling.is_pressed.load(Relaxed) && !memory.is_full());
        ceiling.set(400 * MIB);
        ceiling.note(500 * MIB);
        assert!(ceiling.is_pressed.load(Relaxed) && memory.is_full());
        ceiling.set(2000 * MIB);
        ceiling.note(500 * MIB);
        assert!(!ceiling.is_pressed.load(Relaxed) && !memory.is_full());
    }

    #[test]
    fn many_threads_at_a_low_ceiling_are_left_more_room() {
        let is_pressed_at = |mib: u64, threads| {
            let ceiling = Ceiling::new(64 * MIB, threads);
            ceiling.note(mib * MIB);
            ceiling.is_pressed.load(Relaxed)
        };
        assert!(!is_pressed_at(60, 2) && is_pressed_at(61, 2));
        assert!(!is_pressed_at(55, 8) && is_pressed_at(56, 8) && is_pressed_at(56, 64));
    }

    #[test]
    fn lean_begins_at_80_percent_and_ends_below_75() {
        let ceiling = Arc::new(Ceiling::new(1000 * MIB, 1));
        let mut memory = Memory::new(ceiling.clone());
        let mut at = |mib: u64| {
            ceiling.note(mib * MIB);
            memory.watch_lean()
        };
        assert!(!at(799) && at(800) && at(751) && !at(749) && !at(799));
    }

    /// A trim that is not due yet is made up for at the next look.
    #[test]
    fn memory_of_those_who_left_is_given_back_once_it_is_due() {
        let mut memory = Memory::new(Arc::new(Ceiling::new(u64::MAX, 1)));
        let of = |sessions| Stats { sessions, ..Stats::default() };
        memory.watch_leaving(Micros(0), &of(1000));
        memory.ceiling.trim_at.store(5, Relaxed);
        memory.watch_leaving(Micros(4), &of(0));
        assert_eq!(memory.held_max, 1000);
        memory.watch_leaving(Micros(5), &of(0));
        assert_eq!(memory.held_max, 0);
        assert!(memory.ceiling.trim_at.load(Relaxed) > 5);
    }

    #[test]
    fn one_thread_sees_what_another_saw() {
        let ceiling = Arc::new(Ceiling::new(u64::MAX, 2));
        let (mut first, mut second) = (Memory::new(ceiling.clone()), Memory::new(ceiling.clone()));
        assert_eq!(first.watch(Micros(0), Stats::default), None);
        assert_eq!(second.watch(Micros(0), Stats::default), None);
        ceiling.is_pressed.store(true, Relaxed);
        assert_eq!(first.watch(Micros(1), Stats::default), Some(true));
        assert_eq!(second.watch(Micros(1), Stats::default), Some(true));
        assert_eq!(second.watch(Micros(1), Stats::default), None);
    }

    #[test]
    fn the_system_tells_how_much_this_process_has() {
        let mut memory = Memory::new(Arc::new(Ceiling::new(1, 1)));
        assert_eq!(memory.watch(Micros(0), Stats::default), Some(true));
        assert!(memory.is_full() && memory.bytes().0 > 100_000);
        assert!(Ceiling::new(0, 1).bytes_max() > 1_000_000);
    }
}
