//! Salts of a start.

use super::generations::NoStore;
use weir_store::Settings;

/// What a log is told, with salts of this start.
pub(super) fn seeded(mut settings: Settings) -> Result<Settings, NoStore> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed)
        .map_err(|error| NoStore::Disk { path: "random numbers".into(), error: error.into() })?;
    settings.seed = u64::from_be_bytes(seed);
    Ok(settings)
}
