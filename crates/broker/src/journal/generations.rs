//! The folder of a broker: a generation of logs, one for each shard of the broker that wrote it.
//!
//! Each start reads the generation that is there and writes the next one, with as many logs as
//! there are shards now. It counts from when it has its name; then the one before goes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use weir_store::NotOpened;
use weir_store::disk::{Folder, NoFolder};

/// Why a broker cannot have its folder.
#[derive(Debug, thiserror::Error)]
pub enum NoStore {
    /// The folder, or one in it, cannot be used.
    #[error("the store cannot be used")]
    Folder(#[from] NoFolder),
    /// A log in it cannot be read.
    #[error("store: {path}: {why}", path = .path.display())]
    Log {
        /// The log's folder.
        path: PathBuf,
        /// What is wrong with it.
        why: NotOpened,
    },
    /// A record that is whole makes no sense where it is.
    #[error("store: {path}: {why}", path = .path.display())]
    Record {
        /// The log's folder.
        path: PathBuf,
        /// Which record, and why.
        why: String,
    },
    /// A page of a queue, which a session names, cannot be had.
    #[error("store: {path}: page {page}: {why}", path = .path.display())]
    Page {
        /// The folder of the pages.
        path: PathBuf,
        /// Which page.
        page: String,
        /// What is wrong with it.
        why: String,
    },
    /// The disk.
    #[error("store: {path}: {error}", path = .path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl NoStore {
    pub(super) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self::Disk { path: path.into(), error }
    }
}

/// The broker's folder, locked for as long as this is there.
#[derive(Debug)]
pub(crate) struct Generations {
    root: PathBuf,
    /// The number of the one that counts; 0 if there is none.
    current: u64,
    _lock: Folder,
}

const UNFINISHED: &str = "new";

impl Generations {
    /// Makes the folder if there is none, and removes what a start before has not finished.
    pub(super) fn open(root: &Path) -> Result<Self, NoStore> {
        let lock = Folder::open(root)?;
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(root).map_err(NoStore::disk(root))? {
            let path = entry.map_err(NoStore::disk(root))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(number) = name.strip_prefix("generation-") else { continue };
            match number.parse() {
                Ok(number) => numbers.push(number),
                Err(_) if number.ends_with(UNFINISHED) => remove(&path)?,
                Err(_) => {}
            }
        }
        // The highest has its name because it is whole.
        let current = numbers.iter().copied().max().unwrap_or(0);
        let generations = Self { root: root.into(), current, _lock: lock };
        for number in numbers.into_iter().filter(|&number| number != current) {
            remove(&generations.path(number))?;
        }
        Ok(generations)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.root.join(format!("generation-{number}"))
    }

    fn unfinished(&self) -> PathBuf {
        self.root.join(format!("generation-{}.{UNFINISHED}", self.current + 1))
    }

    /// The logs that count, with the shards that wrote them.
    pub(super) fn logs(&self) -> Result<Vec<(u16, PathBuf)>, NoStore> {
        if self.current == 0 {
            return Ok(Vec::new());
        }
        let path = self.path(self.current);
        let mut logs = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(NoStore::disk(&path))? {
            let path = entry.map_err(NoStore::disk(&path))?.path();
            let shard = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            logs.extend(shard.map(|shard| (shard, path)));
        }
        logs.sort();
        Ok(logs)
    }

    /// The folder of a shard's log in the next generation.
    pub(super) fn next(&self, shard: u16) -> Result<Folder, NoStore> {
        let path = self.unfinished();
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(NoStore::Disk { path, error });
            }
            _ => {}
        }
        Ok(Folder::open(&path.join(shard.to_string()))?)
    }

    /// The next generation is whole, and on the disk: it counts from now on.
    pub(super) fn finish(&mut self) -> Result<(), NoStore> {
        let (from, to) = (self.unfinished(), self.path(self.current + 1));
        let sync = |path: &Path| File::open(path)?.sync_all();
        let rename = || {
            sync(&from)?;
            std::fs::rename(&from, &to)?;
            sync(&self.root)
        };
        rename().map_err(NoStore::disk(&self.root))?;
        let before = self.path(self.current);
        self.current += 1;
        if self.current > 1 { remove(&before) } else { Ok(()) }
    }
}

fn remove(path: &Path) -> Result<(), NoStore> {
    std::fs::remove_dir_all(path).map_err(NoStore::disk(path))
}
