//! The binary: subcommands only.

mod broker;

use clap::{Parser, Subcommand};

/// The Open MQTT Benchmark Suite as a tool, and a broker built to win it.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Broker(broker::BrokerArgs),
}

fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WEIR_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .init();
    let result = match Cli::parse().command {
        Command::Broker(args) => broker::run(args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error:#}");
            std::process::ExitCode::from(2)
        }
    }
}
