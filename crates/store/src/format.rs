//! What is in a segment, byte by byte. All numbers are big endian.
//!
//! ```text
//! 0      header      512 B   who the segment is
//! 512    seal        512 B   where its records end, once it gets no more
//! 2048   header      512 B   again, in case a sector goes bad
//! 4096   records             one behind the other
//!        footer              behind the last record of a sealed segment, or nothing
//! ```

pub(crate) mod footer;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod seal;

use std::fmt;

/// What a disk writes wholly or not at all.
pub(crate) const SECTOR: usize = 512;
/// Where the records begin.
pub(crate) const RECORDS_AT: u32 = 4096;

/// Drawn anew for each file and part of each checksum in it: what a recycled file held before has
/// another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt {
    bits: u64,
    /// The checksum over the salt, which all others go on from.
    crc: u32,
}

impl Salt {
    /// The salt of this value.
    pub(crate) fn new(bits: u64) -> Self {
        Self { bits, crc: crc32c::crc32c(&bits.to_be_bytes()) }
    }

    /// As it is stored.
    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    /// The checksum over the salt and two parts.
    #[inline]
    fn checksum(self, first: &[u8], second: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.crc, first), second)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Salt({:016x})", self.bits)
    }
}

#[cfg(test)]
mod tests;
