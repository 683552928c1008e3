//! The checks for a person and for machines.

use super::check::{Check, State};
use super::{Need, Row, runs, shortage};
use crate::lines::{narrow, prose, wrap};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;

/// Of the shape of [`Told`]; a reader refuses what is newer.
const SCHEMA: u32 = 1;

/// What `weir bench doctor --json` prints.
#[derive(Debug, Serialize)]
struct Told<'a> {
    /// [`SCHEMA`].
    schema: u32,
    /// What would spoil a run of the Basic Set.
    checks: &'a [Check],
    /// Each use case at full scale.
    use_cases: Vec<Runs<'a>>,
    /// Whether the Basic Set runs at full scale.
    is_basic_runnable: bool,
}

/// Whether a use case runs here.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    name: &'a str,
    set: &'a str,
    connections: u64,
    /// For a person: at which scale.
    runs: String,
    /// What is short, with what is present and what is needed.
    short: Vec<String>,
}

impl<'a> Runs<'a> {
    fn of(row: &'a Row) -> Self {
        let Row { use_case, connections, needs } = row;
        let unmet = needs.iter().filter(|need: &&Need| !need.is_met());
        let short: Vec<String> = unmet.map(shortage).collect();
        Self {
            name: &use_case.name,
            set: &use_case.set,
            connections: *connections,
            runs: runs(use_case, *connections, short.is_empty()),
            short,
        }
    }
}

/// One JSON object.
pub(super) fn json(checks: &[Check], rows: &[Row], is_basic_runnable: bool) -> String {
    let use_cases = rows.iter().map(Runs::of).collect();
    let told = Told { schema: SCHEMA, checks, use_cases, is_basic_runnable };
    serde_json::to_string_pretty(&told).expect("strings, numbers and lists become JSON")
}

/// A table, and behind it how to mend what would spoil a run.
pub(super) fn text(checks: &[Check]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["before a run", "", "seen"]);
    for check in checks {
        let mark = match check.state {
            State::Fine => "ok",
            State::Warning => "warning",
            State::Unknown => "unknown",
        };
        table.add_row([check.name, mark, &check.found]);
    }
    let warnings = checks.iter().filter(|check| check.state == State::Warning);
    let mut mend = String::new();
    for Check { name, mend: how, why, .. } in warnings {
        prose(&mut mend, &format!("{name}: {how}"));
        wrap(&mut mend, "    ", "    ", why);
    }
    let table = narrow(table);
    match mend.as_str() {
        "" => format!("{table}\n\nNothing here would spoil a run of the Basic Set.\n"),
        mend => format!(
            "{table}\n\nWhat would spoil a run of the Basic Set, and how to fix it:\n{mend}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: State) -> Check {
        let (found, mend) = ("128 entries".into(), "sysctl -w it=1".into());
        Check { name: "accept backlog", state, found, why: "they wait", mend }
    }

    #[test]
    fn a_warning_is_told_with_its_reason_and_how_to_mend_it() {
        let told = text(&[check(State::Fine), check(State::Warning)]);
        assert!(told.contains("accept backlog: sysctl -w it=1\n    they wait\n"), "{told}");
        assert!(text(&[check(State::Fine)]).contains("Nothing here would spoil"));
        let found = "1.98 processors busy, ".repeat(9);
        let long = Check { mend: found.clone(), found, ..check(State::Warning) };
        crate::lines::assert_fits(&text(&[long]));
    }

    #[test]
    fn machines_read_states_and_use_cases() {
        let rows: Vec<Row> = crate::usecase::all().into_iter().map(super::super::row).collect();
        let told = json(&[check(State::Warning)], &rows, true);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["schema"], &told["is_basic_runnable"]), (&1.into(), &true.into()));
        assert_eq!(told["checks"][0]["state"], "warning");
        assert_eq!(told["use_cases"].as_array().unwrap().len(), rows.len());
        assert!(told["use_cases"][0]["connections"].as_u64() > Some(0), "{told}");
    }
}
