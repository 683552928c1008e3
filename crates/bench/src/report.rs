//! The report as one page: no network, tables without scripts, charts over time.

mod charts;
mod context;
mod disclosure;
mod runs;
mod sheets;

use crate::result::RunResult;
use anyhow::Context as _;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::json;
use std::path::Path;

const TEMPLATE: &str = include_str!("../assets/report.html");
pub(crate) const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

/// The page for these runs, grouped by use case.
///
/// # Errors
/// No runs, or a template that does not fit (a test renders it).
pub fn html(results: &[RunResult]) -> anyhow::Result<String> {
    anyhow::ensure!(!results.is_empty(), "there is no result to report");
    let uses = runs::group(results);
    // `</script` would end the element and `<!--` would hide its end: JSON may spell `<` as a code.
    let data = serde_json::to_string(&charts::columns(&uses))?.replace('<', "\\u003c");
    let values = json!({
        "page": context::page(results, &uses),
        "data": data,
        "css": CSS,
        "js": JS,
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
    std::fs::write(path, html(results)?)
        .with_context(|| format!("cannot write the report {}", path.display()))
}
