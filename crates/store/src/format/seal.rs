//! The second sector of a segment that gets no more records: what must be in it.

use super::header::{checked, sector};
use super::{SECTOR, Salt};
use crate::{CommitNumber, Lsn};

pub(crate) const SEAL_AT: u64 = SECTOR as u64;

const MAGIC: &[u8; 8] = b"WEIRSEAL";

/// Where a segment's records end. Less than this in a sealed segment is damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Behind the last record.
    pub(crate) end: u32,
    pub(crate) records: u32,
    /// No record in it is higher, nor was any that was left out when it was written anew.
    pub(crate) last_lsn: Lsn,
    pub(crate) last_commit: CommitNumber,
}

impl Seal {
    /// The salt keeps a recycled file's old seal from counting.
    pub(crate) fn encode(&self, salt: Salt) -> [u8; SECTOR] {
        let mut bytes = Vec::with_capacity(SECTOR);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&salt.bits().to_be_bytes());
        bytes.extend_from_slice(&self.end.to_be_bytes());
        bytes.extend_from_slice(&self.records.to_be_bytes());
        bytes.extend_from_slice(&self.last_lsn.bits().to_be_bytes());
        bytes.extend_from_slice(&self.last_commit.0.to_be_bytes());
        sector(&bytes)
    }

    pub(crate) fn decode(bytes: &[u8], salt: Salt) -> Option<Self> {
        let mut reader = checked(bytes, MAGIC)?;
        reader.u64()?;
        if reader.u64()? != salt.bits() {
            return None;
        }
        Some(Self {
            end: reader.u32()?,
            records: reader.u32()?,
            last_lsn: Lsn::from_bits(reader.u64()?),
            last_commit: CommitNumber(reader.u64()?),
        })
    }
}
