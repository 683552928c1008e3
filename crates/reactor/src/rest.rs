//! Letting input gather: to wake for a read costs several times what the read does, so a thread to
//! which many connections have something to say rests for a moment between turns.
//!
//! Turns then begin no sooner than a rest after each other. How long it is follows from how often
//! connections have something, so that it gathers enough and no more; nobody waits longer than the
//! bound. Peers that say the next thing only when they have got an answer to the last one would
//! make a rate of a rest. That shows: fewer bytes come while the thread rests. So rests are tried,
//! compared with turns without any, and ended where they cost more than they gain.

/// Reads that have to come within the longest rest, for a rest to be tried.
const OFTEN: u64 = 3;

/// Reads that are enough for a turn: more make each hardly cheaper.
const ENOUGH: u64 = 16;

/// A rest that gathers fewer than so many reads is none.
const GATHERED_MIN: u64 = 2;

/// After so many turns of a trial it is known whether anything gathers.
const TRIAL_TURNS: u64 = 4;

/// How long reads are counted, in microseconds; shorter where turns are compared that may cost
/// somebody something.
const WINDOW_US: u64 = 50_000;
const SHORT_WINDOW_US: u64 = 10_000;

/// After so many windows with rests there is one without.
const WINDOWS_MAX: u32 = 40;

/// Rests are too dear where so many parts of ten of the bytes come, and no more.
const TOO_FEW_TENTHS: u64 = 7;

/// What is too dear is not tried again for so long, in microseconds, and each time twice as long.
const PAUSE_US: u64 = 1_000_000;
const PAUSE_US_MAX: u64 = 64_000_000;

/// Sends of a turn that bring a burst of answers: who got so much has something to acknowledge.
const BURST_WRITES: u64 = 256;

/// The burst is over when a turn finds fewer reads.
const BURST_READS: u64 = 8;

/// A shorter sleep than this is over later than it should be.
const SLEEP_US_MIN: u64 = 20;

/// Whether a thread rests, and for how long.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The longest rest; 0 if there is never one.
    max_us: u64,
    phase: Phase,
    /// How long it is in the phases that have any.
    rest_us: u64,
    /// Answers to a large fan-out come in, one connection each.
    is_burst: bool,
    /// Bytes in a second in the window before.
    rate: u64,
    window: Window,
    /// No trial before.
    retry_us: u64,
    pause_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No rests.
    #[default]
    Off,
    /// The first rests.
    Trial,
    /// For so many windows.
    On(u32),
    /// A window without rests in between.
    Probe,
}

impl Phase {
    const fn rests(self) -> bool {
        matches!(self, Self::Trial | Self::On(_))
    }

    const fn window_us(self) -> u64 {
        match self {
            Self::Off | Self::On(_) => WINDOW_US,
            Self::Trial | Self::Probe => SHORT_WINDOW_US,
        }
    }
}

/// What a thread has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) turns: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct Window {
    began_us: u64,
    before: Counts,
    /// Reads and writes up to the last turn.
    reads: u64,
    writes: u64,
}

impl Rest {
    /// Nobody waits longer than this for a read.
    pub(crate) fn set_max_us(&mut self, max_us: u64) {
        if max_us != self.max_us {
            *self = Self { max_us, ..Self::default() };
        }
    }

    /// The turn that began at `began_us` is over: how long to rest, in microseconds.
    #[inline]
    pub(crate) fn turn_over(&mut self, began_us: u64, now_us: u64, counts: Counts) -> u64 {
        if self.max_us == 0 {
            return 0;
        }
        let reads = counts.reads - std::mem::replace(&mut self.window.reads, counts.reads);
        let writes = counts.writes - std::mem::replace(&mut self.window.writes, counts.writes);
        self.is_burst = writes >= BURST_WRITES || self.is_burst && reads >= BURST_READS;
        let passed_us = now_us.saturating_sub(self.window.began_us);
        if passed_us >= self.phase.window_us() {
            self.window_over(now_us, passed_us, counts);
        } else if self.phase == Phase::Trial {
            self.give_up_early(now_us, counts);
        }
        let rest_us = match self.phase {
            _ if reads == 0 => 0,
            _ if self.is_burst => self.max_us,
            phase if phase.rests() => self.rest_us,
            _ => 0,
        };
        let rest_us = (began_us + rest_us).saturating_sub(now_us);
        if rest_us < SLEEP_US_MIN { 0 } else { rest_us }
    }

    fn window_over(&mut self, now_us: u64, passed_us: u64, counts: Counts) {
        let before = self.window.before;
        let reads = counts.reads - before.reads;
        let turns = (counts.turns - before.turns).max(1);
        let rate = (counts.bytes - before.bytes) * 1_000_000 / passed_us.max(1);
        let is_often = reads * self.max_us >= OFTEN * passed_us;
        match self.phase {
            Phase::Off if is_often && now_us >= self.retry_us => self.phase = Phase::Trial,
            Phase::Off => {}
            Phase::Trial if rate * 10 < self.rate * TOO_FEW_TENTHS => self.give_up(now_us),
            Phase::Trial => self.phase = Phase::On(0),
            Phase::On(_) if !is_often || reads < GATHERED_MIN * turns => self.phase = Phase::Off,
            Phase::On(WINDOWS_MAX) => self.phase = Phase::Probe,
            Phase::On(windows) => self.phase = Phase::On(windows + 1),
            Phase::Probe if self.rate * 10 < rate * TOO_FEW_TENTHS => self.give_up(now_us),
            Phase::Probe => {
                self.phase = Phase::On(0);
                self.pause_us = 0;
            }
        }
        self.rest_us = (ENOUGH * passed_us / reads.max(1)).min(self.max_us);
        self.rate = rate;
        self.begin_window(now_us, counts);
    }

    /// A connection that is alone in each turn is not held up for a whole trial.
    fn give_up_early(&mut self, now_us: u64, counts: Counts) {
        let before = self.window.before;
        let turns = counts.turns - before.turns;
        if turns >= TRIAL_TURNS && counts.reads - before.reads < GATHERED_MIN * turns {
            self.give_up(now_us);
            self.begin_window(now_us, counts);
        }
    }

    fn give_up(&mut self, now_us: u64) {
        self.phase = Phase::Off;
        self.pause_us = (self.pause_us * 2).clamp(PAUSE_US, PAUSE_US_MAX);
        self.retry_us = now_us + self.pause_us;
    }

    fn begin_window(&mut self, now_us: u64, counts: Counts) {
        (self.window.began_us, self.window.before) = (now_us, counts);
    }
}

#[cfg(test)]
mod tests;
