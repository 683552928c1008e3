//! The scoreboard as a page: every statement beside every broker, failing ones first.

use super::{Scoreboard, Scored};
use crate::page::{CSS, Page};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_conformance::{Standing, Statement, Verdict, Version, statements};

const TEMPLATE: &str = include_str!("../../assets/conformance.html");

/// The page.
///
/// # Errors
/// A template that does not fit (a test renders it).
pub fn html(scoreboard: &Scoreboard) -> anyhow::Result<String> {
    let known: BTreeMap<String, Statement> =
        statements().into_iter().map(|statement| (statement.name(), statement)).collect();
    let values = json!({
        "started": scoreboard.started,
        "suite": scoreboard.suite,
        "brokers": scoreboard.brokers.iter().map(broker).collect::<Vec<_>>(),
        "versions": versions(scoreboard, &known),
        "command": scoreboard.command.join(" "),
    });
    let page = Page {
        title: "Weir bench: conformance",
        styles: &[CSS, include_str!("../../assets/conformance.css")],
        body: TEMPLATE,
        ..Page::default()
    };
    page.html(&values).context("cannot render the scoreboard")
}

fn broker(scored: &Scored) -> Value {
    let board = &scored.board;
    let counts: Vec<Value> = Version::ALL
        .iter()
        .map(|&version| {
            let count = board.count(version);
            json!({
                "version": version.name(),
                "count": count,
                "holds": board.statements_of(version, Standing::Holds),
                "fails": board.statements_of(version, Standing::Fails),
            })
        })
        .collect();
    let failures: Vec<Value> = board
        .cases
        .iter()
        .filter_map(|case| match &case.verdict {
            Verdict::Fail { step, why } => Some(json!({
                "name": case.name,
                "version": case.version.name(),
                "statements": case.statements,
                "about": case.about,
                "level": case.level,
                "step": step,
                "why": why,
            })),
            _ => None,
        })
        .collect();
    json!({
        "label": scored.label(),
        "clean": scored.is_clean(),
        "cut": scored.cut,
        "counts": counts,
        "failures": failures,
        "profile": scored.broker.profile,
        "command": scored.broker.command.join(" "),
        "configuration": scored.broker.configuration,
    })
}

/// For each version its statements that some case proves: those that fail first.
fn versions(scoreboard: &Scoreboard, known: &BTreeMap<String, Statement>) -> Vec<Value> {
    let rows_of = |version: Version| {
        let prefix = format!("{version}:");
        let mut names: BTreeMap<&String, Vec<Option<Standing>>> = BTreeMap::new();
        for (at, scored) in scoreboard.brokers.iter().enumerate() {
            for (name, standing) in &scored.board.statements {
                if name.starts_with(&prefix) {
                    let row = names.entry(name);
                    row.or_insert_with(|| vec![None; scoreboard.brokers.len()])[at] =
                        Some(*standing);
                }
            }
        }
        let mut rows: Vec<_> = names.into_iter().collect();
        rows.sort_by_key(|(name, standings)| {
            let fails = standings.contains(&Some(Standing::Fails));
            (!fails, numbers(name))
        });
        rows
    };
    let row = |(name, standings): (&String, Vec<Option<Standing>>)| {
        let summary = known.get(name).map_or("", |statement| statement.summary.as_str());
        json!({
            "id": name.split(':').nth(1),
            "summary": summary,
            "standings": standings,
        })
    };
    Version::ALL
        .iter()
        .map(|&version| {
            let rows: Vec<Value> = rows_of(version).into_iter().map(row).collect();
            json!({ "version": version.name(), "rows": rows })
        })
        .collect()
}

/// The numbers of an identifier, so that 3.10 comes after 3.9.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_ordered_by_their_numbers() {
        let mut names = ["5.0:MQTT-3.10.1-1", "5.0:MQTT-3.9.2-10", "5.0:MQTT-3.9.2-2"];
        names.sort_by_key(|name| numbers(name));
        assert_eq!(names, ["5.0:MQTT-3.9.2-2", "5.0:MQTT-3.9.2-10", "5.0:MQTT-3.10.1-1"]);
    }
}
