//! A folder of the file system.

use super::{Disk, FileName};
use rustix::fs::{self, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Files that are kept open: the segment that is written, a spare, and what is read.
const OPEN_MAX: usize = 16;
/// The file that says that the folder is in use.
const LOCK: &str = "lock";

/// A folder of the file system, locked for as long as it is open.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    /// Its lock is the folder's. A copy that nobody ever wrote to may have none.
    _lock: Option<OwnedFd>,
    /// How its files are opened.
    access: OFlags,
    /// The one used last is at the end.
    open: VecDeque<(FileName, OwnedFd)>,
}

/// Why a folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NoFolder {
    /// Another process has it.
    #[error("{path} is in use by another process, such as a running broker", path = .0.display())]
    InUse(PathBuf),
    /// Nothing can be written there.
    #[error("{path} cannot be written: {error}", path = .path.display())]
    ReadOnly {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another error of the system.
    #[error("{path}: {error}", path = .path.display())]
    Other {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl Folder {
    /// Makes the folder, if there is none, and locks it.
    pub fn open(path: &Path) -> Result<Self, NoFolder> {
        let refused = |error: Errno| match error {
            Errno::ROFS | Errno::ACCESS | Errno::PERM => {
                NoFolder::ReadOnly { path: path.into(), error: error.into() }
            }
            error => not_had(path, error),
        };
        match fs::mkdir(path, Mode::RWXU) {
            // The folder itself has to outlive a power cut, too.
            Ok(()) => sync_parent(path).map_err(refused)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(refused(error)),
        }
        let folder = fs::open(path, FOLDER, Mode::empty()).map_err(refused)?;
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        let lock = fs::openat(&folder, LOCK, access | OFlags::CREATE, FILE_MODE);
        let lock = lock.map_err(refused)?;
        fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(refused)?;
        Ok(Self { path: path.into(), folder, _lock: Some(lock), access, open: VecDeque::new() })
    }

    /// Opens a folder that is there, to read it only: nothing is made, and others may read it at
    /// the same time. Whoever would write to it is refused meanwhile.
    pub fn open_to_read(path: &Path) -> Result<Self, NoFolder> {
        let refused = |error| not_had(path, error);
        let folder = fs::open(path, FOLDER, Mode::empty()).map_err(refused)?;
        let access = OFlags::RDONLY | OFlags::CLOEXEC;
        let lock = match fs::openat(&folder, LOCK, access, Mode::empty()) {
            Err(Errno::NOENT) => None,
            lock => Some(lock.map_err(refused)?),
        };
        if let Some(lock) = &lock {
            fs::flock(lock, FlockOperation::NonBlockingLockShared).map_err(refused)?;
        }
        Ok(Self { path: path.into(), folder, _lock: lock, access, open: VecDeque::new() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&mut self, name: FileName) -> io::Result<&OwnedFd> {
        if let Some(at) = self.open.iter().position(|&(one, _)| one == name) {
            if at + 1 < self.open.len()
                && let Some(entry) = self.open.remove(at)
            {
                self.open.push_back(entry);
            }
        } else {
            let file = fs::openat(&self.folder, name.to_string(), self.access, Mode::empty())?;
            self.keep(name, file);
        }
        Ok(&self.open.back().expect("it was put there").1)
    }

    fn keep(&mut self, name: FileName, file: OwnedFd) {
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((name, file));
    }

    fn forget(&mut self, name: FileName) -> Option<OwnedFd> {
        let at = self.open.iter().position(|&(one, _)| one == name)?;
        self.open.remove(at).map(|(_, file)| file)
    }
}

fn not_had(path: &Path, error: Errno) -> NoFolder {
    match error {
        Errno::WOULDBLOCK => NoFolder::InUse(path.into()),
        error => NoFolder::Other { path: path.into(), error: error.into() },
    }
}

fn sync_parent(path: &Path) -> Result<(), Errno> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::fsync(fs::open(parent.unwrap_or(Path::new(".")), FOLDER, Mode::empty())?)
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Disk for Folder {
    fn list(&mut self) -> io::Result<Vec<(FileName, u64)>> {
        let mut all = Vec::new();
        for entry in fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok().and_then(FileName::parse);
            if let Some(name) = name {
                let stat = fs::statat(&self.folder, entry.file_name(), fs::AtFlags::empty())?;
                if fs::FileType::from_raw_mode(stat.st_mode) != fs::FileType::RegularFile {
                    return Err(io::Error::other(format!("{name} is not a file")));
                }
                all.push((name, u64::try_from(stat.st_size).unwrap_or(0)));
            }
        }
        Ok(all)
    }

    fn create(&mut self, name: FileName, bytes: u64) -> io::Result<()> {
        self.forget(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = fs::openat(&self.folder, name.to_string(), flags, FILE_MODE)?;
        // A file system that cannot reserve space says so; the zeros that follow take it.
        let reserved = match fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP) => fs::ftruncate(&file, bytes),
            other => other,
        };
        if let Err(error) = reserved {
            fs::unlinkat(&self.folder, name.to_string(), fs::AtFlags::empty())?;
            return Err(match error {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => io::ErrorKind::StorageFull.into(),
                error => error.into(),
            });
        }
        self.keep(name, file);
        Ok(())
    }

    fn write_at(&mut self, name: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(name)?;
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::pwrite(file, &bytes[at..], offset + at as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                // A large write may be done in parts; only an error is the end.
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&mut self, name: FileName) -> io::Result<()> {
        Ok(fs::fdatasync(self.file(name)?)?)
    }

    fn read_at(&mut self, name: FileName, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.file(name)?;
        let mut at = 0;
        while at < into.len() {
            match rustix::io::pread(file, &mut into[at..], offset + at as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(at)
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        fs::renameat(&self.folder, from.to_string(), &self.folder, to.to_string())?;
        self.forget(to);
        if let Some(file) = self.forget(from) {
            self.keep(to, file);
        }
        Ok(())
    }

    fn remove(&mut self, name: FileName) -> io::Result<()> {
        self.forget(name);
        Ok(fs::unlinkat(&self.folder, name.to_string(), fs::AtFlags::empty())?)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        Ok(fs::fsync(&self.folder)?)
    }
}
