//! Why a broker cannot have its folder, or what is in it.

use std::path::{Path, PathBuf};
use std::{fmt, io};
use weir_core::NoPage;
use weir_store::disk::NoFolder;
use weir_store::{Damage, FileName, NotOpened, SegmentNumber};

/// What the folders of generations are called, before their number.
pub(super) const GENERATION: &str = "generation-";

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
    #[error(
        "{path} is no store of Weir's, and not empty: it has {name:?}; give a folder of its own",
        path = .path.display()
    )]
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

    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self::Disk { path: path.into(), error }
    }
}
