//! JSON read once into a flat index over the payload's own bytes: no tree, no copy of text.
//!
//! The whole text is checked (RFC 8259, UTF-8, no lone surrogate), so that what counts as JSON does
//! not depend on the fields that a condition names. Both ways to evaluate a condition start here.

mod scan;
pub(crate) mod text;

use crate::Fault;
use crate::number::Number;

/// What a payload may be long, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// How deep arrays and objects of a payload may stand in each other.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// What an entry of the index stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Followed by a key and a value for each member.
    Object,
    /// Followed by its elements.
    Array,
    /// Text or key without an escape.
    Text,
    /// Text or key with at least one escape.
    Escaped,
    /// A number without fraction or exponent.
    Whole,
    /// A number with a fraction or an exponent.
    Fraction,
    True,
    False,
    Null,
}

/// One value or key: where its bytes are, and which entry follows it and all that is in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// First byte; of text the first one within the quotes.
    pub(crate) start: u32,
    /// One past the last byte; of text the closing quote.
    pub(crate) end: u32,
    /// The entry after this one and its contents; of a key its tag.
    pub(crate) next: u32,
}

impl Entry {
    /// Whether a key may be one of the names whose marks these are.
    #[inline(always)]
    pub(crate) const fn may_be_of(&self, marks: u64) -> bool {
        marks & mark_of(self.next) != 0 || matches!(self.kind, Kind::Escaped)
    }
}

/// A name that members are looked for by, with what it is told by at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    text: String,
    tag: u32,
}

impl Name {
    #[expect(clippy::little_endian_bytes, reason = "as the scan makes it")]
    pub(crate) fn new(text: &str) -> Self {
        let mut first = [0; 4];
        for (to, from) in first.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self { text: text.to_owned(), tag: tag_of(u32::from_le_bytes(first), text.len()) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// One bit of 64: of names that differ most often another one.
    pub(crate) const fn mark(&self) -> u64 {
        mark_of(self.tag)
    }
}

/// The mark of a tag: its upper bits times a number that mixes them (Knuth's multiplicative hash).
#[inline(always)]
const fn mark_of(tag: u32) -> u64 {
    1 << (tag.wrapping_mul(0x9E37_79B1) >> 26)
}

/// The first bytes of a name, up to four, out of a word that may go on after its end.
#[inline(always)]
fn tag_of(word: u32, length: usize) -> u32 {
    if length >= 4 { word } else { word & !(u32::MAX << (8 * length)) }
}

/// The memory of an index, used for one payload after the other.
#[derive(Debug, Default)]
pub(crate) struct Index {
    entries: Vec<Entry>,
}

impl Index {
    /// Reads a payload.
    ///
    /// # Errors
    /// [`Fault::TooLarge`], [`Fault::TooDeep`], else [`Fault::NotJson`].
    pub(crate) fn read<'a>(&mut self, payload: &'a [u8]) -> Result<&'a str, Fault> {
        self.entries.clear();
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        let text = std::str::from_utf8(payload).map_err(|_| Fault::NotJson)?;
        scan::read(payload, &mut self.entries)?;
        Ok(text)
    }

    /// How many values and keys were read last.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What was read last, of the text that came back.
    pub(crate) fn json<'a>(&'a self, text: &'a str) -> Json<'a> {
        Json { text, entries: &self.entries }
    }
}

/// A payload that was read. Values are named by the place of their entry; the root is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a> {
    text: &'a str,
    entries: &'a [Entry],
}

impl<'a> Json<'a> {
    pub(crate) fn entry(&self, at: usize) -> Option<Entry> {
        self.entries.get(at).copied()
    }

    /// The bytes of a value as they came; of text without the quotes.
    pub(crate) fn raw(&self, entry: Entry) -> &'a str {
        self.text.get(entry.start as usize..entry.end as usize).unwrap_or("")
    }

    /// The value of a number; of anything else 0.
    pub(crate) fn number(&self, entry: Entry) -> Number {
        let raw = self.raw(entry);
        if entry.kind == Kind::Whole {
            if let Ok(value) = raw.parse() {
                return Number::Int(value);
            }
            if let Ok(value) = raw.parse::<u64>() {
                return Number::from(value);
            }
        }
        Number::Double(raw.parse().unwrap_or_default())
    }

    /// The bytes of a value as they came, text with its quotes.
    pub(crate) fn whole(&self, entry: Entry) -> &'a str {
        let (start, end) = (entry.start as usize, entry.end as usize);
        let quoted = matches!(entry.kind, Kind::Text | Kind::Escaped);
        let range = if quoted { start.saturating_sub(1)..end + 1 } else { start..end };
        self.text.get(range).unwrap_or("")
    }

    /// The members of an object as places of key and value; none of anything else.
    pub(crate) fn members(&self, at: usize) -> Members<'a> {
        let (at, end) = self.inside(at, Kind::Object);
        Members { entries: self.entries, at, end }
    }

    /// The places of an array's elements; none of anything else.
    pub(crate) fn elements(&self, at: usize) -> Elements<'a> {
        let (at, end) = self.inside(at, Kind::Array);
        Elements { entries: self.entries, at, end }
    }

    /// Whether a key is this name.
    #[inline]
    pub(crate) fn key_is(&self, key: Entry, name: &Name) -> bool {
        if key.kind == Kind::Escaped {
            return text::equal(self.raw(key), &name.text);
        }
        let length = (key.end - key.start) as usize;
        if key.next != name.tag || length != name.text.len() {
            return false;
        }
        length <= 4 || {
            let (start, end) = (key.start as usize, key.end as usize);
            self.text.as_bytes().get(start..end) == Some(name.text.as_bytes())
        }
    }

    /// The value of a member, the last one where a key is there twice.
    pub(crate) fn member(&self, at: usize, name: &Name) -> Option<usize> {
        let wanted = self.members(at).filter(|(key, _)| self.key_is(*key, name));
        wanted.last().map(|(_, value)| value)
    }

    fn inside(&self, at: usize, kind: Kind) -> (usize, usize) {
        match self.entry(at) {
            Some(entry) if entry.kind == kind => (at + 1, entry.next as usize),
            _ => (0, 0),
        }
    }
}

/// Iterator over the members of an object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    entries: &'a [Entry],
    at: usize,
    end: usize,
}

impl Iterator for Members<'_> {
    type Item = (Entry, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let key = *self.entries.get(self.at)?;
        let value = self.at + 1;
        self.at = self.entries.get(value)?.next as usize;
        Some((key, value))
    }
}

/// Iterator over the elements of an array.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    entries: &'a [Entry],
    at: usize,
    end: usize,
}

impl Iterator for Elements<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let element = self.at;
        self.at = self.entries.get(element)?.next as usize;
        Some(element)
    }
}

#[cfg(test)]
mod tests;
