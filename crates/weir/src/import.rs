//! `weir import`: another broker's configuration, in Weir's words.

use anyhow::Context;
use clap::Subcommand;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_broker::MosquittoFile;
use weir_say::{noteln, say};

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
    /// If there are such, a broker does not start with it before a line of it is taken out, and the
    /// exit code is 1.
    /// weir broker --mosquitto FILE runs such a file as it is; weir store import reads
    /// mosquitto.db.
    ///
    /// Passwords of bridges are printed as ***, with which the broker does not start: --output
    /// writes a file that has them, and that only its owner may read.
    ///
    /// Example: weir import mosquitto /etc/mosquitto/mosquitto.conf --output weir.toml
    Mosquitto {
        /// Mosquitto's configuration file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// New file to write it to, passwords included, instead of printing it
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let Command::Mosquitto { file, output } = &args.command;
    let read = MosquittoFile::read(file)?;
    match output {
        Some(output) => write_new(output, &read.whole())
            .with_context(|| format!("cannot write {}", output.display()))?,
        None => {
            say!("{read}");
            if read.has_secrets() {
                noteln!("Passwords are left out (***): --output FILE writes them, too.");
            }
        }
    }
    if read.lacks_guards() {
        noteln!("It lets more in than Mosquitto does, and so does not start yet: see its end.");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// A file that is its owner's alone. One that is there stays as it is.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(text.as_bytes())
}
