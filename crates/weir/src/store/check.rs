//! `weir store check`.

use super::{DAMAGED, counted};
use std::path::Path;
use std::process::ExitCode;
use weir_broker::{Amounts, LogCheck, StoreReader};
use weir_say::sayln;

pub(super) fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    let reader = StoreReader::open(folder)?;
    let logs = reader.logs();
    let count = counted(logs.len() as u64, "log", "logs");
    sayln!("{}: generation {}, {count}", folder.display(), reader.generation());
    let (mut all, mut damages) = (Amounts::default(), Vec::new());
    for mut check in reader.check()? {
        sayln!("{}", line(&check));
        all = all.plus(check.amounts);
        damages.append(&mut check.damages);
    }
    sayln!("{}", amounts(all));
    if damages.is_empty() {
        sayln!("whole: every checksum is right, and every record fits those before it");
        return Ok(ExitCode::SUCCESS);
    }
    for damaged in &damages {
        sayln!("DAMAGED: {damaged}");
    }
    sayln!(
        "the broker does not start with it; `weir store salvage {}` goes on without what is \
         damaged, and says what that is",
        folder.display()
    );
    Ok(ExitCode::from(DAMAGED))
}

fn line(check: &LogCheck) -> String {
    let LogCheck { shard, segments, file_bytes, records, cut_bytes, .. } = check;
    let segments = counted(*segments as u64, "file with records", "files with records");
    let records = counted(*records, "record", "records");
    let torn = match cut_bytes {
        0 => String::new(),
        bytes => format!(", and {bytes} bytes of a commit that a crash interrupted: they are cut"),
    };
    format!("log {shard}: {segments}, {file_bytes} bytes with spares, {records}{torn}")
}

/// In a line.
pub(super) fn amounts(amounts: Amounts) -> String {
    let Amounts { sessions, subscriptions, queued, in_flight, retained } = amounts;
    format!(
        "{}, {}, {}, {} in flight, {}",
        counted(sessions, "session", "sessions"),
        counted(subscriptions, "subscription", "subscriptions"),
        counted(queued, "queued message", "queued messages"),
        in_flight,
        counted(retained, "retained message", "retained messages"),
    )
}
