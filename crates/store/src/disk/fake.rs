//! A disk in memory that fails as disks do, from a seed.

use super::{Disk, FileName};
use crate::format::SECTOR;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use weir_chance::Chance;

/// What goes wrong, each once in so many times; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A write reaches the disk by itself, in parts and in any order.
    pub write_back: usize,
    /// A sync says that it has done what it has not.
    pub lying_sync: usize,
    /// A sync fails, and what it should have written counts as written.
    pub failing_sync: usize,
    /// A write does a part of its work and fails.
    pub short_write: usize,
    /// There is no space for a file.
    pub no_space: usize,
    /// No file takes what the disk has not: in bytes.
    pub bytes_max: Option<u64>,
}

/// How the broker and its machine go down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process ends: what it wrote is still to be read, synced or not.
    Process,
    /// The power fails: of each sector that was not synced, the old or the new content is there, or
    /// the front of the new and the rest of the old.
    Power,
}

/// A disk in memory.
#[derive(Clone, Debug)]
pub struct FakeDisk {
    /// What goes wrong.
    pub faults: Faults,
    chance: Chance,
    files: BTreeMap<usize, File>,
    next_file: usize,
    names: BTreeMap<FileName, usize>,
    safe_names: BTreeMap<FileName, usize>,
    /// Changes of names since the folder was synced.
    changes: Vec<Change>,
    /// So many operations are done before the machine stops.
    fuse: Option<usize>,
    syncs: u64,
}

#[derive(Clone, Debug)]
struct File {
    /// What can be read.
    cached: Vec<u8>,
    /// What is on the disk.
    safe: Vec<u8>,
    dirty: BTreeSet<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Name(FileName, usize),
    Rename(FileName, FileName),
    Remove(FileName),
}

impl FakeDisk {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> Self {
        Self {
            faults: Faults::default(),
            chance: Chance::new(seed),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            changes: Vec::new(),
            fuse: None,
            syncs: 0,
        }
    }

    /// The machine stops after so many operations more: all others fail.
    pub fn stop_after(&mut self, operations: usize) {
        self.fuse = Some(operations);
    }

    /// Whether the machine has stopped.
    pub fn has_stopped(&self) -> bool {
        self.fuse == Some(0)
    }

    /// Syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// The process or the machine goes down, and comes up again.
    pub fn crash(&mut self, crash: Crash) {
        self.fuse = None;
        if crash == Crash::Process {
            return;
        }
        let kept = self.chance.below(self.changes.len() + 1);
        for change in std::mem::take(&mut self.changes).into_iter().take(kept) {
            change.apply(&mut self.safe_names);
        }
        self.names = self.safe_names.clone();
        for file in self.files.values_mut() {
            for sector in std::mem::take(&mut file.dirty) {
                let torn = match self.chance.below(3) {
                    0 => 0,
                    1 => SECTOR,
                    _ => self.chance.below(SECTOR),
                };
                file.keep(sector, torn);
            }
            file.cached.clone_from(&file.safe);
        }
        self.drop_nameless();
    }

    /// Turns a bit of a file, on the disk and in what can be read.
    pub fn rot(&mut self, name: FileName, at: u64, bit: u8) {
        if let Some(file) = self.names.get(&name).and_then(|id| self.files.get_mut(id)) {
            file.cached[at as usize] ^= 1 << (bit % 8);
            file.safe[at as usize] ^= 1 << (bit % 8);
        }
    }

    /// Leaves so many bytes of a file.
    pub fn cut(&mut self, name: FileName, bytes: usize) {
        if let Some(file) = self.names.get(&name).and_then(|id| self.files.get_mut(id)) {
            file.cached.truncate(bytes);
            file.safe.truncate(bytes);
        }
    }

    /// What can be read of a file.
    pub fn content(&self, name: FileName) -> Option<&[u8]> {
        self.names.get(&name).map(|id| &*self.files[id].cached)
    }

    fn drop_nameless(&mut self) {
        let named: BTreeSet<_> = self.names.values().chain(self.safe_names.values()).collect();
        let changed: BTreeSet<_> = self.changes.iter().filter_map(Change::file).collect();
        self.files.retain(|id, _| named.contains(id) || changed.contains(id));
    }

    fn step(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => Err(io::Error::other("the machine has stopped")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn strikes(&mut self, rarity: usize) -> bool {
        rarity > 0 && self.chance.below(rarity) == 0
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file(&mut self, name: FileName) -> io::Result<&mut File> {
        let id = self.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.files.get_mut(id).expect("a name has a file"))
    }

    fn write(&mut self, name: FileName, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let write_back = self.faults.write_back;
        let file = self.file(name)?;
        let end = offset + bytes.len();
        if end > file.cached.len() {
            return Err(io::Error::other("a write goes beyond the end of the file"));
        }
        file.cached[offset..end].copy_from_slice(bytes);
        file.dirty.extend(offset / SECTOR..end.div_ceil(SECTOR));
        if write_back > 0 {
            self.write_back(name, write_back)?;
        }
        Ok(())
    }

    fn write_back(&mut self, name: FileName, rarity: usize) -> io::Result<()> {
        let mut chance = self.chance.clone();
        let file = self.file(name)?;
        let sectors: Vec<_> =
            file.dirty.iter().copied().filter(|_| chance.below(rarity) == 0).collect();
        for sector in sectors {
            file.keep(sector, SECTOR);
            file.dirty.remove(&sector);
        }
        self.chance = chance;
        Ok(())
    }
}

impl File {
    /// So much of the front of a sector gets to the disk.
    fn keep(&mut self, sector: usize, count: usize) {
        let from = sector * SECTOR;
        let to = (from + count).min(self.cached.len());
        self.safe[from..to].copy_from_slice(&self.cached[from..to]);
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<FileName, usize>) {
        match self {
            Self::Name(name, id) => {
                names.insert(name, id);
            }
            Self::Rename(from, to) => {
                if let Some(id) = names.remove(&from) {
                    names.insert(to, id);
                }
            }
            Self::Remove(name) => {
                names.remove(&name);
            }
        }
    }

    fn file(&self) -> Option<usize> {
        if let Self::Name(_, id) = self { Some(*id) } else { None }
    }
}

impl Disk for FakeDisk {
    fn list(&mut self) -> io::Result<Vec<(FileName, u64)>> {
        self.step()?;
        Ok(self
            .names
            .iter()
            .map(|(&name, id)| (name, self.files[id].cached.len() as u64))
            .collect())
    }

    fn create(&mut self, name: FileName, bytes: u64) -> io::Result<()> {
        self.step()?;
        let taken: u64 = self.names.values().map(|id| self.files[id].cached.len() as u64).sum();
        let is_full = self.faults.bytes_max.is_some_and(|bytes_max| taken + bytes > bytes_max);
        if is_full || self.strikes(self.faults.no_space) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let zeros = vec![0; bytes as usize];
        let id = self.next_file;
        self.next_file += 1;
        let file = File { cached: zeros.clone(), safe: zeros, dirty: BTreeSet::new() };
        self.files.insert(id, file);
        self.change(Change::Name(name, id));
        Ok(())
    }

    fn write_at(&mut self, name: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        if self.strikes(self.faults.short_write) {
            let count = self.chance.below(bytes.len() + 1);
            self.write(name, offset as usize, &bytes[..count])?;
            return Err(io::ErrorKind::WriteZero.into());
        }
        if self.has_stopped() {
            // The last thing that the machine did, it did in part.
            let count = self.chance.below(bytes.len() + 1);
            self.write(name, offset as usize, &bytes[..count])?;
            return Err(io::Error::other("the machine has stopped"));
        }
        self.write(name, offset as usize, bytes)
    }

    fn sync(&mut self, name: FileName) -> io::Result<()> {
        self.step()?;
        self.syncs += 1;
        if self.strikes(self.faults.lying_sync) {
            return Ok(());
        }
        let fails = self.strikes(self.faults.failing_sync);
        let file = self.file(name)?;
        let sectors = std::mem::take(&mut file.dirty);
        if fails {
            return Err(io::Error::other("the disk has failed"));
        }
        sectors.into_iter().for_each(|sector| file.keep(sector, SECTOR));
        Ok(())
    }

    fn read_at(&mut self, name: FileName, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.step()?;
        let file = self.file(name)?;
        let rest = file.cached.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        self.step()?;
        self.file(from)?;
        self.change(Change::Rename(from, to));
        Ok(())
    }

    fn remove(&mut self, name: FileName) -> io::Result<()> {
        self.step()?;
        self.file(name)?;
        self.change(Change::Remove(name));
        Ok(())
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.step()?;
        self.changes.clear();
        self.safe_names.clone_from(&self.names);
        self.drop_nameless();
        Ok(())
    }
}
