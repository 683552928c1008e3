//! What follows the last record of a sealed segment: all its records without their tails, so that
//! a start need not read the tails. It is a shortcut: without one the records are read.
//!
//! ```text
//! 0   8 B  magic
//! 8   u32  CRC32C over the segment's salt, the length and the entries
//! 12  u32  length of the entries
//! 16       entries: LSN less that of the record before (varint), bytes between the two (varint),
//!          length of the record (varint), kind with bit 7 for a tombstone (u8), head (varint
//!          length, bytes)
//! ```

use super::frame::{FRAME_BYTES, Frame};
use super::{RECORDS_AT, Salt};
use crate::Lsn;
use crate::bytes::{Reader, put_prefixed, put_varint};

const MAGIC: &[u8; 8] = b"WEIRFOOT";
/// In front of the entries.
pub(crate) const FOOTER_FIXED: usize = 16;
const TOMB: u8 = 1 << 7;

/// The footer of a segment that is being written.
#[derive(Debug, Default)]
pub(crate) struct Footer {
    entries: Vec<u8>,
    last: Lsn,
    /// Behind the last record.
    end: u32,
    /// It has become too long to be of use.
    is_given_up: bool,
}

impl Footer {
    /// The record is in the segment. A footer that would be longer than `bytes_max` is given up.
    #[inline]
    pub(crate) fn push(&mut self, frame: &Frame<'_>, offset: u32, bytes_max: usize) {
        if self.is_given_up {
            return;
        }
        put_varint(&mut self.entries, frame.lsn.bits() - self.last.bits());
        let gap = offset - self.end.max(RECORDS_AT);
        put_varint(&mut self.entries, u64::from(gap));
        put_varint(&mut self.entries, frame.bytes() as u64);
        self.entries.push(frame.kind | if frame.is_tomb { TOMB } else { 0 });
        put_prefixed(&mut self.entries, frame.head);
        self.last = frame.lsn;
        self.end = offset + frame.bytes() as u32;
        if self.entries.len() > bytes_max {
            *self = Self { is_given_up: true, ..Self::default() };
        }
    }

    /// What its entries take so far.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of it, unless it was given up.
    pub(crate) fn encode(&self, salt: Salt) -> Option<Vec<u8>> {
        if self.is_given_up {
            return None;
        }
        let mut bytes = Vec::with_capacity(FOOTER_FIXED + self.entries.len());
        bytes.extend_from_slice(MAGIC);
        let length = (self.entries.len() as u32).to_be_bytes();
        bytes.extend_from_slice(&salt.checksum(&length, &self.entries).to_be_bytes());
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&self.entries);
        Some(bytes)
    }
}

/// A record as a footer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) kind: u8,
    pub(crate) is_tomb: bool,
    pub(crate) head: &'a [u8],
    /// Where the record is.
    pub(crate) offset: u32,
    /// How much of the segment it takes.
    pub(crate) bytes: usize,
}

/// How long the entries are, if a footer begins here.
pub(crate) fn length(fixed: &[u8]) -> Option<usize> {
    let mut reader = Reader(fixed);
    if reader.take(MAGIC.len())? != MAGIC {
        return None;
    }
    reader.u32()?;
    Some(reader.u32()? as usize)
}

/// The entries of a footer, if its checksum is right.
pub(crate) fn decode(bytes: &[u8], salt: Salt) -> Option<Vec<Entry<'_>>> {
    let entries = bytes.get(FOOTER_FIXED..FOOTER_FIXED + length(bytes)?)?;
    let crc = Reader(&bytes[8..]).u32()?;
    if crc != salt.checksum(&bytes[12..FOOTER_FIXED], entries) {
        return None;
    }
    let mut reader = Reader(entries);
    let mut all = Vec::new();
    let (mut last, mut end) = (Lsn::ZERO, RECORDS_AT);
    while !reader.0.is_empty() {
        last = Lsn::from_bits(last.bits().checked_add(reader.varint()?)?);
        let offset = end.checked_add(u32::try_from(reader.varint()?).ok()?)?;
        let length = u32::try_from(reader.varint()?).ok()?;
        end = offset.checked_add(length)?;
        let kind = reader.u8()?;
        let head = reader.prefixed()?;
        let bytes = length as usize;
        if bytes < FRAME_BYTES + head.len() {
            return None;
        }
        let (kind, is_tomb) = (kind & !TOMB, kind & TOMB != 0);
        all.push(Entry { lsn: last, kind, is_tomb, head, offset, bytes });
    }
    Some(all)
}
