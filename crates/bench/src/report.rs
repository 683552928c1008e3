//! The report as one page: no network, tables without scripts, charts over time.

mod context;
mod disclosure;

use crate::result::RunResult;
use anyhow::Context as _;
use minijinja::Environment;
use serde_json::json;
use std::path::Path;

const TEMPLATE: &str = include_str!("../assets/report.html");
const CSS: &str = include_str!("../assets/report.css");
const JS: &str = include_str!("../assets/report.js");
const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

/// The page for these runs, grouped by use case.
///
/// # Errors
/// No runs, or a template that does not fit (a test renders it).
pub fn html(results: &[RunResult]) -> anyhow::Result<String> {
    let first = results.first().context("there is no result to report")?;
    let uses = context::use_cases(results);
    // Inside a script element only `</` could end it; JSON may write it so.
    let data = serde_json::to_string(&context::charts(results))?.replace("</", "<\\/");
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE)?;
    let values = json!({
        "title": context::title(results),
        "suite": first.suite,
        "host": context::host(&first.host),
        "uses": uses,
        "published_where": crate::published::WHERE,
        "sources": context::sources(results),
        "data": data,
        "css": CSS,
        "js": JS,
        "uplot_css": UPLOT_CSS,
        "uplot_js": UPLOT_JS,
    });
    let page = environment.get_template("report.html")?.render(minijinja::value::Serde(&values))?;
    Ok(page)
}

/// Writes the page.
///
/// # Errors
/// As [`html`], or a file that cannot be written.
pub fn write(results: &[RunResult], path: &Path) -> anyhow::Result<()> {
    std::fs::write(path, html(results)?)
        .with_context(|| format!("cannot write the report {}", path.display()))
}
