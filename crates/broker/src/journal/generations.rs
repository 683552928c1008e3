//! The folder of a broker: a generation of logs, one for each shard of the broker that wrote it.
//!
//! Each start reads the generation that is there and writes the next one, with as many logs as
//! there are shards now. It counts from when it has its name; then the one before goes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use weir_core::NoPage;
use weir_store::disk::{Disk, Folder, NoFolder};
use weir_store::{Damage, FileName, NotOpened, SegmentNumber};

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

/// The broker's folder, locked for as long as this is there.
#[derive(Debug)]
pub(crate) struct Generations {
    root: PathBuf,
    /// The number of the one that counts; 0 if there is none.
    current: u64,
    _lock: Folder,
}

const GENERATION: &str = "generation-";

const UNFINISHED: &str = "new";

/// What a generation is called that was damaged, behind its number.
const ASIDE: &str = "damaged";

impl Generations {
    /// Makes the folder if there is none, and removes what a start before has not finished.
    pub(super) fn open(root: &Path) -> Result<Self, NoStore> {
        let lock = Folder::open(root)?;
        let (numbers, unfinished) = list(root)?;
        unfinished.iter().try_for_each(|path| remove(path))?;
        let current = numbers.iter().copied().max().unwrap_or(0);
        let generations = Self { root: root.into(), current, _lock: lock };
        for number in numbers.into_iter().filter(|&number| number != current) {
            remove(&generations.path(number))?;
        }
        Ok(generations)
    }

    /// Opens a store that is there, to read it only.
    pub(super) fn open_to_read(root: &Path) -> Result<Self, NoStore> {
        let lock = Folder::open_to_read(root)?;
        let (numbers, _) = list(root)?;
        let current = numbers.into_iter().max().ok_or_else(|| NoStore::NotAStore(root.into()))?;
        Ok(Self { root: root.into(), current, _lock: lock })
    }

    /// Opens a store that is there, to write it anew.
    pub(super) fn open_to_salvage(root: &Path) -> Result<Self, NoStore> {
        // One that is not there is not made.
        drop(Self::open_to_read(root)?);
        Self::open(root)
    }

    /// The number of the generation that counts; 0 if there is none.
    pub(super) fn current(&self) -> u64 {
        self.current
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
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
