//! What this node kept of others' logs before it was started anew: it may serve a node from that
//! which was lost meanwhile, or at the same time, as by a power cut.
//!
//! The agreement names the membership that has a copy. So the folder of the copies says of which
//! memberships they are, and the node names those to the others; a folder that is lost or new says
//! nothing.

use crate::journal::{COPIES, NoStore, STAND_INS};
use crate::kept_file::KeptFile;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use weir_cluster::{FORMER_MAX, Incarnation};

/// The memberships, a number on each line.
const MEMBERSHIPS: &str = "memberships";

/// What stays of what is there: the copies of some shards, and the stores of some stand-ins.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) shards: BTreeSet<u16>,
    pub(crate) stand_ins: BTreeSet<String>,
}

fn path_of(root: &Path) -> PathBuf {
    root.join(COPIES).join(MEMBERSHIPS)
}

/// The memberships that the copies in this store are of, the last ones if there are many.
///
/// # Errors
/// They cannot be read: without them this node would have nothing of before, and remove that.
pub(crate) fn former(root: &Path) -> Result<Vec<Incarnation>, NoStore> {
    let path = path_of(root);
    let file = KeptFile::open(&path).map_err(NoStore::disk(&path))?;
    let numbers = file.text().lines().filter_map(|line| line.parse().ok());
    let mut all: Vec<Incarnation> = numbers.map(Incarnation).collect();
    let surplus = all.len().saturating_sub(FORMER_MAX);
    all.drain(..surplus);
    Ok(all)
}

/// Makes a folder that outlives a power cut, also where the one that it is in is new.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let is_made = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = path.ancestors().take_while(is_made).collect();
    fs::create_dir_all(path)?;
    for folder in made {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Says of which memberships they are from now on.
pub(super) fn note(root: &Path, memberships: &[Incarnation]) -> io::Result<()> {
    let text: String =
        memberships.iter().map(|Incarnation(number)| format!("{number}\n")).collect();
    KeptFile::open(&path_of(root))?.replace(&text)
}

/// Removes what is not wanted and not in use.
pub(super) fn remove_others(
    root: &Path,
    wanted: &Wanted,
    is_in_use: impl Fn(u16) -> bool,
) -> io::Result<()> {
    let is_copy = |name: &OsString| {
        let shard = name.to_str().and_then(|name| name.parse().ok());
        let stays = |shard: u16| wanted.shards.contains(&shard) || is_in_use(shard);
        name == MEMBERSHIPS || shard.is_some_and(stays)
    };
    remove_but(&root.join(COPIES), is_copy)?;
    let is_stand_in =
        |name: &OsString| name.to_str().is_some_and(|it| wanted.stand_ins.contains(it));
    remove_but(&root.join(STAND_INS), is_stand_in)
}

/// Removes a folder, if it is there.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_but(folder: &Path, stays: impl Fn(&OsString) -> bool) -> io::Result<()> {
    let all = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        all => all?,
    };
    for entry in all {
        let entry = entry?;
        if stays(&entry.file_name()) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => remove_folder(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_where_the_process_is() {
        let here = Path::new("made-by-a-test");
        make_folder(here).unwrap();
        fs::remove_dir(here).unwrap();
    }

    #[test]
    fn what_is_noted_is_there_again_and_what_is_not_wanted_goes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(former(root).unwrap(), []);
        for folder in ["copies/1", "copies/2", "copies/3", "stand-ins/0-a", "stand-ins/0-b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let all: Vec<_> = (0..FORMER_MAX as u64 + 2).map(Incarnation).collect();
        note(root, &all).unwrap();
        let wanted = Wanted { shards: [1].into(), stand_ins: ["0-b".into()].into() };
        remove_others(root, &wanted, |shard| shard == 3).unwrap();
        assert_eq!(former(root).unwrap(), all[2..]);
        let is_there = |folder: &str| root.join(folder).exists();
        assert!(is_there("copies/1") && is_there("copies/3") && is_there("stand-ins/0-b"));
        assert!(!is_there("copies/2") && !is_there("stand-ins/0-a"));
    }
}
