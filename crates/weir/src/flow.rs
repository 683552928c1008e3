//! `weir flow`: rules over messages, run beside a broker.

use clap::Subcommand;
use std::process::ExitCode;
use weir_flowrun::{CheckArgs, RunArgs, StackArgs};

/// Run rules over messages beside any MQTT broker: pick, change, republish
///
/// Rules stand in a TOML file, one [[flow]] each: see docs/flow.md for their language and
/// docs/flow-run.md for what running them promises.
#[derive(Debug, clap::Args)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    #[command(hide = true)]
    Stack(StackArgs),
}

pub(crate) fn run(args: &FlowArgs) -> ExitCode {
    let result = match &args.command {
        Command::Run(args) => weir_flowrun::run(args),
        Command::Check(args) => weir_flowrun::check(args).map(|text| say!("{text}")),
        Command::Stack(args) => weir_flowrun::stack(args),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("weir: {error}");
    ExitCode::from(error.exit_code())
}
