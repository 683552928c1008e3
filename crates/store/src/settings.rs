//! What a log is told when it is opened.

use crate::format::RECORDS_AT;
use crate::format::frame::FRAME_BYTES;
use crate::record::Kind;

/// Sizes and bounds of one shard's log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose log it is.
    pub shard: u16,
    /// A number of the store's, so that a file of another one is known.
    pub store: u64,
    /// The size of a segment's file.
    pub segment_bytes: u32,
    /// What one commit writes at most, unless a single group is longer.
    pub commit_bytes_max: u32,
    /// The bit of a kind that says that a record begins a group, of which a commit has all or
    /// nothing, unless it is longer than a segment. Without one, each record is a group.
    pub group_bit: Kind,
    /// What may wait for its commit. Beyond it [`Log::append`](crate::Log::append) refuses.
    pub pending_bytes_max: usize,
    /// Commits begin at multiples of it, a power of two. 1 is right for disks that leave what is
    /// not written alone when the power fails in the middle of a sector; others need its size.
    pub commit_align: u32,
    /// Whether each commit is synced before it counts.
    pub is_synced: bool,
    /// What the log's files may take, spares included.
    pub disk_bytes_max: u64,
    /// Where salts come from: another one for each start.
    pub seed: u64,
    /// Whether segments get footers. They are of use to a log whose records have long tails.
    pub has_footers: bool,
    /// Spares that are kept ready: with two, one is left for what makes room when the disk is full.
    pub spares: usize,
}

/// What a slice of a chore reads or writes.
pub(crate) const SLICE_BYTES: u32 = 256 << 10;
/// What of a segment its footer may take: one part of so many.
const FOOTER_PART: u32 = 8;
/// The smallest segment: what tests use.
const SEGMENT_BYTES_MIN: u32 = 2 * RECORDS_AT;

impl Default for Settings {
    fn default() -> Self {
        Self {
            shard: 0,
            store: 0,
            segment_bytes: 64 << 20,
            commit_bytes_max: 4 << 20,
            group_bit: 0,
            pending_bytes_max: 64 << 20,
            commit_align: 1,
            is_synced: true,
            disk_bytes_max: u64::MAX,
            seed: 0,
            has_footers: true,
            spares: 2,
        }
    }
}

impl Settings {
    /// The longest body of a record: one has to fit into a segment.
    pub const fn body_bytes_max(&self) -> usize {
        (self.segment_bytes - RECORDS_AT) as usize - FRAME_BYTES
    }

    pub(crate) const fn begins_group(&self, kind: Kind) -> bool {
        kind & self.group_bit == self.group_bit
    }

    pub(crate) const fn footer_bytes_max(&self) -> usize {
        if self.has_footers { (self.segment_bytes / FOOTER_PART) as usize } else { 0 }
    }

    /// Panics if the log cannot work with them: they are the program's, not the user's.
    pub(crate) fn check(&self) {
        assert!(
            (SEGMENT_BYTES_MIN..=1 << 30).contains(&self.segment_bytes)
                && self.segment_bytes.is_multiple_of(RECORDS_AT),
            "a segment has 8 KiB to 1 GiB, in blocks of 4 KiB"
        );
        let is_aligned = self.commit_align.is_power_of_two() && self.commit_align <= RECORDS_AT;
        assert!(is_aligned, "commits begin at multiples of a power of two up to 4,096");
        assert!(self.spares > 0, "a log without a spare would wait for its disk");
    }
}
