//! Text of JSON: its escapes read, compared and written.

/// Reads one escape after its backslash: the character, and the bytes it took.
///
/// None where it is no escape, or half of a surrogate pair.
pub(crate) fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let plain = match rest.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return wide(rest),
        _ => return None,
    };
    Some((plain, 1))
}

fn wide(rest: &[u8]) -> Option<(char, usize)> {
    let first = hex(rest.get(1..5)?)?;
    if !(0xD800..0xE000).contains(&first) {
        return Some((char::from_u32(first)?, 5));
    }
    if first >= 0xDC00 || rest.get(5..7)? != b"\\u" {
        return None;
    }
    let second = hex(rest.get(7..11)?)?;
    if !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    let both = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    Some((char::from_u32(both)?, 11))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(sum << 4 | digit)
    })
}

/// The characters of text as it stands between its quotes, which was checked before.
#[derive(Debug, Clone)]
pub(crate) struct Characters<'a> {
    rest: &'a str,
}

impl Iterator for Characters<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        let (found, length) = match first {
            '\\' => {
                let (found, length) = escape(self.rest.as_bytes().get(1..)?)?;
                (found, length + 1)
            }
            _ => (first, first.len_utf8()),
        };
        self.rest = self.rest.get(length..)?;
        Some(found)
    }
}

pub(crate) fn characters(raw: &str) -> Characters<'_> {
    Characters { rest: raw }
}

/// Whether text with escapes reads as this.
pub(crate) fn equal(raw: &str, wanted: &str) -> bool {
    characters(raw).eq(wanted.chars())
}

/// Appends text as JSON, with its quotes.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            control if u32::from(control) < 0x20 => {
                let code = u32::from(control);
                out.extend_from_slice(b"\\u00");
                for digit in [code >> 4, code & 15] {
                    out.push(char::from_digit(digit, 16).map_or(b'0', |digit| digit as u8));
                }
            }
            _ => {
                let mut bytes = [0; 4];
                out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            }
        }
    }
    out.push(b'"');
}
