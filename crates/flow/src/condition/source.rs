//! The text of an expression before it is parsed: its bounds, and where its words are.
//!
//! The parser is recursive, so that what is too long or nests too deep must not reach it.

use super::ConditionError;
use std::borrow::Cow;

/// What an expression may be long, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// How many words, numbers, texts and signs an expression may have.
pub const EXPRESSION_TOKENS_MAX: usize = 512;

/// How deep brackets, and choices by `?`, may stand in each other.
pub const BRACKETS_DEPTH_MAX: usize = 16;

/// A word, number, text or sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

/// The tokens of an expression; comments and white space are none.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let first = rest.chars().next()?;
            if first.is_whitespace() {
                at += first.len_utf8();
            } else if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else {
                let length = length(rest, first);
                let token = Token { at, text: rest.get(..length).unwrap_or(rest) };
                at += token.text.len();
                return Some(token);
            }
        }
    })
}

fn length(rest: &str, first: char) -> usize {
    let wordy = |letter: char| letter.is_alphanumeric() || letter == '_';
    if wordy(first) {
        let word = rest.find(|letter| !wordy(letter)).unwrap_or(rest.len());
        let (prefix, after) = rest.split_at(word);
        let raw = prefix.contains(['r', 'R']);
        let is_prefix = word <= 2 && prefix.chars().all(|letter| "rRbB".contains(letter));
        return match after.starts_with(['"', '\'']) && is_prefix {
            true => word + quoted(after, raw),
            false => word,
        };
    }
    match first {
        '"' | '\'' => quoted(rest, false),
        _ => first.len_utf8(),
    }
}

/// The length of a text with its quotes; to the end when it is not closed.
fn quoted(rest: &str, raw: bool) -> usize {
    let triple = ["\"\"\"", "'''"].into_iter().find(|quotes| rest.starts_with(quotes));
    let quotes = triple.unwrap_or_else(|| rest.get(..1).unwrap_or(rest));
    let mut at = quotes.len();
    while let Some(left) = rest.get(at..) {
        if left.starts_with(quotes) {
            return at + quotes.len();
        }
        let Some(next) = left.chars().next() else {
            break;
        };
        at += next.len_utf8();
        if next == '\\' && !raw {
            at += left.chars().nth(1).map_or(0, char::len_utf8);
        }
    }
    rest.len()
}

/// Refuses what is not worth parsing.
pub(super) fn check(text: &str) -> Result<(), ConditionError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        let message = format!("the expression is longer than {EXPRESSION_BYTES_MAX} bytes");
        return Err(ConditionError::new(EXPRESSION_BYTES_MAX, message));
    }
    if let Some(at) = text.find('\0') {
        return Err(ConditionError::new(at, "a null character"));
    }
    let (mut brackets, mut choices) = (0_usize, 0_usize);
    let mut count = 0;
    for token in tokens(text) {
        count += 1;
        if count > EXPRESSION_TOKENS_MAX {
            let message = format!("the expression has more than {EXPRESSION_TOKENS_MAX} words");
            return Err(ConditionError::new(token.at, message));
        }
        match token.text {
            "(" | "[" | "{" => brackets += 1,
            ")" | "]" | "}" => brackets = brackets.saturating_sub(1),
            "?" => choices += 1,
            _ => {}
        }
        if brackets.max(choices) > BRACKETS_DEPTH_MAX {
            let message = format!("more than {BRACKETS_DEPTH_MAX} deep");
            return Err(ConditionError::new(token.at, message));
        }
    }
    if count == 0 {
        return Err(ConditionError::new(0, "the expression is empty"));
    }
    Ok(())
}

/// The text as the parser reads it, each byte at its place.
///
/// It takes whole numbers above those of a signed 64-bit integer only with a suffix `u`, for which
/// there is no room. In hexadecimal digits they are shorter by one.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let mut readable = Cow::Borrowed(text);
    let mut after_point = false;
    for token in tokens(text) {
        let after = text.get(token.at + token.text.len()..).unwrap_or("");
        // Not the digits of a fraction.
        let whole = !after_point && !after.starts_with('.');
        after_point = token.text == ".";
        if whole
            && token.text.bytes().all(|byte| byte.is_ascii_digit())
            && token.text.parse::<i64>().is_err()
            && let Ok(value) = token.text.parse::<u64>()
        {
            let digits = format!("{:width$}", format!("{value:#x}u"), width = token.text.len());
            readable.to_mut().replace_range(token.at..token.at + token.text.len(), &digits);
        }
    }
    readable
}

/// Where a name stands last at or before a byte; that byte where it does not.
pub(super) fn last(text: &str, name: &str, byte: usize) -> usize {
    let before = tokens(text).take_while(|token| token.at <= byte);
    before.filter(|token| token.text == name).last().map_or(byte, |token| token.at)
}

/// The byte of a line and a column, both from 1, the column in characters.
pub(super) fn byte(text: &str, line: isize, column: isize) -> usize {
    let line = usize::try_from(line).unwrap_or(1).max(1) - 1;
    let column = usize::try_from(column).unwrap_or(1).max(1) - 1;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..).unwrap_or("");
    let within = rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at);
    (start + within).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).map(|token| token.text).collect()
    }

    #[test]
    fn tokens_are_words_texts_and_signs() {
        assert_eq!(texts("a.b >= 1"), ["a", ".", "b", ">", "=", "1"]);
        assert_eq!(texts(r#"x == "a (b" // c"#), ["x", "=", "=", "\"a (b\""]);
        assert_eq!(texts(r#""a\"b" c"#), [r#""a\"b""#, "c"]);
        assert_eq!(texts(r#"r"a\" c"#), [r#"r"a\""#, "c"]);
        assert_eq!(texts(r#""""a"b""" c"#), [r#""""a"b""""#, "c"]);
        assert_eq!(texts("'open"), ["'open"]);
        assert_eq!(texts("ü('é')"), ["ü", "(", "'é'", ")"]);
    }

    #[test]
    fn a_name_is_found_before_its_bracket() {
        let text = r#"size(topic) > 1 && payload.size() > 1"#;
        assert_eq!(last(text, "size", 4), 0);
        assert_eq!(last(text, "size", text.rfind('(').unwrap()), text.rfind("size").unwrap());
        assert_eq!(last(text, "what", 7), 7);
    }

    #[test]
    fn lines_and_columns_are_bytes() {
        assert_eq!(byte("ab\ncd", 1, 1), 0);
        assert_eq!(byte("ab\ncd", 2, 2), 4);
        assert_eq!(byte("é b", 1, 3), 3);
        assert_eq!(byte("ab", 9, 9), 2);
        assert_eq!(byte("", 0, -1), 0);
    }
}
