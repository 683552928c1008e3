//! The binary: subcommands only.

mod agent;
mod bench;
mod broker;
mod ctl;
mod flow;
mod import;
mod log;
mod passwd;
mod pubsub;
mod shell;
mod store;
mod token;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use weir_broker::MosquittoFile;
use weir_say::noteln;

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
    Passwd(passwd::PasswdArgs),
    Token(token::TokenArgs),
    Ctl(ctl::CtlArgs),
    Store(store::StoreArgs),
    Import(import::ImportArgs),
    Bench(bench::BenchArgs),
    Agent(agent::AgentArgs),
    Flow(flow::FlowArgs),
    Pub(weir_pubsub::PubArgs),
    Sub(weir_pubsub::SubArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let mut cli = Cli::try_parse().unwrap_or_else(|error| shell::without_far_tips(error).exit());
    if let Command::Broker(args) = &cli.command
        && args.verbose
    {
        cli.log.be_verbose();
    }
    let code = run(cli).unwrap_or_else(|error| {
        // One line: what was wrong, where, what to do.
        noteln!("weir: {error:#}");
        ExitCode::from(2)
    });
    let Some(error) = weir_say::failure() else { return code };
    noteln!("weir: cannot write to standard output: {error}");
    ExitCode::from(2)
}

fn run(mut cli: Cli) -> anyhow::Result<ExitCode> {
    let is_broker = matches!(cli.command, Command::Broker(_));
    let mosquitto = match &cli.command {
        Command::Broker(args) => args.read_mosquitto()?,
        _ => None,
    };
    if let Some(path) = mosquitto.as_ref().and_then(MosquittoFile::log_file) {
        cli.log.default_to(path);
    }
    let log = log::init(&cli.log, is_broker)?;
    match cli.command {
        Command::Broker(args) => broker::run(args, mosquitto.as_ref(), &log),
        Command::Passwd(args) => passwd::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Token(args) => token::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Ctl(args) => ctl::run(&args),
        Command::Store(args) => store::run(args),
        Command::Import(args) => import::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Agent(args) => agent::run(&args, VERSION).map(|()| ExitCode::SUCCESS),
        Command::Flow(args) => Ok(flow::run(&args)),
        Command::Pub(args) => Ok(pubsub::publish(&args)),
        Command::Sub(args) => Ok(pubsub::subscribe(&args)),
        Command::Completions(args) => {
            shell::completions(&args, Cli::command());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(args) => shell::man(&args, Cli::command()).map(|()| ExitCode::SUCCESS),
    }
}
