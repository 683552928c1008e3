//! The one pass over a payload: checks the grammar and writes the entries.

use super::{Entry, Kind, PAYLOAD_DEPTH_MAX};
use crate::Fault;

/// Every byte of a word set to 1.
const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;
const WORD: usize = size_of::<u64>();

pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    entries: &'a mut Vec<Entry>,
    at: usize,
    /// Places of the entries of the open containers, outermost first.
    open: [u32; PAYLOAD_DEPTH_MAX],
    depth: usize,
    /// Whether the innermost open container is an object; of those around it `entries` knows.
    in_object: bool,
}

impl<'a> Scanner<'a> {
    /// Of a payload within its bound, so that places fit 32 bits, and of valid UTF-8.
    pub(super) fn new(bytes: &'a [u8], entries: &'a mut Vec<Entry>) -> Self {
        Self { bytes, entries, at: 0, open: [0; PAYLOAD_DEPTH_MAX], depth: 0, in_object: false }
    }

    /// Reads the one value and nothing after it.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        loop {
            if self.value()? {
                continue;
            }
            // After a value: close what closes here, then the next value or the end.
            loop {
                let byte = self.token();
                if self.depth == 0 {
                    return if self.at == self.bytes.len() { Ok(()) } else { Err(Fault::NotJson) };
                }
                self.at += 1;
                match byte {
                    b',' if self.in_object => {
                        self.key()?;
                        break;
                    }
                    b',' => break,
                    b'}' if self.in_object => self.close(),
                    b']' if !self.in_object => self.close(),
                    _ => return Err(Fault::NotJson),
                }
            }
        }
    }

    /// Reads a value; true where it opened a container and the first value in it comes next.
    #[inline]
    fn value(&mut self) -> Result<bool, Fault> {
        let byte = self.token();
        match byte {
            b'"' => self.text()?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            b'{' => {
                self.open(Kind::Object)?;
                if self.token() != b'}' {
                    self.key()?;
                    return Ok(true);
                }
                self.at += 1;
                self.close();
            }
            b'[' => {
                self.open(Kind::Array)?;
                if self.token() != b']' {
                    return Ok(true);
                }
                self.at += 1;
                self.close();
            }
            b't' => self.word(b"true", Kind::True)?,
            b'f' => self.word(b"false", Kind::False)?,
            b'n' => self.word(b"null", Kind::Null)?,
            _ => return Err(Fault::NotJson),
        }
        Ok(false)
    }

    /// Reads a key and its colon.
    #[inline]
    fn key(&mut self) -> Result<(), Fault> {
        if self.token() != b'"' {
            return Err(Fault::NotJson);
        }
        self.text()?;
        if self.token() != b':' {
            return Err(Fault::NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, kind: Kind) -> Result<(), Fault> {
        let place = self.entries.len() as u32;
        *self.open.get_mut(self.depth).ok_or(Fault::TooDeep)? = place;
        self.depth += 1;
        self.in_object = kind == Kind::Object;
        self.push(kind, self.at, self.at);
        self.at += 1;
        Ok(())
    }

    /// Closes the innermost container, whose last byte is the one before this.
    fn close(&mut self) {
        let next = self.entries.len() as u32;
        self.depth -= 1;
        if let Some(entry) = self.entries.get_mut(self.open[self.depth] as usize) {
            entry.end = self.at as u32;
            entry.next = next;
        }
        if let Some(outer) = self.depth.checked_sub(1) {
            let outer = self.entries.get(self.open[outer] as usize);
            self.in_object = outer.is_some_and(|entry| entry.kind == Kind::Object);
        }
    }

    #[inline]
    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.entries.len() as u32 + 1;
        self.entries.push(Entry { kind, start: start as u32, end: end as u32, next });
    }

    #[inline]
    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), Fault> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word) {
            return Err(Fault::NotJson);
        }
        self.push(kind, self.at, end);
        self.at = end;
        Ok(())
    }

    #[inline]
    fn text(&mut self) -> Result<(), Fault> {
        self.at += 1;
        let start = self.at;
        let mut kind = Kind::Text;
        loop {
            let word = self.eight();
            let stops = matches(word, b'"') | matches(word, b'\\') | below_space(word);
            if stops == 0 {
                self.at += WORD;
                continue;
            }
            self.at += (stops.trailing_zeros() / 8) as usize;
            match self.here() {
                b'"' => {
                    self.push(kind, start, self.at);
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                _ => return Err(Fault::NotJson),
            }
        }
    }

    #[cold]
    fn escape(&mut self) -> Result<(), Fault> {
        let rest = self.bytes.get(self.at + 1..).unwrap_or(&[]);
        let length = super::text::escape(rest).ok_or(Fault::NotJson)?.1;
        self.at += 1 + length;
        Ok(())
    }

    #[inline]
    fn number(&mut self, first: u8) -> Result<(), Fault> {
        let start = self.at;
        if first == b'-' {
            self.at += 1;
        }
        let zero = self.here() == b'0';
        let digits = self.digits()?;
        if zero && digits > 1 {
            return Err(Fault::NotJson);
        }
        let mut kind = Kind::Whole;
        if self.here() == b'.' {
            self.at += 1;
            self.digits()?;
            kind = Kind::Fraction;
        }
        if self.here() | 0x20 == b'e' {
            self.at += 1;
            if matches!(self.here(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
            kind = Kind::Fraction;
        }
        self.push(kind, start, self.at);
        Ok(())
    }

    /// Passes at least one digit; returns how many there were.
    #[inline]
    fn digits(&mut self) -> Result<usize, Fault> {
        let start = self.at;
        while self.here().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(Fault::NotJson) } else { Ok(self.at - start) }
    }

    /// The byte here, 0 at the end: a 0 is allowed nowhere, so that the end needs no case of its own.
    #[inline]
    fn here(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// The first byte here that is no white space.
    #[inline]
    fn token(&mut self) -> u8 {
        loop {
            let byte = self.here();
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
            self.at += 1;
        }
    }

    /// The eight bytes here, the first lowest; at the end filled up with zeros.
    #[inline]
    #[expect(clippy::little_endian_bytes, reason = "the first byte must be the lowest one")]
    fn eight(&self) -> u64 {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        match rest.first_chunk::<WORD>() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; WORD];
                for (to, from) in word.iter_mut().zip(rest) {
                    *to = *from;
                }
                u64::from_le_bytes(word)
            }
        }
    }
}

/// The high bit of each byte that equals this one; above the first such byte others may be set.
#[inline]
fn matches(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs & HIGHS
}

/// The high bit of each byte under 0x20; above the first such byte others may be set.
#[inline]
fn below_space(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}
