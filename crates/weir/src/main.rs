//! The binary: subcommands only.

/// Prints to standard output. A reader that has gone away, such as `head`, is no failure of the
/// command: what it does and keeps is done all the same.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($text)*);
    }};
}

/// The same, with the end of a line.
macro_rules! sayln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod agent;
mod bench;
mod broker;
mod ctl;
mod flow;
mod log;
mod pubsub;

use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// An MQTT benchmark suite and an MQTT broker
#[derive(Debug, Parser)]
#[command(name = "weir", version = VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: log::LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Broker(broker::BrokerArgs),
    Ctl(ctl::CtlArgs),
    Bench(bench::BenchArgs),
    Agent(agent::AgentArgs),
    Flow(flow::FlowArgs),
    Pub(weir_pubsub::PubArgs),
    Sub(weir_pubsub::SubArgs),
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if let Command::Broker(args) = &cli.command
        && args.verbose
    {
        cli.log.be_verbose();
    }
    run(cli).unwrap_or_else(|error| {
        // One line: what was wrong, where, what to do. It may be that nobody reads it.
        let _ = writeln!(std::io::stderr(), "weir: {error:#}");
        ExitCode::from(2)
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let is_broker = matches!(cli.command, Command::Broker(_));
    let log = log::init(&cli.log, is_broker)?;
    match cli.command {
        Command::Broker(args) => broker::run(args, &log),
        Command::Ctl(args) => ctl::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Agent(args) => agent::run(&args, VERSION).map(|()| ExitCode::SUCCESS),
        Command::Flow(args) => Ok(flow::run(&args)),
        Command::Pub(args) => Ok(pubsub::publish(&args)),
        Command::Sub(args) => Ok(pubsub::subscribe(&args)),
    }
}
