//! `weir broker`: run the broker in the foreground.

use anyhow::Context;
use std::path::PathBuf;
use weir_broker::{Config, Server};

/// Run the MQTT broker in the foreground, until SIGTERM or Ctrl-C.
///
/// MQTT 3.1, 3.1.1 and 5.0 over TCP, sessions in memory. Without options it listens on
/// 127.0.0.1:1883.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Address to listen on; may be given several times, and replaces those of the file
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, print it with its defaults, and exit
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: BrokerArgs) -> anyhow::Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if !args.listen.is_empty() {
        config.listen = args.listen;
    }
    config.check()?;
    if args.check {
        print!("{}", toml::to_string(&config).context("cannot print the configuration")?);
        return Ok(());
    }
    let server = Server::bind(&config)?;
    server.stopper().stop_at_signals().context("cannot install signal handlers")?;
    for address in server.addresses() {
        tracing::info!("listening on {address}");
    }
    Ok(server.run()?)
}
