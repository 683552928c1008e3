//! Records one behind the other, as they go from node to node: a kind, a length, a body. The first
//! has the number 1.

use super::codec::{Reader, put_bytes};
use super::{BadRecord, Record, Wall};
use crate::keys::Lsn;

#[derive(Debug)]
pub(crate) struct Writer {
    wall: Wall,
    bytes: Vec<u8>,
    body: Vec<u8>,
    count: u64,
}

impl Writer {
    /// It begins as a log does, with a base.
    pub(crate) fn new(wall: Wall) -> Self {
        let mut writer = Self { wall, bytes: Vec::new(), body: Vec::new(), count: 0 };
        writer.add(&Record::Base);
        writer
    }

    pub(crate) fn add(&mut self, record: &Record<'_>) -> Lsn {
        self.body.clear();
        record.encode(self.wall, &mut self.body);
        self.bytes.push(record.kind());
        put_bytes(&mut self.bytes, &self.body);
        self.count += 1;
        Lsn(self.count)
    }

    pub(crate) fn finish(self) -> Box<[u8]> {
        self.bytes.into()
    }
}

/// Each with its number.
pub(crate) fn read(
    bytes: &[u8],
    wall: Wall,
) -> impl Iterator<Item = Result<(Lsn, Record<'_>), BadRecord>> {
    let (mut reader, mut count) = (Reader::new(bytes), 0);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        count += 1;
        let mut next = || {
            let (kind, body) = (reader.byte()?, reader.bytes()?);
            Ok((Lsn(count), Record::decode(kind, body, wall)?))
        };
        let read = next();
        if read.is_err() {
            reader.rest();
        }
        Some(read)
    })
}
