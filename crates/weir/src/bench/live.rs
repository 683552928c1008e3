//! What is shown while runs last: options of every command that runs something.

use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_bench::host::Pinning;
use weir_bench::interrupt::{Interrupted, note_signals};
use weir_bench::live::Live;
use weir_bench::ui::{self, Options, Ui};
use weir_bench::web;

/// What is shown, and where.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// What to show during the run: auto (a screen if there is a terminal, otherwise lines), plain,
    /// screen, web, web=ADDRESS or none
    #[arg(long, value_name = "UI", default_value = "auto")]
    ui: Ui,
    /// Serve Prometheus metrics on this address during the run, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
}

/// What `weir bench browse` is asked for.
#[derive(Debug, Args)]
pub(super) struct BrowseArgs {
    /// Folder of results
    #[arg(value_name = "DIR", default_value = "weir-results")]
    results: PathBuf,
    /// Address of the page; by default a free port on this host
    #[arg(long, value_name = "ADDRESS", default_value_t = web::ADDRESS)]
    listen: SocketAddr,
}

/// Serves the page until it is interrupted.
pub(super) fn browse(args: &BrowseArgs) -> anyhow::Result<ExitCode> {
    let interrupted = note_signals()?;
    web::browse(&args.results, args.listen, &interrupted)?;
    Ok(ExitCode::SUCCESS)
}

impl LiveArgs {
    /// Opens what is asked for, on the load's core where runs are pinned.
    pub(super) fn open(
        &self,
        is_pinned: bool,
        results: &Path,
        interrupted: &Interrupted,
    ) -> anyhow::Result<Live> {
        let core = Pinning::plan(is_pinned).load_core;
        let (ui, metrics, results) = (self.ui, self.metrics, results.into());
        ui::open(&Options { ui, metrics, results, core }, interrupted)
    }
}
