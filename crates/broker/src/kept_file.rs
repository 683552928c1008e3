//! A file that is changed as a whole: users, rights, bans, the configuration.
//!
//! Whoever reads it has the old text or the new one, also after a crash. Two who change it at the
//! same time do so one after the other: the file is locked from when it is read until another one
//! is in its place.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often somebody else's lock is looked at, and how long in between: two seconds in all.
const TRIES_MAX: u32 = 100;
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Of a file that is made.
const MODE: u32 = 0o600;

/// The file, locked as long as this lives.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    /// Nothing if it was not there.
    old: Option<File>,
    text: String,
}

impl KeptFile {
    /// Reads it. One that is not there is empty.
    ///
    /// # Errors
    /// It cannot be read, is no text, or somebody else keeps it locked.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A link stays one: what it leads to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        for _ in 0..TRIES_MAX {
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self { path, old: None, text: String::new() });
                }
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(TRY_AGAIN);
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => {}
            }
            // Whoever had the lock may have put another file in its place.
            if is_at(&path, &file.metadata()?) {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                return Ok(Self { path, old: Some(file), text });
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another program keeps it locked"))
    }

    /// Whether it was there.
    pub fn is_there(&self) -> bool {
        self.old.is_some()
    }

    /// What is in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Puts another text in its place, with the owner and permissions that it has; a new file is
    /// its owner's alone.
    ///
    /// # Errors
    /// What the system says. Then the file is as it was.
    pub fn replace(&self, text: &str) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let new = self.path.with_file_name(name);
        let old = self.old.as_ref().map(File::metadata).transpose()?;
        let written = write(&new, text, old.as_ref()).and_then(|()| fs::rename(&new, &self.path));
        if written.is_err() {
            // What failed is said; this is only to leave nothing behind.
            let _ = fs::remove_file(&new);
        }
        written?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn is_at(path: &Path, file: &Metadata) -> bool {
    fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino()))
}

/// Whoever could read the old file can read the new one: root may write it for the broker's user.
fn write(new: &Path, text: &str, old: Option<&Metadata>) -> io::Result<()> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(MODE).open(new);
    let mut out = match open() {
        // One that a crash has left: nobody else with this name runs, and the file is locked.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(new)?;
            open()?
        }
        opened => opened?,
    };
    if let Some(old) = old {
        let made = out.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            fchown(&out, Some(old.uid()), Some(old.gid()))?;
        }
        out.set_permissions(old.permissions())?;
    }
    out.write_all(text.as_bytes())?;
    out.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_replaced_with_its_mode_and_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("users"), folder.path().join("link"));
        let kept = KeptFile::open(&path).unwrap();
        assert!(!kept.is_there() && kept.text().is_empty());
        kept.replace("one\n").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        fs::write(folder.path().join(format!("users.{}.new", std::process::id())), "x").unwrap();
        let kept = KeptFile::open(&link).unwrap();
        assert_eq!(kept.text(), "one\n");
        kept.replace("two\n").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two\n", 0o640));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn many_who_add_a_line_each_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, "").unwrap();
        let add = |nth: usize| {
            let kept = KeptFile::open(&path).unwrap();
            kept.replace(&format!("{}{nth}\n", kept.text())).unwrap();
        };
        std::thread::scope(|scope| {
            for nth in 0..8 {
                let add = &add;
                scope.spawn(move || (0..5).for_each(|at| add(nth * 5 + at)));
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        lines.sort_unstable();
        assert_eq!(lines, (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_stays_locked_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, "a").unwrap();
        let _held = KeptFile::open(&path).unwrap();
        let error = KeptFile::open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
