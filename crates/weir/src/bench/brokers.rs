//! `weir bench brokers`: which brokers can be measured here, and how to install more.

use anyhow::Context;
use clap::{Args, Subcommand};
use std::process::ExitCode;
use weir_bench::driver::{self, State};
use weir_say::{say, sayln};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BrokersArgs {
    #[command(subcommand)]
    command: Option<BrokersCommand>,
}

#[derive(Debug, Subcommand)]
enum BrokersCommand {
    /// Install brokers from package registries into ~/.cache/weir/brokers
    Setup {
        /// Names from the list
        #[arg(required = true, value_name = "BROKER")]
        names: Vec<String>,
    },
}

const EXAMPLES: &str = "Examples:
  weir bench brokers
  weir bench brokers setup mochi aedes
  weir bench run p2p-1K-1K-1K-1K --broker nanomq=/opt/nanomq/bin/nanomq
  weir bench run p2p-1K-1K-1K-1K --broker 'mine=/opt/mine --listen {address}'";

pub(super) fn run(args: &BrokersArgs) -> anyhow::Result<ExitCode> {
    let weir = std::env::current_exe().context("cannot find this program")?;
    match &args.command {
        None => say!("{}", driver::render(&driver::list(&weir))),
        Some(BrokersCommand::Setup { names }) => {
            for name in names {
                let listed = driver::setup(name, &weir)?;
                if let State::Found { path, version, .. } = &listed.state {
                    sayln!("{name}: {} {version} at {}", listed.title, path.display());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
