//! When a shard's log is written anew, and what goes then.
//!
//! The log grows until what is alive is a third of it at most, and a file of it is full; then the
//! shard logs all that is there anew, and everything before that goes. So the disk holds about
//! three times what is alive, and each byte is copied once in the time that it takes to write
//! twice as many. Where little is alive, that is done as soon as a file is full, which is then the
//! next one that is ready: no other has to be made.
//!
//! Where the disk is bounded, half of it is for what is alive, since that is there twice while it
//! is written anew. How much is alive is known when a base ends.
//!
//! A start writes all that is alive anew, too, beside what is there. So what is alive is no more
//! than what the file system has free, without some files: or a broker that has filled its disk
//! could not be started again.

use weir_core::{Lsn, Micros};

/// Dead pages of so many files of the log are worth writing it anew for.
const PAGE_SEGMENTS: u64 = 4;

/// Files that are ready, or written by others than the base.
const RESERVE_SEGMENTS: u64 = 6;

/// Files that a start makes of each log beside those that are full, and those that the running log
/// has not made yet.
const START_SEGMENTS: u64 = 4;

/// How a log may grow: to so many times what its last base took.
const BASES: u64 = 3;

/// Where what is alive counts as too much, and where no longer, in parts of a hundred of its half.
const TIGHT_PERCENT: u64 = 90;
const ROOMY_PERCENT: u64 = 80;

/// While too much is alive, bases tell whether that is still so: this often, and not for more than
/// a part of the time.
const LOOK_EVERY: Micros = Micros(1_000_000);
const LOOK_PART: u64 = 10;

/// What is known of the log's bases. Bytes are those that were committed, in all.
#[derive(Debug)]
pub(super) struct Reclaim {
    segment_bytes: u64,
    /// What may be alive.
    live_bytes_max: u64,
    /// Where the base that is on its way, or was last, began, and when.
    begun_at: u64,
    begun: Micros,
    /// What the last base took, with what came meanwhile.
    base_bytes: u64,
    /// Where it ended, and when.
    ended_at: u64,
    ended: Micros,
    is_basing: bool,
    is_tight: bool,
    /// What may be alive so that a start has room for it.
    room_bytes: u64,
    /// There may be more than that.
    is_cramped: bool,
    /// Where the last base began that is whole: no more is alive than what was committed since.
    whole_at: u64,
    /// Bytes of pages that are freed by a base.
    dead_page_bytes: u64,
    /// Whether there is no room for pages.
    is_short_of_pages: bool,
    /// Whether the log has a file that is full, and would go.
    has_full_segment: bool,
    /// Everything before this is forgotten.
    forgotten: Lsn,
}

impl Reclaim {
    /// That of the start is on its way.
    pub(super) fn new(segment_bytes: u64, disk_bytes_max: u64) -> Self {
        Self {
            segment_bytes,
            live_bytes_max: disk_bytes_max.saturating_sub(RESERVE_SEGMENTS * segment_bytes) / 2,
            begun_at: 0,
            begun: Micros(0),
            base_bytes: 0,
            ended_at: 0,
            ended: Micros(0),
            is_basing: true,
            is_tight: false,
            room_bytes: u64::MAX,
            is_cramped: false,
            whole_at: 0,
            dead_page_bytes: 0,
            is_short_of_pages: false,
            has_full_segment: false,
            forgotten: Lsn::NONE,
        }
    }

    /// What is to be had of pages by a base, and whether room for them is wanted.
    pub(super) fn note_pages(&mut self, dead_bytes: u64, is_short: bool) {
        (self.dead_page_bytes, self.is_short_of_pages) = (dead_bytes, is_short);
    }

    /// Whether the log has more files with records than one.
    pub(super) fn note_segments(&mut self, segments: usize) {
        self.has_full_segment = segments > 1;
    }

    /// So much is free, of which this log may count on its part.
    pub(super) fn note_room(&mut self, bytes: u64, committed_bytes: u64) {
        self.room_bytes = bytes.saturating_sub(START_SEGMENTS * self.segment_bytes);
        let alive = committed_bytes - self.whole_at;
        let percent = if self.is_cramped { ROOMY_PERCENT } else { TIGHT_PERCENT };
        self.is_cramped = alive > self.room_bytes / 100 * percent;
    }

    /// Whether a base is due. If so, it begins.
    pub(super) fn begins(&mut self, committed_bytes: u64, now: Micros) -> bool {
        if self.is_basing {
            return false;
        }
        let bytes = committed_bytes - self.begun_at;
        // Dead pages count as what the log has grown by: they go with it.
        let grown = bytes + self.dead_page_bytes;
        let least = if self.has_full_segment {
            self.segment_bytes / 2
        } else {
            PAGE_SEGMENTS * self.segment_bytes
        };
        let is_long = grown > least.max(BASES * self.base_bytes);
        // What is alive is no more than what was written.
        let is_much = bytes > self.live_bytes_max || self.is_cramped;
        let may_be_much = is_much && bytes > self.base_bytes + self.segment_bytes / 2;
        let is_look = self.due(committed_bytes).is_some_and(|due| due <= now);
        if is_long || may_be_much || is_look {
            (self.is_basing, self.begun_at, self.begun) = (true, committed_bytes, now);
        }
        self.is_basing
    }

    /// When to ask again though nothing happens.
    pub(super) fn due(&self, committed_bytes: u64) -> Option<Micros> {
        // What is alive is the same as long as nothing was written.
        let has_changed = committed_bytes > self.ended_at;
        let is_wanted = (self.is_tight() && has_changed) || self.frees_pages();
        (is_wanted && !self.is_basing).then(|| {
            let took = self.ended.0.saturating_sub(self.begun.0);
            self.ended + Micros(LOOK_EVERY.0.max(took * LOOK_PART))
        })
    }

    /// Whether a base makes room for pages that is wanted.
    fn frees_pages(&self) -> bool {
        self.is_short_of_pages && self.dead_page_bytes > 0
    }

    /// Whether no more should be kept than there is.
    #[inline]
    pub(super) fn is_tight(&self) -> bool {
        self.is_tight || self.is_cramped
    }

    /// Whether it would help if others made room.
    pub(super) fn is_cramped(&self) -> bool {
        self.is_cramped
    }

    /// A commit is done, with which so much is safe. Says before which record nothing means
    /// anything any more, if a base that ends by then makes that so; `base` is the last whole one.
    pub(super) fn committed(
        &mut self,
        safe: Lsn,
        base: Option<(Lsn, Lsn)>,
        committed_bytes: u64,
        now: Micros,
    ) -> Option<Lsn> {
        let (begin, end) = base?;
        if begin <= self.forgotten || end > safe {
            return None;
        }
        (self.forgotten, self.is_basing) = (begin, false);
        (self.ended_at, self.ended, self.whole_at) = (committed_bytes, now, self.begun_at);
        self.base_bytes = committed_bytes - self.begun_at;
        let percent = if self.is_tight { ROOMY_PERCENT } else { TIGHT_PERCENT };
        self.is_tight = self.base_bytes > self.live_bytes_max / 100 * percent;
        Some(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 100;

    /// A log whose first base took so much, and is safe.
    fn after_base(disk_bytes_max: u64, base_bytes: u64) -> Reclaim {
        let mut reclaim = Reclaim::new(SEGMENT, disk_bytes_max);
        let base = Some((Lsn(1), Lsn(9)));
        assert_eq!(reclaim.committed(Lsn(9), base, base_bytes, Micros(50)), Some(Lsn(1)));
        reclaim
    }

    #[test]
    fn a_base_begins_when_a_file_is_full_and_the_log_is_several_times_the_last_base() {
        let mut reclaim = Reclaim::new(SEGMENT, u64::MAX);
        reclaim.note_segments(9);
        assert!(!reclaim.begins(10_000, Micros(60)), "that of the start is on its way");
        let mut reclaim = after_base(u64::MAX, 200);
        reclaim.note_segments(7);
        assert!(!reclaim.begins(6 * SEGMENT, Micros(60)));
        assert!(reclaim.begins(6 * SEGMENT + 1, Micros(60)));
        assert!(!reclaim.begins(100_000, Micros(60)), "it has begun");
        let mut reclaim = after_base(u64::MAX, 10);
        reclaim.note_segments(1);
        assert!(!reclaim.begins(SEGMENT - 1, Micros(60)));
        reclaim.note_segments(2);
        assert!(reclaim.begins(SEGMENT - 1, Micros(60)));
    }

    #[test]
    fn a_bound_of_the_disk_has_it_begin_earlier() {
        // 300 bytes may be alive.
        let mut reclaim = after_base(12 * SEGMENT, 10);
        assert!(!reclaim.begins(300, Micros(60)));
        assert!(reclaim.begins(301, Micros(60)));
    }

    #[test]
    fn too_much_that_is_alive_is_looked_at_until_it_is_less() {
        let mut reclaim = after_base(12 * SEGMENT, 270);
        assert!(!reclaim.is_tight() && reclaim.due(100_000).is_none());
        let mut reclaim = {
            reclaim.is_basing = true;
            reclaim.begun_at = 1_000;
            reclaim.begun = Micros(100_000);
            let base = Some((Lsn(20), Lsn(30)));
            reclaim.committed(Lsn(30), base, 1_271, Micros(400_000));
            reclaim
        };
        assert!(reclaim.is_tight(), "271 of 300");
        // The last took 300 ms.
        assert_eq!(reclaim.due(1_280), Some(Micros(3_400_000)));
        assert_eq!(reclaim.due(1_271), None, "nothing has happened since");
        assert!(!reclaim.begins(1_280, Micros(3_399_999)));
        assert!(!reclaim.begins(1_271, Micros(3_400_000)), "nothing has happened since");
        assert!(reclaim.begins(1_280, Micros(3_400_000)));
        reclaim.committed(Lsn(50), Some((Lsn(40), Lsn(50))), 1_280 + 241, Micros(3_500_000));
        assert!(reclaim.is_tight());
        assert!(reclaim.begins(1_600, Micros(9_000_000)));
        reclaim.committed(Lsn(70), Some((Lsn(60), Lsn(70))), 1_600 + 240, Micros(9_100_000));
        assert!(!reclaim.is_tight());
    }

    #[test]
    fn dead_pages_count_as_growth_and_are_looked_for_where_there_is_no_room() {
        let mut reclaim = after_base(u64::MAX, 10);
        reclaim.note_pages(3 * SEGMENT, false);
        assert!(!reclaim.begins(SEGMENT, Micros(60)));
        assert!(reclaim.begins(SEGMENT + 1, Micros(60)));
        let mut reclaim = after_base(u64::MAX, 10);
        reclaim.note_pages(1, false);
        assert_eq!(reclaim.due(10), None);
        reclaim.note_pages(1, true);
        assert_eq!(reclaim.due(10), Some(Micros(1_000_050)));
        assert!(!reclaim.begins(10, Micros(1_000_049)));
        assert!(reclaim.begins(10, Micros(1_000_050)), "though nothing else was written");
    }

    #[test]
    fn what_is_alive_is_no_more_than_a_start_has_room_for() {
        let mut reclaim = after_base(u64::MAX, 200);
        reclaim.note_room(4 * SEGMENT + 300, 270);
        assert!(!reclaim.is_tight());
        assert!(!reclaim.begins(270, Micros(60)));
        reclaim.note_room(4 * SEGMENT + 300, 271);
        assert!(reclaim.is_tight(), "so much may be alive");
        assert!(reclaim.begins(271, Micros(60)), "and a base tells whether it is");
        // It was not much, and little came meanwhile.
        reclaim.committed(Lsn(30), Some((Lsn(20), Lsn(30))), 271 + 60, Micros(100));
        reclaim.note_room(4 * SEGMENT + 300, 271 + 60);
        assert!(!reclaim.is_tight());
        reclaim.note_room(4 * SEGMENT, 271 + 60);
        assert!(reclaim.is_tight(), "others have taken the room");
        reclaim.note_room(4 * SEGMENT + 300, 271 + 60);
        assert!(!reclaim.is_tight());
    }

    #[test]
    fn what_was_before_a_base_goes_once_and_not_before_its_end_is_safe() {
        let mut reclaim = Reclaim::new(SEGMENT, u64::MAX);
        let base = Some((Lsn(5), Lsn(9)));
        assert_eq!(reclaim.committed(Lsn(8), base, 0, Micros(0)), None);
        assert_eq!(reclaim.committed(Lsn(9), base, 0, Micros(0)), Some(Lsn(5)));
        assert_eq!(reclaim.committed(Lsn(20), base, 0, Micros(0)), None);
        assert_eq!(reclaim.committed(Lsn(20), None, 0, Micros(0)), None);
    }
}
