//! `weir store import`: Mosquitto's persistence file as a store.

use super::check;
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_broker::{Amounts, StoreWriter};
use weir_core::Micros;
use weir_mosquitto::{Database, Imported};
use weir_say::sayln;

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Mosquitto's mosquitto.db
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The new store's folder; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(super) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportArgs { file, to } = args;
    let name = file.display();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let database = Database::read(&bytes).with_context(|| format!("{name} cannot be imported"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Micros(now.as_micros() as u64);
    let mut writer = StoreWriter::create(to)?;
    let imported =
        database.tell(now, StoreWriter::PAYLOAD_BYTES_MAX, |record| writer.append(record))?;
    writer.finish()?;
    let Imported { version, sessions, subscriptions, queued, in_flight, retained, left_out } =
        imported;
    let amounts = Amounts { sessions, subscriptions, queued, in_flight, retained };
    sayln!("{name}, format {version}: {}", check::amounts(amounts));
    for (what, count) in left_out {
        sayln!("left out or changed: {count} {what}");
    }
    sayln!("start with: weir broker --store {}", to.display());
    Ok(ExitCode::SUCCESS)
}
