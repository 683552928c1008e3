//! What a generation says of itself, in a file that is the last to be written: so a folder without
//! it was never whole, and one with fewer logs than it names no longer is.

use super::no_store::NoStore;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The file's name.
const NAME: &str = "generation.json";

/// The form that this program writes, and the only one it reads.
const FORMAT: u32 = 1;

/// How many logs a generation has, and whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    /// The number that all files of a store have, and no other's.
    pub(super) store: u64,
    /// The shards that wrote it, from 0 on.
    pub(super) logs: u16,
}

impl Manifest {
    pub(super) fn new(store: u64, logs: u16) -> Self {
        Self { format: FORMAT, store, logs }
    }

    /// Writes it into a generation, and returns when it is on the disk.
    pub(super) fn write(&self, generation: &Path) -> std::io::Result<()> {
        let mut file = File::create(generation.join(NAME))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()
    }

    /// What a generation says of itself.
    pub(super) fn read(generation: &Path) -> Result<Self, NoStore> {
        let not_whole = |why: String| NoStore::NotWhole { path: generation.into(), why };
        let path = generation.join(NAME);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(not_whole(format!(
                    "it has no file {NAME}, so it was never whole; move it away to go on without it"
                )));
            }
            bytes => bytes.map_err(NoStore::disk(&path))?,
        };
        let manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|error| not_whole(format!("{NAME} cannot be read: {error}")))?;
        if manifest.format != FORMAT {
            let format = manifest.format;
            return Err(not_whole(format!(
                "{NAME} has format {format}, and this program knows format {FORMAT} only"
            )));
        }
        Ok(manifest)
    }
}
