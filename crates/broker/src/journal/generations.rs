//! The folder of a broker: a generation of logs, one for each shard of the broker that wrote it.
//!
//! Each start reads the generation that is there and writes the next one, with as many logs as
//! there are shards now. It counts from when it has its name; then the one before goes.

use super::manifest::Manifest;
use super::no_store::{GENERATION, NoStore};
use super::seeded;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use weir_store::disk::{Disk, Folder};
use weir_store::{FileName, Log};

/// Logs, with the shards that wrote them.
pub(super) type Logs = Vec<(u16, PathBuf)>;

const STRANGE: &str = "files in it are of another store";

/// The broker's folder, locked for as long as this is there.
#[derive(Debug)]
pub(crate) struct Generations {
    root: PathBuf,
    /// The number of the one that counts; 0 if there is none.
    current: u64,
    /// The number that all files of the store have.
    store: u64,
    /// How many logs the one that counts says that it has.
    count: u16,
    /// Whether a generation is being written.
    is_writing: Cell<bool>,
    _lock: Folder,
}

impl Drop for Generations {
    /// What was not finished takes room that somebody may need.
    fn drop(&mut self) {
        if self.is_writing.get() {
            let _ = std::fs::remove_dir_all(self.unfinished());
        }
    }
}

const UNFINISHED: &str = "new";

/// The file of bans that are added by `weir ctl`, beside the generations.
pub(crate) const ADDED_BANS_FILE: &str = "bans.toml";

/// The folder of the pages of queues, beside the generations.
pub(super) const PAGES: &str = "pages";

/// The folders of the copies of other nodes' logs, and of the stores of stand-ins.
pub(crate) const COPIES: &str = "copies";
pub(crate) const STAND_INS: &str = "stand-ins";

/// What a generation is called that was damaged, behind its number.
const ASIDE: &str = "damaged";

impl Generations {
    /// Makes the folder if there is none, and removes what a start before has not finished. Says
    /// which logs count.
    pub(super) fn open(root: &Path) -> Result<(Self, Logs), NoStore> {
        let generations = Self::lock(root)?;
        // Nothing goes before it is known that the last one is whole.
        let logs = generations.logs()?;
        generations.clear()?;
        Ok((generations, logs))
    }

    fn lock(root: &Path) -> Result<Self, NoStore> {
        if root.exists() {
            refuse_others(root)?;
        }
        Self::of(root, Folder::open(root)?)
    }

    /// The one that counts has the highest number.
    fn of(root: &Path, lock: Folder) -> Result<Self, NoStore> {
        let (numbers, _) = list(root)?;
        let current = numbers.into_iter().max().unwrap_or(0);
        let Manifest { store, logs: count, .. } = match current {
            0 => Manifest::new(seeded::random()?, 0),
            _ => Manifest::read(&folder_of(root, current))?,
        };
        let is_writing = Cell::default();
        Ok(Self { root: root.into(), current, store, count, is_writing, _lock: lock })
    }

    /// Removes what does not count.
    fn clear(&self) -> Result<(), NoStore> {
        let (numbers, unfinished) = list(&self.root)?;
        unfinished.iter().try_for_each(|path| remove(path))?;
        let before = numbers.into_iter().filter(|&number| number != self.current);
        before.map(|number| self.path(number)).try_for_each(|path| remove(&path))
    }

    /// Opens a store that is there, to read it only.
    pub(super) fn open_to_read(root: &Path) -> Result<Self, NoStore> {
        let generations = Self::of(root, Folder::open_to_read(root)?)?;
        match generations.current {
            0 => Err(NoStore::NotAStore(root.into())),
            _ => Ok(generations),
        }
    }

    /// Opens a store that is there, to write it anew.
    pub(super) fn open_to_salvage(root: &Path) -> Result<Self, NoStore> {
        // One that is not there is not made.
        drop(Self::open_to_read(root)?);
        let generations = Self::lock(root)?;
        generations.clear()?;
        Ok(generations)
    }

    /// The number of the generation that counts; 0 if there is none.
    pub(super) fn current(&self) -> u64 {
        self.current
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The number that all files of the store have.
    pub(super) fn store(&self) -> u64 {
        self.store
    }

    /// Takes the number of another store, whose pages are to be taken over.
    pub(super) fn take_over(&mut self, store: u64) {
        self.store = store;
    }

    /// Whether files in a folder of the store say that they are another's.
    fn is_strange(&self, path: &Path) -> Result<bool, NoStore> {
        let mut folder = Folder::open_to_read(path)?;
        let stores = Log::stores(&mut folder).map_err(NoStore::disk(path))?;
        Ok(stores.into_iter().any(|store| store != self.store))
    }

    /// Refuses a folder of the store with files that are another's.
    pub(super) fn refuse_strangers(&self, path: &Path) -> Result<(), NoStore> {
        if self.is_strange(path)? {
            return Err(NoStore::NotWhole { path: path.into(), why: STRANGE.into() });
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        folder_of(&self.root, number)
    }

    fn unfinished(&self) -> PathBuf {
        self.root.join(format!("{GENERATION}{}.{UNFINISHED}", self.current + 1))
    }

    /// The logs that count, with the shards that wrote them: all of them, or none is read.
    pub(super) fn logs(&self) -> Result<Logs, NoStore> {
        let (logs, missing) = self.logs_there()?;
        match missing.into_iter().next() {
            None => Ok(logs),
            Some((path, why)) => {
                let root = self.root.display();
                let advice = format!("`weir store salvage {root}` goes on without it");
                let why = format!("{why}; put it back from a copy, or {advice}");
                Err(NoStore::NotWhole { path, why })
            }
        }
    }

    /// The logs that count and can be read, and the others, each with why it cannot.
    pub(super) fn logs_there(&self) -> Result<(Logs, Vec<(PathBuf, String)>), NoStore> {
        let (mut logs, mut missing) = (Vec::new(), Vec::new());
        for shard in 0..self.count {
            let path = self.path(self.current).join(shard.to_string());
            if !path.is_dir() {
                missing.push((path, format!("the log of thread {shard} is not there")));
            } else if self.is_strange(&path)? {
                missing.push((path, STRANGE.into()));
            } else {
                logs.push((shard, path));
            }
        }
        Ok((logs, missing))
    }

    /// The folder of a shard's log in the next generation. Files without content come along from
    /// the one before: to write as many zeros anew is what would take a start the longest.
    pub(super) fn next(&self, shard: u16) -> Result<Folder, NoStore> {
        let path = self.unfinished();
        self.is_writing.set(true);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(NoStore::Disk { path, error });
            }
            _ => {}
        }
        let shard = shard.to_string();
        let folder = Folder::open(&path.join(&shard))?;
        let before = self.path(self.current).join(shard);
        move_spares(&before, folder.path()).map_err(NoStore::disk(&before))?;
        Ok(folder)
    }

    /// The next generation is whole, and on the disk: it counts from now on.
    pub(super) fn finish(&mut self) -> Result<(), NoStore> {
        let (from, to) = (self.unfinished(), self.path(self.current + 1));
        let sync = |path: &Path| File::open(path)?.sync_all();
        let rename = || {
            let logs = std::fs::read_dir(&from)?.count() as u16;
            Manifest::new(self.store, logs).write(&from)?;
            sync(&from)?;
            std::fs::rename(&from, &to)?;
            sync(&self.root).map(|()| logs)
        };
        self.count = rename().map_err(NoStore::disk(&self.root))?;
        self.is_writing.set(false);
        let before = self.path(self.current);
        self.current += 1;
        if self.current > 1 { remove(&before) } else { Ok(()) }
    }

    /// As [`Generations::finish`], but the generation before is kept under a name that no start
    /// looks at, which this returns.
    pub(super) fn finish_aside(&mut self) -> Result<PathBuf, NoStore> {
        let aside = self.root.join(format!("{GENERATION}{}.{ASIDE}", self.current));
        // It has both names for a while, so that a crash leaves neither no generation that counts
        // nor this one to the next start, which would remove it.
        link_all(&self.path(self.current), &aside).map_err(NoStore::disk(&aside))?;
        self.finish()?;
        Ok(aside)
    }
}

fn folder_of(root: &Path, number: u64) -> PathBuf {
    root.join(format!("{GENERATION}{number}"))
}

/// Moves the spares of a log to another one. None of them matters to the log that they are taken
/// from.
fn move_spares(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        if let Some(FileName::Spare(_)) = name.to_str().and_then(FileName::parse) {
            std::fs::rename(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// Gives all files of a folder and of those in it another name.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &to)?;
        } else {
            match std::fs::hard_link(entry.path(), to) {
                // A salvage before this one did not come to its end.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked?,
            }
        }
    }
    File::open(to)?.sync_all()
}

/// What may be in the folder of a store that has no generation yet: a start that was ended early
/// leaves it, or the file system has it.
const OWN: [&str; 6] = ["lock", PAGES, "lost+found", ADDED_BANS_FILE, COPIES, STAND_INS];

/// Refuses a folder that has something, and no generation: nobody wants a broker's files there.
fn refuse_others(root: &Path) -> Result<(), NoStore> {
    let mut other = None;
    for entry in std::fs::read_dir(root).map_err(NoStore::disk(root))? {
        let name = entry.map_err(NoStore::disk(root))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(GENERATION) {
            return Ok(());
        }
        if !OWN.contains(&&*name) {
            other = Some(name.into_owned());
        }
    }
    other.map_or(Ok(()), |name| Err(NoStore::NotEmpty { path: root.into(), name }))
}

/// Whether a folder has a generation that counts.
pub(crate) fn is_store(root: &Path) -> bool {
    list(root).is_ok_and(|(numbers, _)| !numbers.is_empty())
}

/// The numbers of the generations in a folder, and what was not finished. The highest has its name
/// because it is whole.
fn list(root: &Path) -> Result<(Vec<u64>, Vec<PathBuf>), NoStore> {
    let (mut numbers, mut unfinished) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(root).map_err(NoStore::disk(root))? {
        let path = entry.map_err(NoStore::disk(root))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(number) = name.strip_prefix(GENERATION) else { continue };
        match number.parse() {
            Ok(number) => numbers.push(number),
            Err(_) if number.ends_with(UNFINISHED) => unfinished.push(path),
            Err(_) => {}
        }
    }
    Ok((numbers, unfinished))
}

fn remove(path: &Path) -> Result<(), NoStore> {
    std::fs::remove_dir_all(path).map_err(NoStore::disk(path))
}

/// Bytes of a log's files.
pub(super) fn file_bytes(path: &Path) -> Result<u64, NoStore> {
    let files = Folder::open_to_read(path)?.list().map_err(NoStore::disk(path))?;
    let counts = |name: &FileName| !matches!(name, FileName::Damaged(_));
    Ok(files.iter().filter(|(name, _)| counts(name)).map(|(_, bytes)| bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spares_come_along_to_the_next_generation_and_nothing_else_does() {
        let root = tempfile::tempdir().unwrap();
        let mut generations = Generations::lock(root.path()).unwrap();
        let names = ["0000000001.log", "0000000002.spare", "0000000003.new"];
        let first = generations.next(0).unwrap();
        names.into_iter().for_each(|name| std::fs::write(first.path().join(name), "").unwrap());
        drop(first);
        generations.finish().unwrap();
        let mut second = generations.next(0).unwrap();
        assert_eq!(second.list().unwrap(), [(FileName::Spare(2), 0)]);
        // A shard that there was none of.
        assert!(generations.next(1).unwrap().list().unwrap().is_empty());
    }
}
