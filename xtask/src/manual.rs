//! Writes the pages of docs/ that are made of the code.
//!
//! broker.md has the broker's options, every key of its configuration, examples, and what the
//! options of a mosquitto.conf are here. Its text is manual/page.md, where a line such as
//! `{{keys}}` stands for what the code knows. limits.md has the tables of bounds between two marks;
//! metrics.md is a table of the suite's as a whole.

mod keys;

use crate::page;
use crate::programs::{debug, root, said};
use anyhow::{Context, bail};
use std::fmt::Write;
use std::process::Command;
use weir_broker::{MOSQUITTO_OPTIONS, SECTIONS, Section};

const LIMITS: &str = "docs/limits.md";
const TEXT: &str = include_str!("manual/page.md");
/// Columns of the help.
const COLUMNS: &str = "96";

/// Writes the pages; with `is_check` it says whether they are as they would be written.
///
/// # Errors
/// The program does not compile, a source or an example cannot be read; in a check a page that is
/// not up to date.
pub(crate) fn run(is_check: bool) -> anyhow::Result<()> {
    // What takes no compiler goes first.
    page::keep(LIMITS, &limits()?, is_check, "manual")?;
    page::keep("docs/metrics.md", &weir_bench::metrics::glossary(), is_check, "manual")?;
    page::keep("docs/broker.md", &broker()?, is_check, "manual")
}

/// The page as it is, with the tables of bounds as the core has them.
fn limits() -> anyhow::Result<String> {
    const BEGIN: &str = "<!-- quotas -->\n";
    const END: &str = "<!-- end of quotas -->\n";
    let page = std::fs::read_to_string(root().join(LIMITS))
        .with_context(|| format!("cannot read {LIMITS}"))?;
    let (before, rest) =
        page.split_once(BEGIN).context("docs/limits.md has no place for bounds")?;
    let (_, after) = rest.split_once(END).context("the bounds of docs/limits.md have no end")?;
    Ok([before, BEGIN, &weir_core::quotas_as_text(), END, after].concat())
}

fn broker() -> anyhow::Result<String> {
    let mut text = String::new();
    for line in TEXT.lines() {
        match line.strip_prefix("{{").and_then(|line| line.strip_suffix("}}")) {
            Some(part) => text += &made(part)?,
            None => writeln!(text, "{line}")?,
        }
    }
    Ok(text)
}

/// What stands for a line of the text.
fn made(part: &str) -> anyhow::Result<String> {
    match part.split_once(' ') {
        None if part == "help" => help(),
        None if part == "keys" => keys::tables(),
        None if part == "mosquitto" => mosquitto(),
        None if part == "sections" => Ok(sections()),
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

/// What a reload does with each part of the configuration.
fn sections() -> String {
    let mut text = String::from("| key | takes | what goes by it, or why not |\n|---|---|---|\n");
    for Section { key, is_live, how, .. } in SECTIONS {
        let takes = if *is_live { "live" } else { "restart" };
        text += &format!("| `{key}` | {takes} | {how} |\n");
    }
    text
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
