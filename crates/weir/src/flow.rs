//! `weir flow`: applies rules to messages, as a client next to a broker.

use clap::Subcommand;
use std::process::ExitCode;
use weir_flowrun::{CheckArgs, RunArgs};
use weir_say::{noteln, say};

/// Apply rules to the messages of any MQTT broker: select, transform, republish
///
/// Rules are [[flow]] tables in a TOML file. docs/flow.md describes their language and the delivery
/// guarantees of `weir flow run`.
#[derive(Debug, clap::Args)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<RunArgs>),
    Check(CheckArgs),
}

pub(crate) fn run(args: &FlowArgs) -> ExitCode {
    let result = match &args.command {
        Command::Run(args) => weir_flowrun::run(args),
        Command::Check(args) => weir_flowrun::check(args).map(|text| say!("{text}")),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    noteln!("weir: {error}");
    ExitCode::from(error.exit_code())
}
