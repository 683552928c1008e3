//! How long a commit waits for others to share it.
//!
//! A commit costs some 50 µs of CPU, whatever is in it, so a busy log gathers for a while. A log
//! that nobody else writes to meanwhile would gather nothing: a client that waits for each answer
//! would only wait longer. How busy a log is, is how many came while commits were on their way.

use weir_core::{Micros, Record};

/// Requests that come during a commit, in the mean, when commits keep their whole distance. With
/// fewer they keep a part of it.
const BUSY: u32 = 2;

/// The mean is kept in parts of this.
const PARTS: u32 = 16;

/// When the next commit may begin.
#[derive(Debug)]
pub(super) struct Gap {
    /// The least time between the beginnings of two commits of a busy log.
    longest: Micros,
    begun_at: Micros,
    /// Requests since the last commit began whose answers wait for the next one.
    requests: u32,
    /// Those that come during a commit: the mean of the last few.
    during: u32,
}

impl Gap {
    pub(super) fn new(longest: Micros) -> Self {
        Self { longest, begun_at: Micros(0), requests: 0, during: 0 }
    }

    /// An input has recorded something that somebody waits for.
    #[inline]
    pub(super) fn note_request(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// A commit of all that was recorded begins.
    pub(super) fn begun(&mut self, now: Micros) {
        (self.begun_at, self.requests) = (now, 0);
    }

    /// It is done.
    pub(super) fn done(&mut self) {
        self.during = self.during * 3 / 4 + self.requests.min(BUSY * 2) * (PARTS / 4);
    }

    /// When the last one began.
    pub(super) fn begun_at(&self) -> Micros {
        self.begun_at
    }

    /// When the next one may begin.
    pub(super) fn ends_at(&self) -> Micros {
        let busy = BUSY * PARTS;
        let part = u64::from(self.during.min(busy));
        self.begun_at + Micros(self.longest.0 * part / u64::from(busy))
    }
}

/// Whether an answer waits for what says so. For the rest a client would only have to do something
/// again.
pub(super) fn is_waited_for(record: &Record<'_>) -> bool {
    use Record::{Absent, Base, BaseEnd, Delivered, Done, Dropped, Fetched, Page, Paged, Sent};
    let nobody_waits = matches!(
        record,
        Sent { .. }
            | Done { .. }
            | Dropped { .. }
            | Absent { .. }
            | Delivered { .. }
            | Paged { .. }
            | Fetched { .. }
            | Page { .. }
            | Base
            | BaseEnd
    );
    !nobody_waits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits that take 100 µs and begin when they may, with so many requests during each.
    fn after(commits: u32, during: u32) -> Gap {
        let mut gap = Gap::new(Micros(1_000));
        for _ in 0..commits {
            gap.begun(gap.ends_at());
            (0..during).for_each(|_| gap.note_request());
            gap.done();
        }
        gap
    }

    #[test]
    fn a_client_that_is_alone_waits_for_its_own_commits_only() {
        let gap = after(100, 0);
        assert_eq!(gap.ends_at(), gap.begun_at());
    }

    #[test]
    fn a_busy_log_keeps_its_distance_and_one_that_is_less_busy_a_part() {
        let distance = |during| {
            let gap = after(100, during);
            gap.ends_at().0 - gap.begun_at().0
        };
        assert_eq!(distance(2), 1_000);
        assert_eq!(distance(50), 1_000);
        assert!((300..=500).contains(&distance(1)), "{}", distance(1));
    }

    #[test]
    fn a_log_that_was_busy_is_alone_again_some_commits_later() {
        let mut gap = after(100, 50);
        for _ in 0..16 {
            gap.begun(gap.ends_at());
            gap.done();
        }
        assert_eq!(gap.ends_at(), gap.begun_at());
    }
}
