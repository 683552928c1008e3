//! The last segment is written anew, and so is what was salvaged of a damaged one.

use super::content::resume;
use super::{Content, Opener};
use crate::chore::Replacement;
use crate::disk::{Disk, FileName};
use crate::format::frame;
use crate::format::header::Header;
use crate::format::{RECORDS_AT, Salt};
use crate::log::NotOpened;
use crate::record::Record;
use crate::segments::Segment;
use crate::walk::Walk;

/// The name of the copy: no other unfinished file has it.
pub(super) const ANEW: u64 = 0;

impl<D: Disk, T: FnMut(&Record<'_>)> Opener<'_, D, T> {
    /// A sync that failed before the start may have left bytes that can be read and are not on the
    /// disk. Only the last segment can have such bytes: it is copied, synced, and gets its name.
    pub(super) fn write_anew(
        &mut self,
        header: &Header,
        content: &mut Content,
    ) -> Result<(), NotOpened> {
        let salt = Salt::new(self.chance.bits());
        let generation = header.generation + 1;
        let mut header = Header { salt, generation, commit_align: 1, is_synced: true, ..*header };
        let (records, mut anew) = copy(content, &header);
        header.file_bytes = anew.end.next_multiple_of(RECORDS_AT);
        anew.file_bytes = header.file_bytes.into();
        anew.is_sealed = true;
        anew.last_lsn = content.segment.last_lsn;
        anew.last_commit = content.segment.last_commit;
        anew.found_tombs = std::mem::take(&mut content.segment.found_tombs);
        let file = FileName::Unfinished(ANEW);
        self.disk.create(file, anew.file_bytes)?;
        self.disk.write_at(file, RECORDS_AT.into(), &records)?;
        Replacement {
            file: ANEW,
            number: header.number,
            header: header.encode(),
            seal: anew.seal().encode(salt),
            footer: None,
            covered: Vec::new(),
        }
        .perform(self.disk)?;
        content.segment = anew;
        Ok(())
    }
}

/// The records of a segment, one behind the other, as they are in one of this header.
fn copy(Content { bytes, segment }: &Content, header: &Header) -> (Vec<u8>, Segment) {
    let mut anew = Segment::new(header, 0);
    let mut records = Vec::with_capacity(bytes.len());
    let mut from = Some(RECORDS_AT);
    while let Some(at) = from {
        let rest = bytes.get(at as usize..).unwrap_or(&[]);
        let mut walk = Walk::new(rest, at, segment.salt, segment.commit_align);
        for (offset, frame) in walk.by_ref() {
            let (offset, length) = (offset as usize, frame.bytes());
            let copied = records.len();
            records.extend_from_slice(&bytes[offset..offset + length]);
            frame::seal(&mut records[copied..], header.salt);
            anew.push(frame.lsn, RECORDS_AT + copied as u32, length);
        }
        from = resume(bytes, walk.offset(), segment.salt, anew.last_lsn, None);
    }
    (records, anew)
}
