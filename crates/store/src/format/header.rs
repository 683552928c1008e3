//! The first sector of a segment.

use super::{RECORDS_AT, SECTOR, Salt};
use crate::bytes::Reader;
use crate::{CommitNumber, Lsn, SegmentNumber};

pub(crate) const HEADER_AT: u64 = 0;
pub(crate) const COPY_AT: u64 = 2048;
/// The format that this program writes, and the only one it reads.
pub(crate) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"WEIRLOG\n";
/// Its commits were each synced before the next was written.
const SYNCED: u16 = 1;

/// Who a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The shard whose log it is.
    pub(crate) shard: u16,
    /// Whether each of its commits was synced before the next was written. If not, what a power
    /// cut leaves of the last ones has holes.
    pub(crate) is_synced: bool,
    pub(crate) number: SegmentNumber,
    /// The last of the segments that it was merged from; its own number if it is but one.
    pub(crate) covers: SegmentNumber,
    pub(crate) salt: Salt,
    /// No record in it is lower.
    pub(crate) first_lsn: Lsn,
    /// No commit in it is lower.
    pub(crate) first_commit: CommitNumber,
    /// Times that it was written anew.
    pub(crate) generation: u32,
    /// Commits begin at multiples of it.
    pub(crate) commit_align: u32,
    /// Whose log it is beside the shard: a number of the store's.
    pub(crate) store: u64,
    /// How long its file was made. No crash makes it shorter.
    pub(crate) file_bytes: u32,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// These are not the bytes of one.
    Bad,
    /// It is one of a later version of the program.
    Newer(u32),
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = Vec::with_capacity(SECTOR);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.shard.to_be_bytes());
        let flags = if self.is_synced { SYNCED } else { 0 };
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&self.generation.to_be_bytes());
        bytes.extend_from_slice(&self.number.0.to_be_bytes());
        bytes.extend_from_slice(&self.covers.0.to_be_bytes());
        bytes.extend_from_slice(&self.salt.bits().to_be_bytes());
        bytes.extend_from_slice(&self.first_lsn.bits().to_be_bytes());
        bytes.extend_from_slice(&self.first_commit.0.to_be_bytes());
        bytes.extend_from_slice(&self.commit_align.to_be_bytes());
        bytes.extend_from_slice(&self.store.to_be_bytes());
        bytes.extend_from_slice(&self.file_bytes.to_be_bytes());
        sector(&bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NoHeader> {
        let mut reader = checked(bytes, MAGIC).ok_or(NoHeader::Bad)?;
        match reader.u32() {
            Some(VERSION) => {}
            Some(version) => return Err(NoHeader::Newer(version)),
            None => return Err(NoHeader::Bad),
        }
        reader.u32();
        Self::fields(reader).ok_or(NoHeader::Bad)
    }

    fn fields(mut reader: Reader<'_>) -> Option<Self> {
        let shard = reader.u16()?;
        let flags = reader.u16()?;
        let header = Self {
            shard,
            is_synced: flags & SYNCED != 0,
            generation: reader.u32()?,
            number: SegmentNumber(reader.u64()?),
            covers: SegmentNumber(reader.u64()?),
            salt: Salt::new(reader.u64()?),
            first_lsn: Lsn::from_bits(reader.u64()?),
            first_commit: CommitNumber(reader.u64()?),
            commit_align: reader.u32()?,
            store: reader.u64()?,
            file_bytes: reader.u32()?,
        };
        let is_sound = flags & !SYNCED == 0
            && header.covers >= header.number
            && header.commit_align.is_power_of_two()
            && header.commit_align <= RECORDS_AT;
        is_sound.then_some(header)
    }
}

/// Where the checksum of a sector is, in every version: behind the magic and four more bytes.
const CRC_AT: usize = 12;

/// A sector of these bytes, with its checksum.
pub(super) fn sector(bytes: &[u8]) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    sector[..bytes.len()].copy_from_slice(bytes);
    let crc = checksum(&sector);
    sector[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    sector
}

/// What is behind the magic of a sector, if the checksum is right.
pub(super) fn checked<'a>(bytes: &'a [u8], magic: &[u8; 8]) -> Option<Reader<'a>> {
    let sector = bytes.get(..SECTOR)?;
    let mut reader = Reader(sector);
    let is_ours = reader.take(magic.len())? == magic;
    let crc = Reader(&sector[CRC_AT..]).u32()?;
    (is_ours && crc == checksum(sector)).then_some(reader)
}

fn checksum(sector: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&sector[..CRC_AT]), &sector[CRC_AT + 4..])
}
