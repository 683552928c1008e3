//! The report as one page: no network, tables without scripts, charts over time.

mod charts;
mod conclusion;
mod context;
mod health;
mod heat;
mod overview;
mod raw;
pub(crate) mod runs;
mod section;
pub(crate) mod shape;
mod sheets;
mod tiles;
mod told;

use crate::compare::{self, CompareError, Comparison};
use crate::page::{CSS, Page, UPLOT_CSS, UPLOT_JS};
use crate::paths;
use crate::result::RunResult;
use anyhow::Context as _;
use serde_json::json;
use std::path::Path;

/// How the brokers of repeats stand, or why that cannot be said.
type Stand = Result<Comparison, CompareError>;

const TEMPLATE: &str = include_str!("../assets/report.html");

/// The page's one script: what the others stand on first.
const JS: [&str; 3] = [
    include_str!("../assets/report/page.js"),
    include_str!("../assets/report/charts.js"),
    include_str!("../assets/report/heat.js"),
];

/// The page for these runs, grouped by use case.
///
/// # Errors
/// No runs, or a template that does not fit (a test renders it).
pub fn html(results: &[RunResult]) -> anyhow::Result<String> {
    html_with(results, compare::of_repeats(results).as_ref(), raw::BYTES_MAX)
}

/// The page for these runs, how their brokers stand, by [`compare::of_repeats`], and as many of the
/// results themselves as fit into so many bytes.
fn html_with(
    results: &[RunResult],
    stand: Option<&Stand>,
    raw_bytes_max: usize,
) -> anyhow::Result<String> {
    anyhow::ensure!(!results.is_empty(), "there is no result to report");
    // A page is passed on, and also one of results that an earlier version wrote.
    let results: Vec<RunResult> = results.iter().map(paths::published).collect();
    let uses = runs::group(&results);
    let raw = raw::runs(&uses, raw_bytes_max)?;
    let data = json!({ "uses": charts::columns(&uses), "raw": raw });
    let shown = context::page(&results, &uses, matches!(stand, Some(Ok(_))));
    let script = format!("(() => {{\n{}\ndrawAll();\n}})();", JS.concat());
    let page = Page {
        title: &format!("Weir bench: {}", shown["title"].as_str().unwrap_or_default()),
        styles: &[UPLOT_CSS, CSS],
        body: TEMPLATE,
        data: Some(&data),
        scripts: &[UPLOT_JS, &script],
        is_served: false,
    };
    page.html(&json!({ "page": shown, "extras": told::extras(stand, &uses) }))
}

/// Writes the page.
///
/// # Errors
/// As [`html`], or a file that cannot be written.
pub fn write(results: &[RunResult], path: &Path) -> anyhow::Result<()> {
    write_with(results, compare::of_repeats(results).as_ref(), path)
}

/// Writes the page without the results themselves: a smaller one, for where their folders are kept
/// as well.
///
/// # Errors
/// As [`write`].
pub fn write_small(results: &[RunResult], path: &Path) -> anyhow::Result<()> {
    put(path, &html_with(results, compare::of_repeats(results).as_ref(), 0)?)
}

/// Writes the page where it is known how the brokers stand.
///
/// # Errors
/// As [`write`].
pub fn write_with(results: &[RunResult], stand: Option<&Stand>, path: &Path) -> anyhow::Result<()> {
    put(path, &html_with(results, stand, raw::BYTES_MAX)?)
}

fn put(path: &Path, page: &str) -> anyhow::Result<()> {
    std::fs::write(path, page)
        .with_context(|| format!("cannot write the report {}", path.display()))
}
