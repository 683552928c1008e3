//! Text of a peer, for a terminal.

use std::fmt::{self, Write};

/// Shows text that a peer chose, with what a terminal would obey as `\u{1b}` and the like: it can
/// neither move the cursor nor make a line of its own.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |char: char| match char {
            char if is_obeyed(char) => write!(f, "{}", char.escape_default()),
            char => f.write_char(char),
        };
        self.0.chars().try_for_each(show)
    }
}

/// JSON with text that a peer chose, for a terminal: what one would obey is escaped as JSON has it,
/// so that it is the same JSON. Control characters of ASCII are escaped in any JSON.
#[derive(Clone, Copy, Debug)]
pub struct ShownJson<'a>(pub &'a str);

impl fmt::Display for ShownJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |char: char| match char {
            // Between values, where it is the writer's.
            '\n' | '\t' => f.write_char(char),
            char if is_obeyed(char) => write!(f, "\\u{:04x}", u32::from(char)),
            char => f.write_char(char),
        };
        self.0.chars().try_for_each(show)
    }
}

/// Control characters, line ends of Unicode, and marks that turn the direction of writing.
fn is_obeyed(char: char) -> bool {
    let is_mark = matches!(
        char,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    char.is_control() || is_mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        for (text, shown) in [
            ("a/b \u{fc} \u{1f600} \\", "a/b \u{fc} \u{1f600} \\"),
            ("\u{1b}[2Jx\r\n", "\\u{1b}[2Jx\\r\\n"),
            ("\0\u{7f}\u{9b}31m", "\\u{0}\\u{7f}\\u{9b}31m"),
            ("\u{202e}x\u{2066}y\u{2028}", "\\u{202e}x\\u{2066}y\\u{2028}"),
        ] {
            assert_eq!(Shown(text).to_string(), shown);
        }
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json_with_nothing_to_obey() {
        let text = "{\n\t\"a\":\t\"\\u001b[2J\u{7f}\u{9b}31m \u{202e}\u{fc}\"\n}";
        let shown = "{\n\t\"a\":\t\"\\u001b[2J\\u007f\\u009b31m \\u202e\u{fc}\"\n}";
        assert_eq!(ShownJson(text).to_string(), shown);
    }
}
