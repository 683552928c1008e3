//! How long a commit waits for others to share it.
//!
//! A commit costs some 50 µs of CPU, whatever is in it, so a busy log gathers for a while. A log
//! that nobody else writes to meanwhile would gather nothing: a client that waits for each answer
//! would only wait longer. How busy a log is, is how many requests share a commit, and how many
//! come while it is on its way.

use weir_core::{Micros, Record};

/// Requests that share a commit or come during it, beside the first, when commits keep their whole
/// distance. With fewer, in the mean, they keep a part of it.
const BUSY: u32 = 4;

/// The mean is kept in parts of this.
const PARTS: u32 = 16;

/// When the next commit may begin.
#[derive(Debug)]
pub(super) struct Gap {
    /// The least time between the beginnings of two commits of a busy log.
    longest: Micros,
    begun_at: Micros,
    /// Requests whose answers wait for the commit that is on its way, and for the next one.
    sharing: u32,
    waiting: u32,
    /// How busy the last few commits were, in the mean.
    busy: u32,
}

impl Gap {
    pub(super) fn new(longest: Micros) -> Self {
        Self { longest, begun_at: Micros(0), sharing: 0, waiting: 0, busy: 0 }
    }

    /// An input has recorded something that somebody waits for.
    #[inline]
    pub(super) fn note_request(&mut self) {
        self.waiting = self.waiting.saturating_add(1);
    }

    /// A commit of all that was recorded begins.
    pub(super) fn begun(&mut self, now: Micros) {
        (self.begun_at, self.sharing, self.waiting) = (now, self.waiting, 0);
    }

    /// It is done.
    pub(super) fn done(&mut self) {
        let others = self.sharing.saturating_sub(1).saturating_add(self.waiting);
        self.busy = self.busy * 3 / 4 + others.min(BUSY * 2) * (PARTS / 4);
    }

    /// When the last one began.
    pub(super) fn begun_at(&self) -> Micros {
        self.begun_at
    }

    /// When the next one may begin.
    pub(super) fn ends_at(&self) -> Micros {
        let whole = BUSY * PARTS;
        let part = u64::from(self.busy.min(whole));
        self.begun_at + Micros(self.longest.0 * part / u64::from(whole))
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

    /// So many commits that begin when they may, with as many requests in each and during each.
    fn after(commits: u32, sharing: u32, during: u32) -> Gap {
        let mut gap = Gap::new(Micros(1_000));
        for _ in 0..commits {
            (gap.waiting..sharing).for_each(|_| gap.note_request());
            gap.begun(gap.ends_at());
            (0..during).for_each(|_| gap.note_request());
            gap.done();
        }
        gap
    }

    fn distance(sharing: u32, during: u32) -> u64 {
        let gap = after(100, sharing, during);
        gap.ends_at().0 - gap.begun_at().0
    }

    #[test]
    fn a_client_that_is_alone_waits_for_its_own_commits_only() {
        assert_eq!(distance(1, 0), 0);
    }

    #[test]
    fn a_busy_log_keeps_its_distance_and_one_that_is_less_busy_a_part() {
        assert_eq!(distance(50, 0), 1_000, "they came at once");
        assert_eq!(distance(5, 5), 1_000);
        assert!((300..=500).contains(&distance(2, 1)), "{}", distance(2, 1));
    }

    #[test]
    fn a_log_that_was_busy_is_alone_again_some_commits_later() {
        let mut gap = after(100, 50, 50);
        for _ in 0..20 {
            gap.begun(gap.ends_at());
            gap.done();
        }
        assert_eq!(gap.ends_at(), gap.begun_at());
    }
}
