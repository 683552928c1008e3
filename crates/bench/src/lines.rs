//! Lines as wide as a terminal is that nobody has widened.

use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use std::fmt::Write as _;

/// Longest line of what a terminal is shown.
pub(crate) const LINE_CHARS_MAX: usize = 80;

/// A sentence, indented, broken where a line would grow too long.
pub fn prose(text: &mut String, sentence: &str) {
    wrap(text, "  ", "    ", sentence);
}

/// A sentence behind `first`, broken where a line would grow too long; what follows goes behind
/// `rest`. A word that is longer stays whole, so that it can be copied.
pub(crate) fn wrap(text: &mut String, first: &str, rest: &str, sentence: &str) {
    let (mut line, mut is_begun) = (first.to_owned(), false);
    for word in printable(sentence).split(' ') {
        if is_begun && line.chars().count() + 1 + word.chars().count() > LINE_CHARS_MAX - 2 {
            let _ = writeln!(text, "{line}");
            (line, is_begun) = (rest.to_owned(), false);
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    let _ = writeln!(text, "{line}");
}

/// The table with long cells in several lines, but for the names in its first column.
pub(crate) fn narrow(mut table: Table) -> Table {
    let width = LINE_CHARS_MAX as u16;
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// What a broker says of itself may hold bytes that move a cursor or colour a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// Whether no line is too long, but for a word that nobody can break.
#[cfg(test)]
pub(crate) fn assert_fits(text: &str) {
    for line in text.lines().filter(|line| line.chars().count() > LINE_CHARS_MAX) {
        assert!(line.split_whitespace().count() == 1, "{} chars: {line}", line.chars().count());
    }
}
