//! The report as one page: no network, tables without scripts, charts over time.

mod charts;
mod context;
mod extra;
mod heat;
mod overview;
mod raw;
pub(crate) mod runs;
pub(crate) mod shape;
mod sheets;
mod told;

use crate::compare::{self, CompareError, Comparison};
use crate::result::RunResult;
use anyhow::Context as _;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::json;
use std::path::Path;

/// How the brokers of repeats stand, or why that cannot be said.
type Stand = Result<Comparison, CompareError>;

const TEMPLATE: &str = include_str!("../assets/report.html");
pub(crate) const CSS: &str = include_str!("../assets/report.css");
pub(crate) const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
pub(crate) const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

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
    html_with(results, compare::of_repeats(results).as_ref())
}

/// The page for these runs, and how their brokers stand, by [`compare::of_repeats`].
fn html_with(results: &[RunResult], stand: Option<&Stand>) -> anyhow::Result<String> {
    anyhow::ensure!(!results.is_empty(), "there is no result to report");
    let uses = runs::group(results);
    let data = json!({ "uses": charts::columns(&uses), "raw": raw::runs(&uses)? });
    // `</script` would end the element and `<!--` would hide its end: JSON may spell `<` as a code.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let extras = told::extras(stand, &uses);
    let values = json!({
        "page": context::page(results, &uses),
        "extras": extras,
        "data": data,
        "css": CSS,
        "js": JS.concat(),
        "uplot_css": UPLOT_CSS,
        "uplot_js": UPLOT_JS,
    });
    render(TEMPLATE, &values)
}

/// Fills a template of a page: a value that it names and that is missing is an error, text is
/// escaped.
pub(crate) fn render(template: &str, values: &serde_json::Value) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // What escapes is chosen by the name.
    environment.add_template("page.html", template)?;
    Ok(environment.get_template("page.html")?.render(minijinja::value::Serde(values))?)
}

/// Writes the page.
///
/// # Errors
/// As [`html`], or a file that cannot be written.
pub fn write(results: &[RunResult], path: &Path) -> anyhow::Result<()> {
    write_with(results, compare::of_repeats(results).as_ref(), path)
}

/// Writes the page where it is known how the brokers stand.
///
/// # Errors
/// As [`write`].
pub fn write_with(results: &[RunResult], stand: Option<&Stand>, path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, html_with(results, stand)?)
        .with_context(|| format!("cannot write the report {}", path.display()))
}
