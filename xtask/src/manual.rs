//! Writes docs/broker.md: the broker's options, every key of its configuration, examples, and what
//! the options of a mosquitto.conf are here.
//!
//! Its text is manual/page.md, where a line such as `{{keys}}` stands for what the code knows.

mod keys;

use crate::page;
use crate::programs::{debug, root, said};
use anyhow::{Context, bail};
use std::fmt::Write;
use std::process::Command;
use weir_broker::MOSQUITTO_OPTIONS;

const PAGE: &str = "docs/broker.md";
const TEXT: &str = include_str!("manual/page.md");
/// Columns of the help.
const COLUMNS: &str = "96";

/// Writes the page; with `is_check` it says whether the page is as it would be written.
///
/// # Errors
/// The program does not compile, a source or an example cannot be read; in a check a page that is
/// not up to date.
pub(crate) fn run(is_check: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    for line in TEXT.lines() {
        match line.strip_prefix("{{").and_then(|line| line.strip_suffix("}}")) {
            Some(part) => text += &made(part)?,
            None => writeln!(text, "{line}")?,
        }
    }
    page::keep(PAGE, &text, is_check, "manual")
}

/// What stands for a line of the text.
fn made(part: &str) -> anyhow::Result<String> {
    match part.split_once(' ') {
        None if part == "help" => help(),
        None if part == "keys" => keys::tables(),
        None if part == "mosquitto" => mosquitto(),
        Some(("example", name)) => example(name),
        _ => bail!("manual/page.md: there is no {{{{{part}}}}}"),
    }
}

fn help() -> anyhow::Result<String> {
    let weir = debug("weir")?;
    let help = said(Command::new(weir).args(["broker", "--help"]).env("COLUMNS", COLUMNS))?;
    let lines = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    // What comes before is in the text of the page.
    let at = lines.find("Usage:").context("the help of weir broker has no usage")?;
    Ok(format!("```\n{}\n```\n", &lines[at..]))
}

fn example(name: &str) -> anyhow::Result<String> {
    let path = format!("docs/broker/{name}.toml");
    let text = std::fs::read_to_string(root().join(&path))
        .with_context(|| format!("cannot read {path}"))?;
    Ok(format!("[{name}.toml](broker/{name}.toml):\n\n```toml\n{text}```\n"))
}

fn mosquitto() -> anyhow::Result<String> {
    let mut text = String::new();
    for row in MOSQUITTO_OPTIONS {
        let names = row.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let key = row.key.map(|key| format!("`{key}`"));
        let here = match (key, row.note) {
            (Some(key), "") => key,
            (Some(key), note) => format!("{key}: {note}"),
            (None, note) => note.into(),
        };
        writeln!(text, "| {} | {here} |", names.join(", "))?;
    }
    Ok(text)
}
