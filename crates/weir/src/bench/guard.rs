//! `weir bench guard`: between the suite and a broker; see `weir_bench::driver::guard`.

use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;
use weir_bench::driver;

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// How long the broker may take to exit after SIGTERM
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    patience_ms: u64,
    /// Connect the program to standard input and output instead
    #[arg(long)]
    through: bool,
    /// The broker's program and arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &GuardArgs) -> ExitCode {
    let guard = if args.through { driver::guard_through } else { driver::guard };
    guard(&args.command, Duration::from_millis(args.patience_ms))
}
