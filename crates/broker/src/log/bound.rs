//! How many lines of one kind a second may have; what is over that is summed up.

use super::CLIENTS;
use tracing::{Level, enabled, info, warn};
use weir_core::Micros;

const SECOND_US: u64 = 1_000_000;

/// A second's allowance of one kind of line.
#[derive(Debug)]
pub(super) struct Bound {
    kind: &'static str,
    level: Level,
    lines_max: u32,
    second: u64,
    /// Of this second, whether written or not.
    lines: u32,
    /// Whether anybody is shown such lines, as of the begin of this second.
    is_shown: bool,
    /// Not written since it was last said how many.
    untold: u64,
    /// Not written since the start.
    pub(super) left_out: u64,
}

impl Bound {
    pub(super) fn new(kind: &'static str, level: Level, lines_max: u32) -> Self {
        let (second, lines, is_shown, untold, left_out) = (u64::MAX, 0, false, 0, 0);
        Self { kind, level, lines_max, second, lines, is_shown, untold, left_out }
    }

    /// Whether a line may be written.
    pub(super) fn allows(&mut self, now: Micros) -> bool {
        let second = now.0 / SECOND_US;
        if second != self.second {
            self.sum_up(now);
            (self.second, self.lines) = (second, 0);
            self.is_shown = match self.level {
                Level::INFO => enabled!(target: CLIENTS, Level::INFO),
                _ => enabled!(target: CLIENTS, Level::WARN),
            };
        }
        if !self.is_shown {
            return false;
        }
        self.lines = self.lines.saturating_add(1);
        let is_allowed = self.lines <= self.lines_max;
        if !is_allowed {
            self.untold += 1;
            self.left_out += 1;
        }
        is_allowed
    }

    /// When there is something to sum up.
    pub(super) fn due(&self) -> Option<Micros> {
        (self.untold > 0).then(|| Micros((self.second + 1) * SECOND_US))
    }

    /// Says what was left out in a second that is over.
    pub(super) fn sum_up(&mut self, now: Micros) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let (kind, lines) = (self.kind, std::mem::take(&mut self.untold));
        match self.level {
            Level::INFO => info!(target: CLIENTS, kind, lines, "more such lines were left out"),
            _ => warn!(target: CLIENTS, kind, lines, "more such lines were left out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_bound_is_summed_up_when_the_second_is_over() {
        let mut bound = Bound::new("connected", Level::INFO, 3);
        let at = |us| Micros(7 * SECOND_US + us);
        assert!(!bound.allows(at(0)) && bound.due().is_none(), "nobody is shown anything");
        bound.is_shown = true;
        let allowed = (0..10).filter(|&us| bound.allows(at(us))).count();
        assert_eq!((allowed, bound.left_out, bound.due()), (3, 7, Some(at(SECOND_US))));
        bound.sum_up(at(SECOND_US - 1));
        assert_eq!(bound.untold, 7);
        bound.sum_up(at(SECOND_US));
        assert_eq!((bound.untold, bound.left_out, bound.due()), (0, 7, None));
    }
}
