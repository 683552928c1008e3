//! `weir import`: another broker's configuration, in Weir's words.

use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_broker::MosquittoFile;
use weir_say::say;

/// Print another broker's configuration in Weir's words
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a mosquitto.conf as a configuration file of Weir
    ///
    /// Files of its include_dir are read as well. Lines that are not taken, or mean something else,
    /// stand behind it as comments, those without which more people would come in or do more first.
    /// weir broker --mosquitto FILE runs such a file as it is; weir store import reads
    /// mosquitto.db.
    ///
    /// Example: weir import mosquitto /etc/mosquitto/mosquitto.conf > weir.toml
    Mosquitto {
        /// Mosquitto's configuration file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let Command::Mosquitto { file } = &args.command;
    say!("{}", MosquittoFile::read(file)?);
    Ok(ExitCode::SUCCESS)
}
