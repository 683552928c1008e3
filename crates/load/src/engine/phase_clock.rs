//! The phases of a run by the clock: which one it is, since when, and when it ends.

use crate::outcome::{Phase, PhaseSpan};
use crate::plan::Phases;

/// One phase after the other, from connect to drain.
#[derive(Debug)]
pub(super) struct PhaseClock {
    phase: Phase,
    start_us: u64,
    spans: Vec<PhaseSpan>,
    lengths: Phases,
    /// Without publishers there is nothing to warm up.
    has_warm_up: bool,
    /// From when to when messages are measured, once that is known.
    measure_us: Option<(u64, u64)>,
    /// When publishing ended before its time.
    finish_us: Option<u64>,
}

impl PhaseClock {
    pub(super) fn new(lengths: Phases, has_publishers: bool, now_us: u64) -> Self {
        Self {
            phase: Phase::Connect,
            start_us: now_us,
            spans: Vec::new(),
            lengths,
            has_warm_up: has_publishers,
            measure_us: None,
            finish_us: None,
        }
    }

    #[inline]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn start_us(&self) -> u64 {
        self.start_us
    }

    /// The phase counts from here.
    pub(super) fn restart(&mut self, now_us: u64) {
        self.start_us = now_us;
    }

    #[inline]
    pub(super) fn measure_us(&self) -> Option<(u64, u64)> {
        self.measure_us
    }

    #[inline]
    pub(super) fn is_measured(&self, intended_us: u64) -> bool {
        self.measure_us.is_some_and(|(start, end)| (start..end).contains(&intended_us))
    }

    pub(super) fn is_publishing(&self) -> bool {
        matches!(self.phase, Phase::WarmUp | Phase::Measure)
    }

    /// Whether clients are still being connected or subscribed.
    pub(super) fn is_setting_up(&self) -> bool {
        matches!(self.phase, Phase::Connect | Phase::Subscribe)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish_us.is_some()
    }

    /// Publishing begins there.
    pub(super) fn publish_from(&mut self, start_us: u64) {
        let measure_start_us = start_us + self.length_us(Phase::WarmUp);
        let measure_end_us = measure_start_us + self.length_us(Phase::Measure);
        self.measure_us = Some((measure_start_us, measure_end_us));
    }

    /// Publishing ends now.
    pub(super) fn finish(&mut self, now_us: u64) {
        self.finish_us = Some(now_us);
        if self.is_publishing() {
            self.measure_us = self.measure_us.map(|(start_us, _)| (start_us, now_us));
        }
    }

    /// When a phase of fixed length ends.
    pub(super) fn end_us(&self) -> u64 {
        let planned_us = self.start_us + self.length_us(self.phase);
        let finish_us = self.finish_us.filter(|_| self.phase != Phase::Drain);
        finish_us.map_or(planned_us, |finish_us| planned_us.min(finish_us.max(self.start_us)))
    }

    fn length_us(&self, phase: Phase) -> u64 {
        let length_ms = match phase {
            Phase::WarmUp if !self.has_warm_up => 0,
            Phase::WarmUp => self.lengths.warm_up_ms,
            Phase::Measure => self.lengths.measure_ms,
            Phase::Drain => self.lengths.drain_ms,
            Phase::Connect | Phase::Subscribe => 0,
        };
        length_ms * 1_000
    }

    /// Closes the phase at `end_us` and opens the one after it. Publishing may begin later than
    /// the last subscription.
    pub(super) fn advance(&mut self, end_us: u64) {
        self.spans.push(PhaseSpan { phase: self.phase, start_us: self.start_us, end_us });
        self.start_us = end_us;
        self.phase = match self.phase {
            Phase::Connect => Phase::Subscribe,
            Phase::Subscribe => {
                let measure_start_us = self.measure_us.map_or(end_us, |(start_us, _)| start_us);
                self.start_us = measure_start_us - self.length_us(Phase::WarmUp);
                Phase::WarmUp
            }
            Phase::WarmUp => Phase::Measure,
            Phase::Measure | Phase::Drain => Phase::Drain,
        };
    }

    /// Closes the phase where it stands, unless that was done.
    pub(super) fn close(&mut self, now_us: u64) {
        if self.spans.last().is_none_or(|span| span.phase != self.phase) {
            let (phase, start_us) = (self.phase, self.start_us);
            self.spans.push(PhaseSpan { phase, start_us, end_us: now_us });
        }
    }

    pub(super) fn into_spans(self) -> Vec<PhaseSpan> {
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Phases = Phases { warm_up_ms: 2, measure_ms: 10, drain_ms: 5 };

    /// In measure, which lasts from 5,000 to 15,000.
    fn measuring() -> PhaseClock {
        let mut clock = PhaseClock::new(LENGTHS, true, 0);
        clock.advance(1_000);
        clock.publish_from(3_000);
        clock.advance(2_000);
        clock.advance(clock.end_us());
        clock
    }

    #[test]
    fn phases_follow_each_other_and_publishing_may_begin_later() {
        let mut clock = measuring();
        assert_eq!(
            (clock.phase(), clock.start_us(), clock.end_us()),
            (Phase::Measure, 5_000, 15_000)
        );
        assert!(
            clock.is_measured(5_000) && clock.is_measured(14_999) && !clock.is_measured(15_000)
        );
        clock.advance(15_000);
        clock.close(17_000);
        clock.close(18_000);
        let spans: Vec<_> = clock.into_spans().iter().map(|of| (of.start_us, of.end_us)).collect();
        assert_eq!(
            spans,
            [(0, 1_000), (1_000, 2_000), (3_000, 5_000), (5_000, 15_000), (15_000, 17_000)]
        );
    }

    #[test]
    fn what_is_finished_early_is_measured_until_then_and_drains_in_full() {
        let mut clock = measuring();
        clock.finish(8_000);
        assert_eq!((clock.measure_us(), clock.end_us()), (Some((5_000, 8_000)), 8_000));
        clock.advance(8_000);
        assert_eq!((clock.phase(), clock.end_us()), (Phase::Drain, 13_000));
    }

    #[test]
    fn without_publishers_there_is_no_warm_up() {
        let mut clock = PhaseClock::new(LENGTHS, false, 0);
        clock.publish_from(1_000);
        assert_eq!(clock.measure_us(), Some((1_000, 11_000)));
    }
}
