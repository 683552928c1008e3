//! From record to record through a part of a segment.

use crate::format::Salt;
use crate::format::frame::{self, Frame};

/// Bytes of a segment that begin with a record.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    /// Where in the segment they begin.
    base: u32,
    at: usize,
    salt: Salt,
    commit_align: u32,
}

/// What is at the place where a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing: the bytes are over.
    Whole,
    /// A record that would need so many bytes from there, if these are its first.
    Cut(usize),
    /// No record.
    Bad,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u32, salt: Salt, commit_align: u32) -> Self {
        Self { bytes, base, at: 0, salt, commit_align }
    }

    /// Where in the segment the next record is, which may be behind the bytes.
    pub(crate) fn offset(&self) -> u32 {
        self.base + self.at as u32
    }

    /// The bytes from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// Why there is no next record.
    pub(crate) fn ended(&self) -> Ended {
        match frame::length_at(self.rest()) {
            _ if self.rest().is_empty() => Ended::Whole,
            Some(length) if length > self.rest().len() => Ended::Cut(length),
            None if self.rest().len() < frame::FRAME_BYTES => Ended::Cut(frame::FRAME_BYTES),
            _ => Ended::Bad,
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    /// Where it is in the segment, and what it is.
    type Item = (u32, Frame<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let frame = Frame::decode(self.rest(), self.salt)?;
        let offset = self.offset();
        let mut end = offset + frame.bytes() as u32;
        if frame.is_last {
            end = end.next_multiple_of(self.commit_align);
        }
        self.at = (end - self.base) as usize;
        Some((offset, frame))
    }
}
