//! The folder of a broker: a generation of logs, one for each shard of the broker that wrote it.
//!
//! Each start reads the generation that is there and writes the next one, with as many logs as
//! there are shards now. It counts from when it has its name; then the one before goes.

use super::manifest::Manifest;
use super::seeded;
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use weir_core::NoPage;
use weir_store::disk::{Disk, Folder, NoFolder};
use weir_store::{Damage, FileName, Log, NotOpened, SegmentNumber};

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
    /// What was acknowledged is not there as it was written.
    #[error(
        "store: {damaged}; `weir store check {root}` says what else is, and `weir store salvage \
         {root}` goes on without it", root = .root.display()
    )]
    Damaged {
        /// The broker's folder.
        root: PathBuf,
        /// Where, and what is wrong.
        damaged: Damaged,
    },
    /// There is nothing that a broker has written.
    #[error("{path} is not a store of Weir's: it has no folder generation-1, or of a later number",
        path = .0.display())]
    NotAStore(PathBuf),
    /// A generation has fewer logs than it had, or others, or was never finished.
    #[error("store: {path}: {why}", path = .path.display())]
    NotWhole {
        /// The folder of the generation.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A folder of something else.
    #[error("{path} is no store of Weir's, and not empty: it has {name:?}; give a folder of its own",
        path = .path.display())]
    NotEmpty {
        /// Which folder.
        path: PathBuf,
        /// Something that is in it.
        name: String,
    },
    /// There is a store already.
    #[error("{path} is a store already; give a folder that is none", path = .0.display())]
    IsAStore(PathBuf),
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
    /// A page has less on it than was.
    #[error("store: {0}")]
    Short(String),
    /// The disk.
    #[error("store: {path}: {error}", path = .path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Where a log is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u32,
    /// What is wrong with the record there, if it is whole.
    pub why: Option<String>,
}

impl fmt::Display for Damaged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is damaged at byte {}", self.file.display(), self.offset)?;
        match &self.why {
            Some(why) => write!(out, ": {why}"),
            None => Ok(()),
        }
    }
}

impl Damaged {
    /// In the segment of a log.
    pub(super) fn new(log: &Path, segment: SegmentNumber, offset: u32) -> Self {
        let file = log.join(FileName::Segment(segment).to_string());
        Self { file, offset, why: None }
    }
}

impl From<NoPage<NoStore>> for NoStore {
    fn from(why: NoPage<NoStore>) -> Self {
        match why {
            NoPage::Unread(_, why) => why,
            NoPage::Short(_) => Self::Short(why.to_string()),
        }
    }
}

impl NoStore {
    /// The log in this folder was not opened.
    pub(super) fn log(path: &Path, why: NotOpened) -> Self {
        match why {
            NotOpened::Damaged(Damage { segment, offset }) => {
                Self::damaged(path, Damaged::new(path, segment, offset))
            }
            why => Self::Log { path: path.into(), why },
        }
    }

    /// A log of a generation of the broker's folder is damaged, or the log of its pages.
    pub(super) fn damaged(log: &Path, damaged: Damaged) -> Self {
        let is_generation = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(GENERATION))
        };
        let root = log.ancestors().skip(1).find(|path| !is_generation(path)).unwrap_or(log);
        Self::Damaged { root: root.into(), damaged }
    }

    pub(super) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self::Disk { path: path.into(), error }
    }
}

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

const GENERATION: &str = "generation-";

const UNFINISHED: &str = "new";

/// What a generation is called that was damaged, behind its number.
const ASIDE: &str = "damaged";

impl Generations {
    /// Makes the folder if there is none, and removes what a start before has not finished.
    pub(super) fn open(root: &Path) -> Result<Self, NoStore> {
        let generations = Self::lock(root)?;
        // Nothing goes before it is known that the last one is whole.
        generations.logs()?;
        generations.clear()?;
        Ok(generations)
    }

    fn lock(root: &Path) -> Result<Self, NoStore> {
        if root.exists() {
            refuse_others(root)?;
        }
        let lock = Folder::open(root)?;
        let (numbers, _) = list(root)?;
        let current = numbers.into_iter().max().unwrap_or(0);
        let mut generations =
            Self { root: root.into(), current, store: 0, is_writing: Cell::default(), _lock: lock };
        generations.store = match current {
            0 => seeded::random()?,
            _ => generations.manifest()?.store,
        };
        Ok(generations)
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
        let lock = Folder::open_to_read(root)?;
        let (numbers, _) = list(root)?;
        let current = numbers.into_iter().max().ok_or_else(|| NoStore::NotAStore(root.into()))?;
        let mut generations =
            Self { root: root.into(), current, store: 0, is_writing: Cell::default(), _lock: lock };
        generations.store = generations.manifest()?.store;
        Ok(generations)
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
        self.root.join(format!("generation-{number}"))
    }

    fn unfinished(&self) -> PathBuf {
        self.root.join(format!("generation-{}.{UNFINISHED}", self.current + 1))
    }

    fn manifest(&self) -> Result<Manifest, NoStore> {
        Manifest::read(&self.path(self.current))
    }

    /// The logs that count, with the shards that wrote them: all of them, or none is read.
    pub(super) fn logs(&self) -> Result<Vec<(u16, PathBuf)>, NoStore> {
        let (logs, missing) = self.logs_there()?;
        match missing.into_iter().next() {
            None => Ok(logs),
            Some((path, why)) => {
                let root = self.root.display();
                let why = format!(
                    "{why}; put it back from a copy, or `weir store salvage {root}` goes on without it"
                );
                Err(NoStore::NotWhole { path, why })
            }
        }
    }

    /// The logs that count and can be read, and the others, each with why it cannot.
    pub(super) fn logs_there(&self) -> Result<(Logs, Vec<(PathBuf, String)>), NoStore> {
        let (mut logs, mut missing) = (Vec::new(), Vec::new());
        if self.current == 0 {
            return Ok((logs, missing));
        }
        for shard in 0..self.manifest()?.logs {
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

    /// The folder of a shard's log in the next generation.
    pub(super) fn next(&self, shard: u16) -> Result<Folder, NoStore> {
        let path = self.unfinished();
        self.is_writing.set(true);
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
            let logs = std::fs::read_dir(&from)?.count() as u16;
            Manifest::new(self.store, logs).write(&from)?;
            sync(&from)?;
            std::fs::rename(&from, &to)?;
            sync(&self.root)
        };
        rename().map_err(NoStore::disk(&self.root))?;
        self.is_writing.set(false);
        let before = self.path(self.current);
        self.current += 1;
        if self.current > 1 { remove(&before) } else { Ok(()) }
    }

    /// As [`Generations::finish`], but the generation before is kept under a name that no start
    /// looks at, which this returns.
    pub(super) fn finish_aside(&mut self) -> Result<PathBuf, NoStore> {
        let aside = self.root.join(format!("generation-{}.{ASIDE}", self.current));
        // It has both names for a while, so that a crash leaves neither no generation that counts
        // nor this one to the next start, which would remove it.
        link_all(&self.path(self.current), &aside).map_err(NoStore::disk(&aside))?;
        self.finish()?;
        Ok(aside)
    }
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

/// What may be in the folder of a store that has no generation yet: a start that was ended early leaves
/// it, or the file system has it.
const OWN: [&str; 3] = ["lock", super::pages::FOLDER, "lost+found"];

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
