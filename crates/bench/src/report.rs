//! The report as one page: no network, tables without scripts, charts over time.

mod charts;
mod context;
pub(crate) mod disclosure;
mod extra;
mod heat;
mod overview;
mod raw;
pub(crate) mod runs;
pub(crate) mod shape;
mod sheets;
mod svg;
mod told;

pub use extra::{Extra, ExtraRow, Plot};
pub(crate) use runs::latency;

use crate::result::RunResult;
use anyhow::Context as _;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::json;
use std::path::Path;

const TEMPLATE: &str = include_str!("../assets/report.html");
pub(crate) const CSS: &str = include_str!("../assets/report.css");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

/// The page's one script: what the others stand on first.
const JS: [&str; 3] = [
    include_str!("../assets/report/page.js"),
    include_str!("../assets/report/charts.js"),
    include_str!("../assets/report/heat.js"),
];

/// The page for these runs, grouped by use case.
///
/// # Errors
/// As [`html_with`].
pub fn html(results: &[RunResult]) -> anyhow::Result<String> {
    html_with(results, &[])
}

/// The page for these runs, and above them their comparison, their steps, and what others have to
/// say of them.
///
/// # Errors
/// No runs, or a template that does not fit (a test renders it).
pub fn html_with(results: &[RunResult], extras: &[Extra]) -> anyhow::Result<String> {
    anyhow::ensure!(!results.is_empty(), "there is no result to report");
    let uses = runs::group(results);
    let data = json!({ "uses": charts::columns(&uses), "raw": raw::runs(&uses)? });
    // `</script` would end the element and `<!--` would hide its end: JSON may spell `<` as a code.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let told = told::extras(results, &uses);
    let extras: Vec<_> = told.iter().chain(extras).map(context::extra).collect();
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
    std::fs::write(path, html(results)?)
        .with_context(|| format!("cannot write the report {}", path.display()))
}
