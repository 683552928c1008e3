//! `weir bench new`: a use case to begin with, and the schema of its file.

use clap::Args;
use std::process::ExitCode;
use weir_bench::usecase;
use weir_say::say;

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Print the JSON schema of the file instead
    #[arg(long)]
    schema: bool,
}

pub(super) fn run(args: &NewArgs) -> ExitCode {
    say!("{}", if args.schema { usecase::SCHEMA } else { usecase::EXAMPLE });
    ExitCode::SUCCESS
}
