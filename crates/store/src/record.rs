//! What the log takes and tells.

use crate::format::footer::Entry;
use crate::format::frame::{Frame, SINCE_BYTES};
use crate::{Lsn, SegmentNumber};

/// A kind of record, from 1 to 127. What it means is the caller's.
pub type Kind = u8;

/// The kind of the record that ends a commit for good; nobody is told of it.
pub(crate) const CLOSING: Kind = 0;

/// What a record says, in two parts. A start may read only the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body<'a> {
    /// What a start needs to know.
    pub head: &'a [u8],
    /// What is read when it is wanted.
    pub tail: &'a [u8],
}

/// What was acknowledged is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment {segment} is damaged at byte {offset}")]
pub struct Damage {
    /// In which segment.
    pub segment: SegmentNumber,
    /// Where in it.
    pub offset: u32,
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// Its kind.
    pub kind: Kind,
    /// For a tombstone, where what it stands for begins.
    pub since: Option<Lsn>,
    /// What it says.
    pub body: Body<'a>,
    /// Whether the tail was read.
    pub has_tail: bool,
    /// What it takes on the disk.
    pub bytes: u32,
    /// In which segment it is.
    pub segment: SegmentNumber,
    /// Where in it.
    pub offset: u32,
}

impl<'a> Record<'a> {
    /// The record of this frame, which is there in a segment.
    pub(crate) fn of(frame: &Frame<'a>, segment: SegmentNumber, offset: u32) -> Self {
        let &Frame { lsn, kind, is_tomb, head, tail, .. } = frame;
        let (since, head) = since_and_head(is_tomb, head);
        let (body, bytes) = (Body { head, tail }, frame.bytes() as u32);
        Self { lsn, kind, since, body, has_tail: true, bytes, segment, offset }
    }

    /// The record of this entry of a segment's footer.
    pub(crate) fn of_entry(entry: &Entry<'a>, segment: SegmentNumber) -> Self {
        let &Entry { lsn, kind, is_tomb, head, bytes, offset } = entry;
        let (since, head) = since_and_head(is_tomb, head);
        let (body, bytes) = (Body { head, tail: &[] }, bytes as u32);
        Self { lsn, kind, since, body, has_tail: false, bytes, segment, offset }
    }
}

/// What a tombstone stands for is in front of its head.
fn since_and_head(is_tomb: bool, head: &[u8]) -> (Option<Lsn>, &[u8]) {
    match head.split_first_chunk::<SINCE_BYTES>() {
        Some((since, rest)) if is_tomb => (Some(Lsn::from_bits(u64::from_be_bytes(*since))), rest),
        _ => (None, head),
    }
}
