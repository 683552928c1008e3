//! Every numbered statement of the standards, whom it binds, and its tests: docs/mqtt-coverage.md.
//!
//! A case of a byte table names its statements; a test in Rust says `Proves 5.0:MQTT-3.1.0-1.` in
//! its doc comment.

use crate::tidy::sources;
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use weir_conformance::{Statement, Version, statements, tables};

const PAGE: &str = "docs/mqtt-coverage.md";
/// More tests of one statement than this are counted only.
const TESTS_SHOWN_MAX: usize = 4;

const HEAD: &str = "# Coverage of MQTT

Written by `cargo xtask coverage`; not to be changed by hand. Every numbered statement of MQTT 3.1.1
and 5.0 in our own words, whom it binds, and what tests it here. *packet* is a rule of a packet's
form: it binds whoever sends it, and the server as the one that checks it. `v5-…: …` is a case of a
byte table (`crates/conformance/tables`), which any broker can be held against: `weir bench
conformance --broker NAME`; the others are tests in Rust. MQTT 3.1 numbers no statements; the tables
for 3.1.1 run in 3.1 too where it says the same.

| | statements | bind a server | of these tested | cases run |
|---|--:|--:|--:|--:|
";

/// The tests of each statement, by its name.
type Tests = BTreeMap<String, BTreeSet<String>>;

/// Writes the page; with `is_check` it says whether the page is as it would be written.
///
/// # Errors
/// A table or source file that cannot be read, a test that proves a statement that is none; in a
/// check a page that is not up to date.
pub(crate) fn run(is_check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = statements();
    let mut tests = cases()?;
    proofs(&root, &mut tests)?;
    let names: BTreeSet<String> = known.iter().map(Statement::name).collect();
    for name in tests.keys() {
        ensure!(names.contains(name), "{name} is proven, but no such statement exists");
    }
    let text = page(&known, &tests)?;
    let path = root.join(PAGE);
    if is_check {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(kept == text, "{PAGE} is out of date: run cargo xtask coverage");
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {PAGE}"))
}

fn cases() -> anyhow::Result<Tests> {
    let mut tests = Tests::new();
    for (file, table) in tables()? {
        let file = file.trim_end_matches(".toml");
        for case in table.cases {
            for statement in case.statements {
                tests.entry(statement).or_default().insert(format!("{file}: {}", case.name));
            }
        }
    }
    Ok(tests)
}

/// Adds what the tests in Rust say of themselves.
fn proofs(root: &Path, tests: &mut Tests) -> anyhow::Result<()> {
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files)?;
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let shown = path.strip_prefix(root)?.display().to_string();
        let mut proven = Vec::new();
        for line in text.lines().map(str::trim_start) {
            if let Some(doc) = line.strip_prefix("///") {
                proven.extend(doc.split("Proves ").skip(1).filter_map(statement));
            } else if let Some(name) = function(line) {
                for statement in proven.drain(..) {
                    tests.entry(statement).or_default().insert(format!("{shown}: {name}"));
                }
            }
        }
    }
    Ok(())
}

/// The statement at the beginning of `text`, without the full stop that ends its sentence.
fn statement(text: &str) -> Option<String> {
    let word = text.split_whitespace().next()?;
    Some(word.trim_end_matches(['.', ',']).to_owned())
}

/// The name of the function that begins on this line.
fn function(line: &str) -> Option<&str> {
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

fn page(known: &[Statement], tests: &Tests) -> anyhow::Result<String> {
    let mut text = String::from(HEAD);
    let ran = |version| -> anyhow::Result<usize> {
        let all = tables()?;
        let cases = all.iter().flat_map(|(_, table)| &table.cases);
        Ok(cases.filter(|case| case.versions.contains(&version)).count())
    };
    let (mut bind, mut tested) = (0, 0);
    for version in Version::ALL {
        let of: Vec<_> = known.iter().filter(|known| known.version == version).collect();
        let servers: Vec<_> = of.iter().filter(|known| known.binds.is_servers()).collect();
        let proven = servers.iter().filter(|known| tests.contains_key(&known.name())).count();
        bind += servers.len();
        tested += proven;
        let cases = ran(version)?;
        let (all, servers) = (of.len(), servers.len());
        writeln!(text, "| MQTT {version} | {all} | {servers} | {proven} | {cases} |")?;
    }
    let share = 100.0 * tested as f64 / bind as f64;
    writeln!(text, "\n{tested} of {bind} statements that bind a server are tested: {share:.1} %.")?;
    for version in [Version::V311, Version::V5] {
        writeln!(text, "\n## MQTT {version}\n\n| id | binds | says | tests |\n|---|---|---|---|")?;
        for statement in known.iter().filter(|known| known.version == version) {
            let (id, binds) = (&statement.id, statement.binds.name());
            let proof = shown(statement, tests.get(&statement.name()));
            writeln!(text, "| {id} | {binds} | {} | {proof} |", statement.summary)?;
        }
    }
    Ok(text)
}

fn shown(statement: &Statement, tests: Option<&BTreeSet<String>>) -> String {
    let Some(tests) = tests else {
        return match &statement.untestable {
            Some(why) => format!("none: {why}"),
            None if statement.binds.is_servers() => "none yet".into(),
            None => "binds clients only".into(),
        };
    };
    let mut list: Vec<String> =
        tests.iter().take(TESTS_SHOWN_MAX).map(|test| format!("`{test}`")).collect();
    if let more @ 1.. = tests.len().saturating_sub(TESTS_SHOWN_MAX) {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
}
