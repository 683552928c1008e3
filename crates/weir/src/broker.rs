//! `weir broker`: run the broker in the foreground.

use crate::log::Log;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_broker::{Config, ServeError, Server, Verifier};

/// A shard ended by itself, by an error of its event loop or a panic.
const SHARD_ENDED: u8 = 3;

/// Run the MQTT broker in the foreground until SIGTERM or Ctrl-C
///
/// It speaks MQTT 3.1, 3.1.1 and 5.0 over TCP and keeps sessions in memory. Without options it
/// listens on 127.0.0.1:1883. SIGUSR1 writes all counters to the log, and so
/// does SIGHUP, which also opens the log's file again; a control socket ([control]
/// in the configuration) lets weir ctl show clients and counters: see docs/control.md. Clients can
/// subscribe with a condition on the content of messages ($filter/CONDITION/FILTER, or the user
/// property filter), and [[flow]] tables in the configuration derive messages from messages: see
/// docs/flow.md.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Address to listen on, instead of those in the file; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, print it with its defaults, and exit
    #[arg(long)]
    check: bool,
    /// Read a password from standard input, print its verifier for [auth.users], and exit
    #[arg(long, conflicts_with_all = ["listen", "config", "check"])]
    verifier: bool,
}

pub(crate) fn run(args: BrokerArgs, log: &Log) -> anyhow::Result<ExitCode> {
    if args.verifier {
        return print_verifier().map(|()| ExitCode::SUCCESS);
    }
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if !args.listen.is_empty() {
        config.listen = args.listen;
    }
    config.check()?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    if args.check {
        say!("{}", toml::to_string(&config).context("cannot print the configuration")?);
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::bind(&config)?;
    let obeyed = server.stopper().obey_signals(log.reopener());
    obeyed.context("cannot install signal handlers")?;
    for address in server.addresses() {
        tracing::info!("listening on {address}");
    }
    match server.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The log has it.
        Err(ServeError::Shard { .. }) => Ok(ExitCode::from(SHARD_ENDED)),
        Err(error) => Err(error.into()),
    }
}

fn print_verifier() -> anyhow::Result<()> {
    let mut password = String::new();
    std::io::stdin().read_line(&mut password).context("cannot read the password")?;
    let password = password.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(!password.is_empty(), "no password on standard input");
    sayln!("{}", Verifier::generate(password).context("no random source")?);
    Ok(())
}
