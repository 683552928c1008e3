//! How many lines of one kind a second may have; what is over that is summed up.

use super::CLIENTS;
use tracing::{Level, enabled, info, warn};
use weir_core::{Micros, share_of};

const SECOND_US: u64 = 1_000_000;

/// A second's allowance of one kind of line.
#[derive(Debug)]
pub(super) struct Bound {
    kind: &'static str,
    level: Level,
    lines_max: u32,
    /// Lines of one origin.
    share_max: u32,
    second: u64,
    /// Written in this second.
    lines: u32,
    /// Those by origin: as many as lines at most.
    taken: Vec<(u64, u32)>,
    /// Whether anybody is shown such lines, as of the begin of this second.
    is_shown: bool,
    /// Not written since it was last said how many.
    untold: u64,
    /// Not written since the start.
    pub(super) left_out: u64,
}

impl Bound {
    /// An origin may take `share_percent` of `lines_max`.
    pub(super) fn new(kind: &'static str, level: Level, lines_max: u32, share_percent: u8) -> Self {
        Self {
            kind,
            level,
            lines_max,
            share_max: share_of(lines_max.into(), share_percent) as u32,
            second: u64::MAX,
            lines: 0,
            taken: Vec::new(),
            is_shown: false,
            untold: 0,
            left_out: 0,
        }
    }

    /// An origin may take another part from now on.
    pub(super) fn set_share(&mut self, share_percent: u8) {
        self.share_max = share_of(self.lines_max.into(), share_percent) as u32;
    }

    /// Whether a line may be written that counts for this origin, which is asked for if it matters.
    pub(super) fn allows(&mut self, now: Micros, origin: impl FnOnce() -> u64) -> bool {
        let second = now.0 / SECOND_US;
        if second != self.second {
            self.sum_up(now);
            (self.second, self.lines) = (second, 0);
            self.taken.clear();
            self.is_shown = match self.level {
                Level::INFO => enabled!(target: CLIENTS, Level::INFO),
                _ => enabled!(target: CLIENTS, Level::WARN),
            };
        }
        if !self.is_shown {
            return false;
        }
        let is_allowed = self.lines < self.lines_max && self.takes(origin());
        if is_allowed {
            self.lines += 1;
        } else {
            self.untold += 1;
            self.left_out += 1;
        }
        is_allowed
    }

    /// Counts a line for its origin, if that has not had its share.
    fn takes(&mut self, origin: u64) -> bool {
        let Some((_, lines)) = self.taken.iter_mut().find(|(other, _)| *other == origin) else {
            self.taken.push((origin, 1));
            return true;
        };
        let has_room = *lines < self.share_max;
        *lines += u32::from(has_room);
        has_room
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

    fn shown(lines_max: u32, share_percent: u8) -> Bound {
        let mut bound = Bound::new("connected", Level::INFO, lines_max, share_percent);
        assert!(!bound.allows(at(0), || 0) && bound.due().is_none(), "nobody is shown anything");
        bound.is_shown = true;
        bound
    }

    fn at(us: u64) -> Micros {
        Micros(7 * SECOND_US + us)
    }

    #[test]
    fn what_is_over_the_bound_is_summed_up_when_the_second_is_over() {
        let mut bound = shown(3, 100);
        let allowed = (0..10).filter(|&us| bound.allows(at(us), || 0)).count();
        assert_eq!((allowed, bound.left_out, bound.due()), (3, 7, Some(at(SECOND_US))));
        bound.sum_up(at(SECOND_US - 1));
        assert_eq!(bound.untold, 7);
        bound.sum_up(at(SECOND_US));
        assert_eq!((bound.untold, bound.left_out, bound.due()), (0, 7, None));
    }

    #[test]
    fn one_origin_leaves_others_a_part_of_the_lines() {
        let mut bound = shown(10, 75);
        let mut greedy = |count: u64| (0..count).filter(|_| bound.allows(at(0), || 1)).count();
        assert_eq!((greedy(1_000), greedy(1)), (7, 0));
        let others = (2..1_000).filter(|&origin| bound.allows(at(1), || origin)).count();
        assert_eq!((others, bound.left_out), (3, 994 + 995));
        assert!(bound.taken.len() <= 10, "no more origins are kept than lines");
    }

    #[test]
    fn every_shared_bound_of_the_log_is_walked_over() {
        let lines = "100 lines of the log for clients that come, 100 for those that go, 10 for \
                     each fault, per second and thread";
        assert_eq!(weir_core::walked_by(weir_core::Walk::Log), [lines]);
    }
}
