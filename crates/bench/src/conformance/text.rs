//! The scoreboard for a terminal.

use super::{Scoreboard, Scored};
use crate::lines::{prose, wrap};
use crate::tables::fit;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;
use weir_conformance::{CaseOutcome, Standing, Verdict, Version};

/// Failing cases shown of one broker; the page has them all.
const FAILURES_MAX: usize = 30;

/// Broker by version, then what failed: plain text without colour.
pub fn render(scoreboard: &Scoreboard) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "broker, MQTT",
        "cases",
        "passed",
        "failed",
        "differ",
        "skipped",
        "statements hold",
        "in a failing case",
    ]);
    for scored in &scoreboard.brokers {
        for version in Version::ALL {
            if let Some(row) = row(scored, version) {
                table.add_row(row);
            }
        }
    }
    let mut text = format!("{}\n", fit(&table));
    for scored in &scoreboard.brokers {
        if let Some(cut) = &scored.cut {
            let _ = writeln!(text, "\n{}: INCOMPLETE: {cut}", scored.label());
        }
        failures(scored, &mut text);
    }
    text
}

fn row(scored: &Scored, version: Version) -> Option<Vec<String>> {
    let board = &scored.board;
    let count = board.count(version);
    let cases = count.passed + count.failed + count.differ + count.skipped;
    if cases == 0 {
        return None;
    }
    let name = format!("{}, {version}", scored.label());
    let numbers = [
        cases,
        count.passed,
        count.failed,
        count.differ,
        count.skipped,
        board.statements_of(version, Standing::Holds),
        board.statements_of(version, Standing::Fails),
    ];
    Some([name].into_iter().chain(numbers.map(|number| number.to_string())).collect())
}

fn failures(scored: &Scored, text: &mut String) {
    let failed: Vec<&CaseOutcome> =
        scored.board.cases.iter().filter(|case| case.is_failure()).collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{} fails:", scored.label());
    for case in failed.iter().take(FAILURES_MAX) {
        let CaseOutcome { name, version, statements, about, .. } = case;
        let ids: Vec<&str> = statements.iter().filter_map(|name| name.split(':').nth(1)).collect();
        prose(text, &format!("{version} {name} [{}]", ids.join(", ")));
        wrap(text, "    ", "    ", about);
        if let Verdict::Fail { step, why } = &case.verdict {
            wrap(text, "    at: ", "      ", step);
            why.lines().for_each(|line| wrap(text, "    ", "      ", line));
        }
    }
    if failed.len() > FAILURES_MAX {
        let _ = writeln!(text, "  and {} more: see the report", failed.len() - FAILURES_MAX);
    }
}
