//! The broker's silences: it owed something new, and for a long time nothing came at all.

use crate::outcome::{SILENCES_MAX, SILENT_US_MIN, Silence};

/// What was heard and what was owed, turn by turn.
#[derive(Debug, Default)]
pub(super) struct Silences {
    /// Answers counted, and what was asked for by then.
    answers: u64,
    asked: u64,
    /// When something was asked for that nothing has been heard since.
    since_us: Option<u64>,
    found: Vec<Silence>,
    unlisted: u64,
}

impl Silences {
    /// So many answers have come by now, and so much was ever asked for.
    #[inline]
    pub(super) fn note(&mut self, now_us: u64, answers: u64, asked: u64) {
        if answers != self.answers {
            self.end(now_us);
            (self.answers, self.asked) = (answers, asked);
        } else if asked > self.asked && self.since_us.is_none() {
            self.since_us = Some(now_us);
        }
    }

    /// Nothing is listened for any longer.
    pub(super) fn end(&mut self, now_us: u64) {
        let Some(start_us) = self.since_us.take() else { return };
        let length_us = now_us.saturating_sub(start_us);
        if length_us < SILENT_US_MIN {
            return;
        }
        if self.found.len() < SILENCES_MAX {
            self.found.push(Silence { start_us, length_us });
        } else {
            self.unlisted += 1;
        }
    }

    /// The generator was not there to hear anything for so long.
    pub(super) fn skip(&mut self, absent_us: u64) {
        self.since_us = self.since_us.map(|since_us| since_us + absent_us);
    }

    pub(super) fn found(&self) -> (Vec<Silence>, u64) {
        (self.found.clone(), self.unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_lasts_from_what_is_asked_for_to_the_next_answer() {
        let mut silences = Silences::default();
        silences.note(1_000_000, 5, 5);
        silences.note(2_000_000, 5, 5);
        silences.note(3_000_000, 5, 6);
        silences.note(3_200_000, 5, 7);
        silences.note(3_000_000 + SILENT_US_MIN, 6, 8);
        silences.note(9_000_000, 6, 8);
        silences.note(9_100_000, 6, 9);
        silences.note(9_100_000 + SILENT_US_MIN - 1, 7, 9);
        assert_eq!(
            silences.found(),
            (vec![Silence { start_us: 3_000_000, length_us: SILENT_US_MIN }], 0)
        );
        silences.note(11_000_000, 7, 10);
        silences.skip(1_600_000);
        silences.end(12_600_000 + SILENT_US_MIN - 1);
        assert_eq!(silences.found().0.len(), 1, "nobody listened");
        silences.note(21_000_000, 7, 11);
        silences.skip(400_000);
        silences.end(22_000_000);
        let second = Silence { start_us: 21_400_000, length_us: 600_000 };
        assert_eq!(silences.found().0[1], second);
    }

    #[test]
    fn silences_beyond_the_bound_are_counted() {
        let mut silences = Silences::default();
        for turn in 0..SILENCES_MAX as u64 + 2 {
            silences.note(turn * 10_000_000, turn, turn + 1);
            silences.note(turn * 10_000_000 + 1, turn, turn + 2);
        }
        silences.end(u64::MAX);
        let (found, unlisted) = silences.found();
        assert_eq!((found.len(), unlisted), (SILENCES_MAX, 2));
    }
}
