//! Random numbers of a start: salts of its logs, and the number of a new store.

use super::no_store::NoStore;
use weir_store::Settings;

/// What a log of this store is told, with salts of this start.
pub(super) fn seeded(mut settings: Settings, store: u64) -> Result<Settings, NoStore> {
    (settings.seed, settings.store) = (random()?, store);
    Ok(settings)
}

pub(super) fn random() -> Result<u64, NoStore> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| NoStore::Disk { path: "random numbers".into(), error: error.into() })?;
    Ok(u64::from_be_bytes(bytes))
}
