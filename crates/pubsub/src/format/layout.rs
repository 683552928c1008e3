//! How wide a field of a format is printed: `%[-][0][WIDTH][.MOST]x`, as printf has it.

use std::io::{self, Write};
use std::iter::Peekable;
use std::str::Bytes;

/// Wider than this is a slip of the finger.
const WIDTH_MAX: usize = 10_000;

/// Widths are of bytes, as mosquitto_sub's are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The padding comes behind.
    is_left: bool,
    /// The padding of what may have it is of zeros.
    has_zeros: bool,
    width: usize,
    /// What is longer is cut.
    most: Option<usize>,
}

impl Layout {
    /// Reads what stands between the `%` and the name of the field.
    pub(super) fn read(bytes: &mut Peekable<Bytes<'_>>) -> Result<Self, String> {
        let is_left = bytes.next_if_eq(&b'-').is_some();
        let has_zeros = bytes.next_if_eq(&b'0').is_some();
        let width = number(bytes)?;
        let most = match bytes.next_if_eq(&b'.') {
            Some(_) => Some(number(bytes)?),
            None => None,
        };
        Ok(Self { is_left, has_zeros, width, most })
    }

    /// Whether a text is printed as it is.
    pub(super) fn is_plain(self) -> bool {
        self.width == 0 && self.most.is_none()
    }

    /// The same for what is never cut.
    pub(super) fn uncut(self) -> Self {
        Self { most: None, ..self }
    }

    /// Prints a text, whose padding may be of zeros with `takes_zeros`. Only as much as is whole
    /// characters is left of what is cut, unless it is no text at all.
    pub(super) fn print(
        self,
        text: &[u8],
        takes_zeros: bool,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let text = match (self.most, std::str::from_utf8(text)) {
            (Some(most), Ok(text)) => &text.as_bytes()[..text.floor_char_boundary(most)],
            (Some(most), Err(_)) => &text[..most.min(text.len())],
            (None, _) => text,
        };
        let pad: &[u8] = if takes_zeros && self.has_zeros && !self.is_left { b"0" } else { b" " };
        let padding = self.width.saturating_sub(text.len());
        if self.is_left {
            out.write_all(text)?;
        }
        (0..padding).try_for_each(|_| out.write_all(pad))?;
        if self.is_left { Ok(()) } else { out.write_all(text) }
    }
}

fn number(bytes: &mut Peekable<Bytes<'_>>) -> Result<usize, String> {
    let mut number = 0_usize;
    while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
        number = 10 * number + usize::from(digit - b'0');
        if number > WIDTH_MAX {
            return Err(format!("a width may be up to {WIDTH_MAX}"));
        }
    }
    Ok(number)
}
