//! The fields of the file, one behind the other. What a length says is never more than what is
//! there.

/// The file is not one of Mosquitto's, or not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {what}")]
pub struct Malformed {
    /// Where.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Bytes of the file that are still to be read, with their place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) const fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { offset: self.offset, what }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let ends = self.malformed("it ends inside a field");
        let (bytes, rest) = self.bytes.split_at_checked(count).ok_or(ends)?;
        self.bytes = rest;
        self.offset += count;
        Ok(bytes)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.offset += self.bytes.len();
        std::mem::take(&mut self.bytes)
    }

    /// So many bytes as a part of its own.
    pub(crate) fn part(&mut self, count: usize) -> Result<Self, Malformed> {
        let offset = self.offset;
        Ok(Self { bytes: self.bytes(count)?, offset })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let ends = self.malformed("it ends inside a field");
        self.bytes(N)?.try_into().map_err(|_| ends)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// As the machine had it.
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// As the machine had it.
    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn text(&mut self, count: u16) -> Result<&'a str, Malformed> {
        let not_text = self.malformed("a text that is not UTF-8");
        std::str::from_utf8(self.bytes(count.into())?).map_err(|_| not_text)
    }
}
