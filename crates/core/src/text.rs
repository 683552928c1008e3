//! A text that is short nearly always: client identifiers, topic filters.

use std::ops::Deref;

/// Bytes that need no memory of their own.
const INLINE_BYTES: usize = 22;

/// Immutable UTF-8 of 24 bytes, with memory of its own only over [`INLINE_BYTES`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// The bytes beyond the length are zero.
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<str>),
}

impl Text {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Repr::Heap(text) => text.as_bytes(),
        }
    }
}

impl Deref for Text {
    type Target = str;

    /// Checks an inline text again, which costs a little: what every message does is better done
    /// with the bytes.
    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Inline(..) => {
                std::str::from_utf8(self.as_bytes()).expect("it was made of a text")
            }
            Repr::Heap(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if text.len() > INLINE_BYTES {
            return Self(Repr::Heap(text.into()));
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(Repr::Inline(text.len() as u8, bytes))
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_comes_back_and_a_short_one_has_no_memory_of_its_own() {
        assert_eq!(size_of::<Text>(), 24);
        for length in 0..100 {
            let text = "é".repeat(length / 2) + &"x".repeat(length % 2);
            let kept = Text::from(&*text);
            assert_eq!((&*kept, kept.as_bytes()), (&*text, text.as_bytes()));
            assert_eq!(matches!(kept.0, Repr::Inline(..)), length <= INLINE_BYTES);
        }
    }
}
