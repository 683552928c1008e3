//! What a log has to have done beside its commits, one at a time.

use super::Log;
use super::rewrite::Rewrite;
use crate::chore::{Chore, Work, ZEROS_BYTES};
use crate::record::{Damage, Record};
use crate::segments::Segment;
use crate::{Lsn, SegmentNumber};
use std::collections::VecDeque;

/// Where the disk counts as full, and where no longer, in parts of a hundred.
const SHORT_PERCENT: u64 = 95;
const ENOUGH_PERCENT: u64 = 90;
/// Segments that are kept for what makes room.
const RESERVE_SEGMENTS: u64 = 2;

/// The state of the chores.
#[derive(Debug)]
pub(crate) struct Chores {
    /// Files that are ready to become segments.
    pub(crate) spares: VecDeque<u64>,
    /// The next name of a file that is not a segment.
    pub(crate) next_file: u64,
    /// The spare that is being made, and how much of it is.
    making: Option<(u64, u32)>,
    /// The disk had no space.
    is_refused: bool,
    /// It is to be asked once more.
    is_retried: bool,
    /// It had none for what would have made some.
    pub(crate) is_rewrite_refused: bool,
    is_short: bool,
    is_busy: bool,
    /// The last commit was an empty one.
    pub(crate) is_closed: bool,
    /// The footer of the segment that was sealed last.
    pub(crate) footer: Option<(SegmentNumber, u32, Vec<u8>)>,
    pub(crate) rewrite: Option<Rewrite>,
    /// So much was written anew: the price of reclaiming.
    pub(crate) rewritten_bytes: u64,
}

impl Chores {
    pub(crate) fn new(spares: VecDeque<u64>, next_file: u64) -> Self {
        Self {
            spares,
            next_file,
            making: None,
            is_refused: false,
            is_retried: false,
            is_rewrite_refused: false,
            is_short: false,
            is_busy: false,
            is_closed: false,
            footer: None,
            rewrite: None,
            rewritten_bytes: 0,
        }
    }

    pub(crate) fn take_spare(&mut self) -> Option<u64> {
        self.spares.pop_front()
    }

    pub(crate) fn take_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }
}

impl Log {
    /// Something to be done, if there is and nothing else is being done. It looks at every segment:
    /// once a commit is often enough.
    pub fn take_chore(&mut self) -> Option<Chore> {
        if self.chores.is_busy {
            return None;
        }
        self.judge_space();
        let work = self.recycling().or_else(|| self.footing()).or_else(|| self.sparing());
        let work = work.or_else(|| self.rewriting())?;
        self.chores.is_busy = true;
        Some(Chore(work))
    }

    /// A chore was performed. `is_wanted` says of a record whether somebody refers to it; it is
    /// asked for a slice of a segment at most. Damage that comes to light is said, and left.
    pub fn chore_done(
        &mut self,
        chore: Chore,
        is_wanted: impl FnMut(&Record<'_>) -> bool,
    ) -> Result<(), Damage> {
        self.chores.is_busy = false;
        match chore.0 {
            Work::Zeros { is_refused: true, .. } => {
                self.chores.making = None;
                (self.chores.is_refused, self.chores.is_retried) = (true, false);
            }
            Work::Zeros { file, offset, total, .. } => {
                let offset = offset + ZEROS_BYTES.min(total - offset);
                self.chores.making = (offset < total).then_some((file, offset));
                if offset == total {
                    self.chores.is_refused = false;
                    self.chores.spares.push_back(file);
                }
            }
            Work::Footer { .. } => {}
            Work::Recycle { spare, .. } => {
                self.retry_space();
                self.chores.is_refused = false;
                self.chores.spares.extend(spare);
                self.segments.forget_tombs();
            }
            work => return self.rewritten(work, is_wanted),
        }
        Ok(())
    }

    /// The disk may have space again: what it refused is tried once more.
    pub fn retry_space(&mut self) {
        self.chores.is_retried = true;
        self.chores.is_rewrite_refused = false;
    }

    /// Whether no more should be kept than what makes room: the bound of the disk is near, or the
    /// disk is full.
    pub fn is_short(&self) -> bool {
        self.chores.is_short
    }

    /// What the log's files take.
    pub fn disk_bytes(&self) -> u64 {
        let spares = self.chores.spares.len() + usize::from(self.chores.making.is_some());
        let rewrite = self.chores.rewrite.as_ref().map_or(0, Rewrite::file_bytes);
        self.segments.file_bytes() + spares as u64 * self.segment_bytes() + rewrite
    }

    /// How many of its files have records, or are to get some.
    pub fn segments(&self) -> usize {
        self.segments.count()
    }

    /// What was written anew so that segments could be reclaimed.
    pub fn rewritten_bytes(&self) -> u64 {
        self.chores.rewritten_bytes
    }

    fn segment_bytes(&self) -> u64 {
        u64::from(self.settings.segment_bytes)
    }

    fn is_half_full(&self) -> bool {
        self.segments.active().end > self.settings.segment_bytes / 2
    }

    fn judge_space(&mut self) {
        let reserve = RESERVE_SEGMENTS * self.segment_bytes();
        let bytes_max = self.settings.disk_bytes_max.saturating_sub(reserve);
        let percent = if self.chores.is_short { ENOUGH_PERCENT } else { SHORT_PERCENT };
        let taken = self.segments.file_bytes();
        let is_near = u128::from(taken) * 100 > u128::from(bytes_max) * u128::from(percent);
        // What is left of the spares is for what makes room.
        self.chores.is_short = is_near || self.chores.is_refused;
    }

    /// A segment goes when nobody needs it and what made that so is safe.
    fn recycling(&mut self) -> Option<Work> {
        let rewrite = self.chores.rewrite.as_ref();
        let is_dead = |segment: &&Segment| {
            segment.is_sealed
                && segment.is_dead()
                && rewrite.is_none_or(|rewrite| !rewrite.has(segment.number))
        };
        let dead = self.segments.iter().find(is_dead)?;
        let (number, is_whole) = (dead.number, dead.file_bytes == self.segment_bytes());
        let known = Lsn::from_bits(self.next_lsn.bits() - 1);
        let died_at = *self.segments.get_mut(number)?.died_at.get_or_insert(known);
        if self.synced() < died_at {
            return None;
        }
        self.segments.remove(number);
        let is_footed = self.chores.footer.as_ref().is_some_and(|footer| footer.0 == number);
        if is_footed {
            self.chores.footer = None;
        }
        let is_kept = is_whole && self.chores.spares.len() < self.settings.spares;
        let spare = is_kept.then(|| self.chores.take_file());
        Some(Work::Recycle { segment: number, spare })
    }

    /// Behind the commit that sealed the segment.
    fn footing(&mut self) -> Option<Work> {
        if self.is_committing() {
            return None;
        }
        let (segment, offset, bytes) = self.chores.footer.take()?;
        Some(Work::Footer { segment, offset, bytes })
    }

    fn sparing(&mut self) -> Option<Work> {
        let total = self.settings.segment_bytes;
        if let Some((file, offset)) = self.chores.making {
            return Some(Work::Zeros { file, offset, total, is_refused: false });
        }
        let has_room = self.disk_bytes() + u64::from(total) <= self.settings.disk_bytes_max;
        // A segment that goes becomes a spare too: more than one are only made once another is
        // needed soon.
        let is_needed = self.chores.spares.is_empty() || self.is_half_full();
        let is_wanted = is_needed && self.chores.spares.len() < self.settings.spares;
        let may_ask = !self.chores.is_refused || self.chores.is_retried;
        if !is_wanted || !has_room || !may_ask {
            return None;
        }
        let file = self.chores.take_file();
        self.chores.making = Some((file, 0));
        Some(Work::Zeros { file, offset: 0, total, is_refused: false })
    }
}
