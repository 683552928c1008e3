//! The numbers that the log gives: to records, commits and segments.

use std::fmt;

/// The number of a record in its shard's log: the start of the broker that wrote it, and a count
/// within that start. A later record has a higher one, and none is ever given twice: what a crash
/// cut off cannot be taken for what came after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

const COUNT_BITS: u32 = 44;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

impl Lsn {
    /// Before every record.
    pub const ZERO: Self = Self(0);
    /// The highest number of starts of a log: a broker that starts each minute needs two years.
    pub const START_MAX: u32 = (1 << (u64::BITS - COUNT_BITS)) - 1;

    /// The record of this count within this start.
    pub fn new(start: u32, count: u64) -> Self {
        assert!(start <= Self::START_MAX && count <= COUNT_MAX, "numbers of records have run out");
        Self(u64::from(start) << COUNT_BITS | count)
    }

    /// What [`Lsn::bits`] gave.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// As it is stored.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Which start of the broker wrote it.
    pub const fn start(self) -> u32 {
        (self.0 >> COUNT_BITS) as u32
    }

    /// Its number within its start.
    pub const fn count(self) -> u64 {
        self.0 & COUNT_MAX
    }

    /// The record after it, of the same start. 2^44 last 200 days at a million per second.
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self.count() < COUNT_MAX, "numbers of records have run out");
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.start(), self.count())
    }
}

/// The number of a commit; it goes on from start to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitNumber(pub u64);

impl CommitNumber {
    /// The commit after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The number of a segment within its shard's log. Higher numbers have higher records, and none is
/// given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// The segment after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
