//! A record as it lies in a segment: 28 bytes in front of its body.
//!
//! ```text
//! 0   u32  length of all of it
//! 4   u32  CRC32C over the segment's salt, the length, and all that follows
//! 8   u64  LSN
//! 16  u64  commit; bit 63: the last record of its commit, bit 62: a tombstone
//! 24  u8   kind
//! 25  u24  length of the head
//! 28       head, then tail
//! ```

use super::Salt;
use crate::bytes::Reader;
use crate::{CommitNumber, Lsn};

/// What a record has in front of its body.
pub(crate) const FRAME_BYTES: usize = 28;
/// What it begins with: its length.
pub(crate) const LENGTH_BYTES: usize = 4;
/// What a tombstone's head begins with: since when.
pub(crate) const SINCE_BYTES: usize = 8;
/// The longest head.
pub(crate) const HEAD_BYTES_MAX: usize = (1 << 24) - 1;

const KIND_AT: usize = 24;
const LAST: u64 = 1 << 63;
const TOMB: u64 = 1 << 62;

/// A record that was found in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) commit: CommitNumber,
    /// The last of its commit: only with it the commit is whole.
    pub(crate) is_last: bool,
    /// It stands for records that are gone.
    pub(crate) is_tomb: bool,
    pub(crate) kind: u8,
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Appends a record to `into`, without what [`assign`] and [`seal`] fill in. One that says
    /// since when is a tombstone.
    #[inline]
    pub(crate) fn put(
        into: &mut Vec<u8>,
        lsn: Lsn,
        kind: u8,
        since: Option<Lsn>,
        [head, tail]: [&[u8]; 2],
    ) {
        let since = since.map(|since| since.bits().to_be_bytes());
        let since = since.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let head_bytes = since.len() + head.len();
        let length = (FRAME_BYTES + head_bytes + tail.len()) as u32;
        let commit = if since.is_empty() { 0 } else { TOMB };
        let mut fixed = [0; FRAME_BYTES];
        fixed[..4].copy_from_slice(&length.to_be_bytes());
        fixed[8..16].copy_from_slice(&lsn.bits().to_be_bytes());
        fixed[16..24].copy_from_slice(&commit.to_be_bytes());
        fixed[24..28].copy_from_slice(&(head_bytes as u32).to_be_bytes());
        fixed[KIND_AT] = kind;
        into.extend_from_slice(&fixed);
        into.extend_from_slice(since);
        into.extend_from_slice(head);
        into.extend_from_slice(tail);
    }

    /// The record at the front of `bytes`, if there is one whose checksum is right.
    #[inline]
    pub(crate) fn decode(bytes: &'a [u8], salt: Salt) -> Option<Self> {
        let frame = bytes.get(..length_at(bytes)?)?;
        let crc = Reader(&frame[4..]).u32()?;
        (crc == salt.checksum(&frame[..4], &frame[8..])).then(|| Self::fields(frame))?
    }

    /// The record that is all of `frame`, whatever its checksum.
    #[inline]
    pub(crate) fn fields(frame: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(frame.get(8..)?);
        let lsn = Lsn::from_bits(reader.u64()?);
        let commit = reader.u64()?;
        let kind_and_head = reader.u32()?;
        let head = reader.take((kind_and_head & 0xff_ffff) as usize)?;
        Some(Self {
            lsn,
            commit: CommitNumber(commit & !(LAST | TOMB)),
            is_last: commit & LAST != 0,
            is_tomb: commit & TOMB != 0,
            kind: (kind_and_head >> 24) as u8,
            head,
            tail: reader.0,
        })
    }

    /// How much of the segment it takes.
    pub(crate) const fn bytes(&self) -> usize {
        FRAME_BYTES + self.head.len() + self.tail.len()
    }
}

/// How long the record at the front of `bytes` says that it is, if any can be so long.
#[inline]
pub(crate) fn length_at(bytes: &[u8]) -> Option<usize> {
    let length = Reader(bytes).u32()? as usize;
    (length >= FRAME_BYTES).then_some(length)
}

/// The kind of the record at the front of `bytes`, which is there.
#[inline]
pub(crate) fn kind_at(bytes: &[u8]) -> u8 {
    bytes[KIND_AT]
}

/// Says which commit the record that is all of `frame` belongs to.
#[inline]
pub(crate) fn assign(frame: &mut [u8], commit: CommitNumber, is_last: bool) {
    let is_tomb = Reader(&frame[16..]).u64().unwrap_or(0) & TOMB;
    let bits = commit.0 | is_tomb | if is_last { LAST } else { 0 };
    frame[16..24].copy_from_slice(&bits.to_be_bytes());
}

/// Fills in the checksum of the record that is all of `frame`.
#[inline]
pub(crate) fn seal(frame: &mut [u8], salt: Salt) {
    let crc = salt.checksum(&frame[..4], &frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_be_bytes());
}
