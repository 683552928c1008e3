//! The generator watches its own loop. While it does not run, messages that are due stay unsent
//! and answers lie unread, and all of that would be charged to the broker.

use crate::outcome::{ABSENT_US_MAX, DELAYED_SHARE_MAX, LATE_US_MIN, Lateness};

/// The CPU time is taken again after so long: a reading costs a system call.
const CPU_EVERY_US: u64 = 1_000;

/// The loop by its own clock.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// When the loop last looked up.
    turn_us: u64,
    /// How long it meant to rest since then at most.
    rest_us: u64,
    /// When the thread's CPU time was last taken, and what it was.
    cpu: (u64, u64),
    /// The absence that ended with this turn, and the answers counted before it.
    open: Option<(u64, u64)>,
    /// What was picked up late in this turn.
    late: u64,
    /// What was picked up late in the turn before, unless an absence before that turn is why. If
    /// the loop is away in the middle of a turn, the next one sees it.
    late_before: u64,
    /// An absence was before this turn.
    is_noted: bool,
    /// Connects made later than they were due by the generator's own doing.
    pub(super) late_connects: u64,
    /// Of connecting and subscribing.
    pub(super) setup: Lateness,
    /// Of measure, and of drain until the books are closed.
    pub(super) measure: Lateness,
}

impl Watch {
    /// The loop starts or goes on here; what was before is no absence.
    pub(super) fn start(&mut self, now_us: u64, cpu_us: u64) {
        (self.turn_us, self.rest_us, self.cpu) = (now_us, 0, (now_us, cpu_us));
    }

    /// The loop now rests for so long at most.
    pub(super) fn rest(&mut self, rest_us: u64) {
        self.rest_us = rest_us;
    }

    /// The loop looks up. `answers` are those counted so far.
    #[inline]
    pub(super) fn wake(&mut self, now_us: u64, answers: u64, cpu_us: impl FnOnce() -> u64) {
        let gone_us = now_us.saturating_sub(self.turn_us).saturating_sub(self.rest_us);
        self.turn_us = now_us;
        let late = std::mem::take(&mut self.late);
        self.late_before = if std::mem::take(&mut self.is_noted) { 0 } else { late };
        if gone_us <= LATE_US_MIN && now_us < self.cpu.0 + CPU_EVERY_US {
            return;
        }
        let cpu_us = cpu_us();
        // What the thread worked it was there: it read and sent meanwhile.
        let absent_us = gone_us.saturating_sub(cpu_us.saturating_sub(self.cpu.1));
        self.open = (absent_us > LATE_US_MIN).then_some((absent_us, answers));
        self.cpu = (now_us, cpu_us);
    }

    /// A message was picked up so long after it was due.
    #[inline]
    pub(super) fn picked(&mut self, lag_us: u64) {
        self.late += u64::from(lag_us > LATE_US_MIN);
    }

    /// A PINGREQ was sent so long after it was due; no keep alive minds a little.
    pub(super) fn pinged(&mut self, lag_us: u64) {
        self.late += u64::from(lag_us > ABSENT_US_MAX);
    }

    /// A connect was made so long after it was due and there was room for it. Its latency counts
    /// from here, so only a rate of connections that was not kept matters.
    pub(super) fn connected(&mut self, lag_us: u64) {
        self.late_connects += u64::from(lag_us > ABSENT_US_MAX);
    }

    /// How long the loop was absent just before this turn, if it was.
    #[inline]
    pub(super) fn absent_us(&self) -> Option<u64> {
        self.open.map(|(absent_us, _)| absent_us)
    }

    /// The turn is over. If an absence was before it, what waited is what came late now: messages,
    /// answers, and `others` that are due. Nothing waited for where nothing came late.
    pub(super) fn note(&mut self, answers: u64, others: u64, window: Window) {
        let Some((absent_us, before)) = self.open.take() else { return };
        self.is_noted = true;
        let delayed = answers.saturating_sub(before) + self.late_before + self.late + others;
        let lateness = match window {
            Window::Setup => &mut self.setup,
            Window::Measure => &mut self.measure,
            Window::Neither => return,
        };
        if delayed > 0 {
            lateness.add(self.turn_us, absent_us, delayed);
        }
    }
}

/// Which figures suffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Setup,
    Measure,
    Neither,
}

/// Why a run in which the generator was so late is invalid; `start_us` is that of the window.
pub(super) fn fault(of: &Lateness, what: &str, start_us: u64) -> Option<String> {
    let is_long = of.absent_us_max > ABSENT_US_MAX;
    let is_much = of.delayed as f64 > of.samples as f64 * DELAYED_SHARE_MAX;
    (of.absences > 0 && (is_long || is_much)).then(|| {
        let times = match of.absences {
            1 => "once".to_owned(),
            more => format!("{more} times"),
        };
        // A PINGREQ is no sample.
        let all = match of.samples {
            0 => "what was due".to_owned(),
            samples => format!("{samples} samples"),
        };
        format!(
            "the load generator was late: absent {times}, for {:.0} ms in all, the longest {:.0} \
             ms, starting {:.1} s after the start of {what}; it delayed {} of {all} by itself \
             (limits: {} ms, {:.1} % of the samples)",
            of.absent_us as f64 / 1e3,
            of.absent_us_max as f64 / 1e3,
            of.longest_at_us.saturating_sub(start_us + of.absent_us_max) as f64 / 1e6,
            of.delayed,
            ABSENT_US_MAX / 1_000,
            DELAYED_SHARE_MAX * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that rests 5 ms at a time, at 1,000,000, with so many answers counted.
    fn watch() -> Watch {
        let mut watch = Watch::default();
        watch.start(1_000_000, 100);
        watch.rest(5_000);
        watch
    }

    #[test]
    fn what_the_loop_rested_and_worked_is_no_absence() {
        let mut watch = watch();
        watch.wake(1_005_000 + LATE_US_MIN, 0, || 100);
        assert!(watch.absent_us().is_none(), "as late as any shared machine may be");
        watch.rest(0);
        watch.wake(1_115_000, 0, || 100_100);
        assert!(watch.absent_us().is_none(), "100 ms of work");
        watch.wake(1_116_000, 0, || 100_200);
        watch.wake(1_116_001 + LATE_US_MIN, 0, || 100_200);
        assert_eq!(watch.absent_us(), Some(10_001));
    }

    #[test]
    fn an_absence_counts_with_what_waited_for_it_and_only_then() {
        let mut watch = watch();
        watch.wake(1_605_000, 7, || 200);
        watch.note(7, 0, Window::Measure);
        assert_eq!(watch.measure, Lateness::default(), "nothing was due and nothing lay unread");
        watch.rest(5_000);
        watch.wake(3_205_000, 7, || 300);
        watch.picked(LATE_US_MIN);
        watch.picked(LATE_US_MIN + 1);
        watch.picked(100 * LATE_US_MIN);
        watch.note(9, 1, Window::Measure);
        watch.rest(5_000);
        watch.wake(3_235_000, 9, || 300);
        watch.note(10, 0, Window::Measure);
        let expected = Lateness {
            samples: 0,
            delayed: 6,
            absences: 2,
            absent_us: 1_594_900 + 25_000,
            absent_us_max: 1_594_900,
            longest_at_us: 3_205_000,
        };
        assert_eq!((watch.measure, watch.setup), (expected, Lateness::default()));
        watch.note(20, 0, Window::Measure);
        assert_eq!(watch.measure, expected, "once");
        watch.wake(3_335_000, 10, || 300);
        watch.note(11, 0, Window::Setup);
        assert_eq!((watch.measure.absences, watch.setup.absences), (2, 1));
        watch.wake(3_435_000, 11, || 300);
        watch.note(12, 0, Window::Neither);
        assert_eq!((watch.measure.absences, watch.setup.absences), (2, 1));
    }

    #[test]
    fn an_absence_in_the_middle_of_a_turn_counts_with_what_that_turn_did_late() {
        let mut watch = watch();
        watch.wake(1_005_000, 0, || 200);
        watch.note(0, 0, Window::Measure);
        watch.pinged(ABSENT_US_MAX);
        watch.pinged(ABSENT_US_MAX + 1);
        watch.rest(5_000);
        watch.wake(2_605_000, 0, || 300);
        watch.note(0, 0, Window::Measure);
        assert_eq!((watch.measure.absences, watch.measure.delayed), (1, 1));
        assert_eq!(watch.measure.absent_us, 1_594_900);
        // What is sent late after an absence was overdue when it was noted.
        watch.pinged(ABSENT_US_MAX + 1);
        watch.wake(2_705_000, 0, || 400);
        watch.note(0, 0, Window::Measure);
        assert_eq!((watch.measure.absences, watch.measure.delayed), (1, 1));
    }

    #[test]
    fn a_connect_is_late_where_the_rate_is_not_kept() {
        let mut watch = watch();
        watch.connected(ABSENT_US_MAX);
        assert_eq!(watch.late_connects, 0);
        watch.connected(ABSENT_US_MAX + 1);
        assert_eq!(watch.late_connects, 1);
    }

    #[test]
    fn a_long_absence_or_one_of_a_thousand_samples_is_a_fault_from_the_first_sample_on() {
        let of = |samples, delayed, absent_us| {
            let mut lateness = Lateness { samples, ..Lateness::default() };
            lateness.add(9_000_000, absent_us, delayed);
            fault(&lateness, "measure", 5_000_000)
        };
        assert_eq!(of(10_000, 10, 50_000), None);
        let text = of(10_000, 11, 1_600_000).unwrap();
        let parts =
            ["absent once", "the longest 1600 ms, starting 2.4 s after the start of measure"];
        for part in parts.into_iter().chain(["11 of 10000"]) {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(of(10_000, 11, 20_000).is_some());
        assert!(of(1_000_000, 1, 50_001).is_some());
        assert!(of(1, 1, 10_001).is_some());
        let text = of(0, 20, 1_600_000).unwrap();
        assert!(text.contains("it delayed 20 of what was due by itself"), "no sample: {text}");
        assert_eq!(fault(&Lateness::default(), "measure", 0), None);
    }
}
