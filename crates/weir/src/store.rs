//! `weir store`: what a broker keeps on the disk, looked at, salvaged, or made of another's.

mod check;
mod dump;
mod import;
mod salvage;

use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;

/// Something is damaged, or was left out.
const DAMAGED: u8 = 1;

/// Work on the store of a broker that does not run: check, print, salvage, import
///
/// A store is the folder of `weir broker --store DIR`. A running broker keeps it to itself, so stop
/// it before. docs/durability.md says what is in it and what to do when something goes wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read all of a store, with every checksum, and say what is there
    ///
    /// Nothing is changed. Exit code 0: the store is whole; 1: something is damaged, and the lines
    /// say which file and byte; 2: it cannot be read, or a broker has it.
    ///
    /// Example: weir store check /var/lib/weir
    Check(FolderArgs),
    /// Print a store as JSON, an object on a line
    ///
    /// Without options, every record of every log in its order: what happened since the log was
    /// last written anew. A payload that is not UTF-8 is printed as payload_base64. Times are
    /// microseconds since 1970. Exit code 1: something is damaged; what is whole is printed.
    ///
    /// Example: weir store dump --sessions /var/lib/weir | jq .client_id
    Dump(dump::DumpArgs),
    /// Write a store anew without what is damaged, and say what is lost
    ///
    /// Each line names the file and the byte, the records, and the clients whose sessions or
    /// messages they were, as far as that is known. The damaged generation stays beside the new one
    /// as generation-N.damaged, with these lines in salvage.txt. With --to, the store itself is
    /// left
    /// alone. Exit code 0: nothing was damaged, and nothing was done; 1: the store was salvaged; 2:
    /// it cannot be.
    ///
    /// Example: weir store salvage /var/lib/weir --to /var/lib/weir-salvaged
    Salvage(salvage::SalvageArgs),
    /// Make a store of Mosquitto's persistence file
    ///
    /// FILE is mosquitto.db of Mosquitto 1.6 to 2.1, as it leaves it when it stops, or on SIGUSR1.
    /// Retained messages, sessions with their expiry, subscriptions, and what is queued or in
    /// flight
    /// become a store that `weir broker --store DIR` starts with. What is left out is counted;
    /// docs/switching.md says what does not carry over.
    ///
    /// Example: weir store import /var/lib/mosquitto/mosquitto.db --to /var/lib/weir
    Import(import::ImportArgs),
}

#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// The broker's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check(args) => check::run(&args.folder),
        Command::Dump(args) => dump::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Import(args) => import::run(&args),
    }
}

/// A number with its unit in the plural where it is one.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
