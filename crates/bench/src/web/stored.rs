//! The runs kept in the folder of results, as a list and one by one.

use crate::folder;
use crate::live::events::Ended;
use crate::result::RunResult;
use crate::tables;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs listed: the newest by name, which begins with the time.
const RUNS_MAX: usize = 500;

/// Entries of the folder looked at.
const ENTRIES_MAX: usize = 20_000;

/// Largest file shown.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A folder of results.
pub(super) struct Stored {
    root: PathBuf,
    /// Runs read before: a result does not change once it is kept.
    read: Mutex<BTreeMap<String, Arc<Summary>>>,
}

/// A kept run in the figures that fit a line.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    id: String,
    use_case: String,
    broker: String,
    started: String,
    scale: f64,
    duration_s: f64,
    has_messages: bool,
    has_report: bool,
    #[serde(flatten)]
    ended: Ended,
}

/// Why a file is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoredError {
    /// No such run, or not a run's name at all.
    #[error("there is no such run")]
    Unknown,
    /// Larger than what a page bears.
    #[error("the file is too large")]
    TooLarge,
}

impl Stored {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.into(), read: Mutex::default() }
    }

    /// The newest runs first. A folder that is none of ours, or cannot be read, is left out.
    pub(super) fn list(&self) -> Vec<Arc<Summary>> {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return Vec::new() };
        let mut names = Vec::new();
        let plain = |entry: DirEntry| entry.file_name().into_string().ok().filter(|n| is_plain(n));
        for name in entries.take(ENTRIES_MAX).filter_map(|entry| plain(entry.ok()?)) {
            let folder = self.root.join(&name);
            if folder.join("result.json").is_file() {
                names.push(name);
                continue;
            }
            let runs = folder::of_session(&folder).into_iter().take(ENTRIES_MAX);
            let runs = runs.filter_map(|run| Some(run.file_name()?.to_str()?.to_owned()));
            names.extend(runs.filter(|run| is_plain(run)).map(|run| format!("{name}{BELOW}{run}")));
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.truncate(RUNS_MAX);
        names.iter().filter_map(|name| self.summary(name)).collect()
    }

    /// A file of a run.
    ///
    /// # Errors
    /// [`StoredError`].
    pub(super) fn file(&self, id: &str, name: &str) -> Result<Vec<u8>, StoredError> {
        if !is_name(id) {
            return Err(StoredError::Unknown);
        }
        let path = self.folder(id).join(name);
        let length = std::fs::metadata(&path).map_err(|_| StoredError::Unknown)?.len();
        if length > FILE_BYTES_MAX {
            return Err(StoredError::TooLarge);
        }
        std::fs::read(path).map_err(|_| StoredError::Unknown)
    }

    fn summary(&self, name: &str) -> Option<Arc<Summary>> {
        if let Some(known) = self.lock().get(name) {
            return Some(Arc::clone(known));
        }
        let folder = self.folder(name);
        let length = std::fs::metadata(folder.join("result.json")).ok()?.len();
        if length > FILE_BYTES_MAX {
            return None;
        }
        let summary = Arc::new(Summary::of(name, &folder, &folder::read(&folder).ok()?));
        let mut read = self.lock();
        // The report comes after the result.
        if summary.has_report && read.len() < RUNS_MAX * 2 {
            read.insert(name.into(), Arc::clone(&summary));
        }
        Some(summary)
    }

    /// Of a run's name.
    fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id.replace(BELOW, std::path::MAIN_SEPARATOR_STR))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Summary>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Summary {
    fn of(id: &str, folder: &Path, run: &RunResult) -> Self {
        Self {
            id: id.into(),
            use_case: run.use_case.name.clone(),
            broker: tables::broker(run),
            started: run.suite.started.clone(),
            scale: run.use_case.scale,
            duration_s: run.use_case.duration_s,
            has_messages: run.use_case.qos.is_some(),
            has_report: folder.join("report.html").is_file(),
            ended: Ended::of(run),
        }
    }
}

/// Stands between the folder of a session of repeats and that of its run.
const BELOW: char = '~';

/// Whether it can be the name of a run, or of a session and its run.
fn is_name(name: &str) -> bool {
    match name.split_once(BELOW) {
        Some((session, run)) => is_plain(session) && is_plain(run),
        None => is_plain(name),
    }
}

/// Whether it can be a folder's name and nothing else: no separator, nothing hidden, no way up.
fn is_plain(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_a_run() {
        for name in ["20260101T000000Z-p2p-1K-weir", "a", "a..b", "x_1", "x5~a"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "", ".", "..", "../x", "a/b", "/etc", "a\\b", "a%2f", ".git", "ü", "a\0", "~", "a~",
            "a~..", "a~b~c",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn runs_are_listed_newest_first_and_read_by_name_only() {
        let root = tempfile::tempdir().unwrap();
        let result = include_str!("../../tests/data/result.json");
        let session = "20270101T000000Z-basic-x5/20270101T000001Z-a";
        for name in ["20250101T000000Z-a", "20260101T000000Z-b", "no-result", "broken", session] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        for name in ["20250101T000000Z-a", "20260101T000000Z-b", session] {
            std::fs::write(root.path().join(name).join("result.json"), result).unwrap();
        }
        std::fs::write(root.path().join("broken/result.json"), "{").unwrap();
        std::fs::write(root.path().join("result.json"), "above").unwrap();
        let stored = Stored::new(&root.path().join("."));
        let list = stored.list();
        let ids: Vec<&str> = list.iter().map(|run| run.id.as_str()).collect();
        let repeated = session.replace('/', "~");
        assert_eq!(ids, [&repeated, "20260101T000000Z-b", "20250101T000000Z-a"]);
        assert!(stored.file(&repeated, "result.json").is_ok());
        let text = stored.file("20250101T000000Z-a", "result.json").unwrap();
        assert_eq!(text, result.as_bytes());
        let unknown = Err(StoredError::Unknown);
        assert_eq!(stored.file("no-result/..", "result.json"), unknown);
        assert_eq!(stored.file(".", "result.json"), unknown);
        assert_eq!(stored.file("no-result", "result.json"), unknown);
    }
}
