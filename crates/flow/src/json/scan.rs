//! The one pass over a payload: checks the grammar and writes the entries.

use super::{Entry, Kind, PAYLOAD_DEPTH_MAX};
use crate::Fault;

/// Every byte of a word set to 1.
const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;
const WORD: usize = size_of::<u64>();

/// The entries being written, and the containers that are open.
struct Writer<'a> {
    entries: &'a mut Vec<Entry>,
    /// Places of the entries of the open containers, outermost first.
    open: [u32; PAYLOAD_DEPTH_MAX],
    depth: usize,
    /// Whether the innermost open container is an object; of those around it `entries` knows.
    in_object: bool,
}

/// A text that was passed.
struct Text {
    kind: Kind,
    /// The closing quote.
    end: usize,
    /// What [`super::tag`] makes of it.
    tag: u32,
}

/// Reads one value and nothing after it, of a payload within its bound and of valid UTF-8.
pub(super) fn read(bytes: &[u8], entries: &mut Vec<Entry>) -> Result<(), Fault> {
    let open = [0; PAYLOAD_DEPTH_MAX];
    let mut writer = Writer { entries, open, depth: 0, in_object: false };
    let mut at = 0;
    loop {
        let (byte, start) = token(bytes, at);
        at = match byte {
            b'"' => {
                let text = text(bytes, start + 1)?;
                writer.push(text.kind, start + 1, text.end);
                text.end + 1
            }
            b'-' | b'0'..=b'9' => {
                let (end, kind) = number(bytes, start, byte)?;
                writer.push(kind, start, end);
                end
            }
            b'{' => {
                writer.open(Kind::Object, start)?;
                let (byte, first) = token(bytes, start + 1);
                if byte != b'}' {
                    at = writer.key(bytes, byte, first)?;
                    continue;
                }
                writer.close(first + 1);
                first + 1
            }
            b'[' => {
                writer.open(Kind::Array, start)?;
                let (byte, first) = token(bytes, start + 1);
                if byte != b']' {
                    at = first;
                    continue;
                }
                writer.close(first + 1);
                first + 1
            }
            b't' => writer.word(bytes, start, b"true", Kind::True)?,
            b'f' => writer.word(bytes, start, b"false", Kind::False)?,
            b'n' => writer.word(bytes, start, b"null", Kind::Null)?,
            _ => return Err(Fault::NotJson),
        };
        // After a value: close what closes here, then the next value or the end.
        loop {
            let (byte, here) = token(bytes, at);
            if writer.depth == 0 {
                return if here == bytes.len() { Ok(()) } else { Err(Fault::NotJson) };
            }
            at = here + 1;
            match (byte, writer.in_object) {
                (b',', true) => {
                    let (byte, here) = token(bytes, at);
                    at = writer.key(bytes, byte, here)?;
                    break;
                }
                (b',', false) => break,
                (b'}', true) | (b']', false) => writer.close(at),
                _ => return Err(Fault::NotJson),
            }
        }
    }
}

impl Writer<'_> {
    #[inline]
    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.entries.len() as u32 + 1;
        self.entries.push(Entry { kind, start: start as u32, end: end as u32, next });
    }

    /// Passes a key that begins here, and its colon.
    #[inline(always)]
    fn key(&mut self, bytes: &[u8], byte: u8, at: usize) -> Result<usize, Fault> {
        if byte != b'"' {
            return Err(Fault::NotJson);
        }
        let Text { kind, end, tag } = text(bytes, at + 1)?;
        self.entries.push(Entry { kind, start: at as u32 + 1, end: end as u32, next: tag });
        match token(bytes, end + 1) {
            (b':', colon) => Ok(colon + 1),
            _ => Err(Fault::NotJson),
        }
    }

    #[inline]
    fn open(&mut self, kind: Kind, at: usize) -> Result<(), Fault> {
        let place = self.entries.len() as u32;
        *self.open.get_mut(self.depth).ok_or(Fault::TooDeep)? = place;
        self.depth += 1;
        self.in_object = kind == Kind::Object;
        self.push(kind, at, at);
        Ok(())
    }

    /// Closes the innermost container, which ends before this byte.
    #[inline]
    fn close(&mut self, end: usize) {
        let next = self.entries.len() as u32;
        self.depth -= 1;
        if let Some(entry) = self.entries.get_mut(self.open[self.depth] as usize) {
            entry.end = end as u32;
            entry.next = next;
        }
        if let Some(outer) = self.depth.checked_sub(1) {
            let outer = self.entries.get(self.open[outer] as usize);
            self.in_object = outer.is_some_and(|entry| entry.kind == Kind::Object);
        }
    }

    fn word(&mut self, bytes: &[u8], at: usize, word: &[u8], kind: Kind) -> Result<usize, Fault> {
        let end = at + word.len();
        if bytes.get(at..end) != Some(word) {
            return Err(Fault::NotJson);
        }
        self.push(kind, at, end);
        Ok(end)
    }
}

/// The byte here, 0 at the end: a 0 is allowed nowhere, so that the end needs no case of its own.
#[inline(always)]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The first byte from here on that is no white space, and its place.
#[inline(always)]
fn token(bytes: &[u8], at: usize) -> (u8, usize) {
    let first = byte(bytes, at);
    if first > b' ' { (first, at) } else { token_after_space(bytes, at) }
}

fn token_after_space(bytes: &[u8], mut at: usize) -> (u8, usize) {
    loop {
        let found = byte(bytes, at);
        if !matches!(found, b' ' | b'\n' | b'\r' | b'\t') {
            return (found, at);
        }
        at += 1;
    }
}

/// Passes text from the byte after its opening quote.
#[inline(always)]
fn text(bytes: &[u8], start: usize) -> Result<Text, Fault> {
    let first = eight(bytes, start);
    let stops = stops(first);
    let length = (stops.trailing_zeros() / 8) as usize;
    // Most texts end within the first word.
    if stops != 0 && byte(bytes, start + length) == b'"' {
        let tag = super::tag_of(first as u32, length);
        return Ok(Text { kind: Kind::Text, end: start + length, tag });
    }
    let (kind, end) = long_text(bytes, start)?;
    Ok(Text { kind, end, tag: super::tag_of(first as u32, end - start) })
}

fn long_text(bytes: &[u8], mut at: usize) -> Result<(Kind, usize), Fault> {
    let mut kind = Kind::Text;
    loop {
        let stops = stops(eight(bytes, at));
        if stops == 0 {
            at += WORD;
            continue;
        }
        at += (stops.trailing_zeros() / 8) as usize;
        match byte(bytes, at) {
            b'"' => return Ok((kind, at)),
            b'\\' => {
                kind = Kind::Escaped;
                let rest = bytes.get(at + 1..).unwrap_or(&[]);
                at += 1 + super::text::escape(rest).ok_or(Fault::NotJson)?.1;
            }
            _ => return Err(Fault::NotJson),
        }
    }
}

/// Passes a number; returns its end.
#[inline]
fn number(bytes: &[u8], start: usize, first: u8) -> Result<(usize, Kind), Fault> {
    let digits_start = start + usize::from(first == b'-');
    let mut at = digits(bytes, digits_start)?;
    if byte(bytes, digits_start) == b'0' && at > digits_start + 1 {
        return Err(Fault::NotJson);
    }
    let mut kind = Kind::Whole;
    if byte(bytes, at) == b'.' {
        at = digits(bytes, at + 1)?;
        kind = Kind::Fraction;
    }
    if byte(bytes, at) | 0x20 == b'e' {
        at += 1;
        at += usize::from(matches!(byte(bytes, at), b'+' | b'-'));
        at = digits(bytes, at)?;
        kind = Kind::Fraction;
    }
    Ok((at, kind))
}

/// Passes at least one digit; returns the place after the last one.
#[inline(always)]
fn digits(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    loop {
        // A byte is no digit where its upper half is not 3, or 6 more carries into it.
        let word = eight(bytes, at) ^ (ONES * 0x30);
        let others = (word | (word & (ONES * 0x7F)).wrapping_add(ONES * 0x76)) & HIGHS;
        let length = (others.trailing_zeros() / 8) as usize;
        at += length;
        if length < WORD {
            return if at == start { Err(Fault::NotJson) } else { Ok(at) };
        }
    }
}

/// The eight bytes here, the first lowest; at the end filled up with zeros.
#[inline(always)]
#[expect(clippy::little_endian_bytes, reason = "the first byte must be the lowest one")]
fn eight(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    match rest.first_chunk::<WORD>() {
        Some(word) => u64::from_le_bytes(*word),
        None => last(rest),
    }
}

#[cold]
fn last(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The high bit of each byte that is a quote, a backslash or a control character; above the first
/// such byte others may be set.
#[inline(always)]
fn stops(word: u64) -> u64 {
    let equal = |byte: u8| {
        let differs = word ^ (ONES * u64::from(byte));
        differs.wrapping_sub(ONES) & !differs
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (equal(b'"') | equal(b'\\') | control) & HIGHS
}
