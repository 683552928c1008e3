//! `weir bench export`: kept results in a form that other programs read.

use anyhow::Context;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_bench::export::{self, Format};
use weir_bench::folder;
use weir_bench::result::RunResult;
use weir_say::say;

/// Export stored results as JUnit, CSV, HdrHistogram, OpenMetrics or Markdown
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// Result folders, or folders that contain some; not needed for json-schema
    #[arg(value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// One of junit, csv, series-csv, hgrm, hlog, openmetrics, markdown, json-schema
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  weir bench export weir-results --format junit --out junit.xml
  weir bench export weir-results --format markdown
  weir bench export --format json-schema --out result.schema.json";

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        !args.results.is_empty() || args.format == Format::JsonSchema,
        "name a result folder to export, such as weir-results"
    );
    let mut results: Vec<RunResult> = Vec::new();
    for root in &args.results {
        results.extend(folder::read_all(root)?);
    }
    let text = export::text(args.format, &results)?;
    match &args.out {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}; choose another --out", path.display()))?,
        None => say!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}
