//! Tables as wide as a terminal: what is wider is told in several tables, or as a list.

use crate::lines::{LINE_CHARS_MAX, prose};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{Cell, Row, Table};

/// The table, or several with some of its columns each behind the first one, so that no line is
/// longer than [`LINE_CHARS_MAX`]; a list where not even two columns fit side by side.
pub fn fit(table: &Table) -> String {
    let cells = |row: &Row| row.cell_iter().map(Cell::content).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> =
        table.header().into_iter().chain(table.row_iter()).map(cells).collect();
    let columns = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| chars(line.get(at))).max().unwrap_or(0);
    // A column has a bar and a space on each side; one bar more ends the line.
    let widths: Vec<usize> = (0..columns).map(|at| width(at) + 3).collect();
    let Some((name, rest)) = widths.split_first() else { return String::new() };
    let room = LINE_CHARS_MAX - 1;
    if name + rest.iter().sum::<usize>() <= room {
        return table.to_string();
    }
    if rest.iter().any(|width| name + width > room) {
        return list(&lines);
    }
    let (mut parts, mut part, mut taken) = (Vec::new(), vec![0], *name);
    for (at, width) in rest.iter().enumerate() {
        if taken + width > room {
            parts.push(std::mem::replace(&mut part, vec![0]));
            taken = *name;
        }
        part.push(at + 1);
        taken += width;
    }
    parts.push(part);
    let some = |part: &Vec<usize>| {
        let of = |line: &Vec<String>| {
            part.iter().map(|at| line.get(*at).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header(of(&lines[0]));
        table.add_rows(lines[1..].iter().map(of));
        table.to_string()
    };
    parts.iter().map(some).collect::<Vec<_>>().join("\n")
}

fn chars(cell: Option<&String>) -> usize {
    cell.map_or(0, |text| text.chars().count())
}

/// A paragraph a row: its name, and a line for each cell behind the name of its column.
fn list(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    let Some((head, rows)) = lines.split_first() else { return text };
    for row in rows {
        prose(&mut text, row.first().map_or("", String::as_str));
        for (name, cell) in head.iter().zip(row).skip(1) {
            prose(&mut text, &format!("  {name}: {cell}"));
        }
    }
    let _ = text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cell: &str) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header(["broker", "one", "two", "three"]);
        table.add_row(["Weir", "1", cell, "3"]);
        table
    }

    #[test]
    fn what_is_too_wide_is_split_behind_its_first_column_and_then_listed() {
        assert_eq!(fit(&table("2")), table("2").to_string());
        let split = fit(&table(&"2".repeat(60)));
        let heads: Vec<&str> = split.lines().filter(|line| line.contains("broker")).collect();
        assert_eq!(heads.len(), 2, "{split}");
        assert!(heads[1].contains("three") && !heads[0].contains("three"), "{split}");
        let long = "many words ".repeat(20);
        for text in [split, fit(&table(&long))] {
            assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{text}");
            assert!(text.contains("Weir") && text.contains("three"), "{text}");
        }
    }

    #[test]
    fn a_table_is_split_where_it_does_not_fit_and_only_there() {
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        for chars in 1..70 {
            let whole = table(&"2".repeat(chars));
            let (text, width) = (fit(&whole), longest(&whole.to_string()));
            assert_eq!(text == whole.to_string(), width <= LINE_CHARS_MAX, "{chars} in:\n{text}");
            assert!(longest(&text) <= LINE_CHARS_MAX, "{chars} in:\n{text}");
            let parts = text.matches("| broker").count();
            // Behind its name and `one`, or behind the name alone.
            let wanted = match width {
                _ if width <= LINE_CHARS_MAX => 1,
                _ if chars + 3 + 9 + 1 > LINE_CHARS_MAX => 0,
                _ if chars + 3 + 9 + 6 < LINE_CHARS_MAX => 2,
                _ => 3,
            };
            assert_eq!(parts, wanted, "{chars} in:\n{text}");
        }
    }
}
