//! The runs kept in the folder of results, as a list and one by one.

use crate::folder;
use crate::live::events::Ended;
use crate::result::RunResult;
use crate::tables;
use serde::Serialize;
use std::collections::BTreeMap;
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
        let mut names: Vec<String> = entries
            .take(ENTRIES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_name(name) && self.root.join(name).join("result.json").is_file())
            .collect();
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
        let path = self.root.join(id).join(name);
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
        let folder = self.root.join(name);
        let summary = Arc::new(Summary::of(name, &folder, &folder::read(&folder).ok()?));
        let mut read = self.lock();
        if read.len() < RUNS_MAX * 2 {
            read.insert(name.into(), Arc::clone(&summary));
        }
        Some(summary)
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

/// Whether it can be a folder's name and nothing else: no separator, nothing hidden, no way up.
fn is_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_a_run() {
        for name in ["20260101T000000Z-p2p-1K-weir", "a", "a..b", "x_1"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "/etc", "a\\b", "a%2f", ".git", "ü", "a\0"] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn runs_are_listed_newest_first_and_read_by_name_only() {
        let root = tempfile::tempdir().unwrap();
        let result = include_str!("../../tests/data/result.json");
        for name in ["20250101T000000Z-a", "20260101T000000Z-b", "no-result", "broken"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        for name in ["20250101T000000Z-a", "20260101T000000Z-b"] {
            std::fs::write(root.path().join(name).join("result.json"), result).unwrap();
        }
        std::fs::write(root.path().join("broken/result.json"), "{").unwrap();
        std::fs::write(root.path().join("result.json"), "above").unwrap();
        let stored = Stored::new(&root.path().join("."));
        let list = stored.list();
        let ids: Vec<&str> = list.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids, ["20260101T000000Z-b", "20250101T000000Z-a"]);
        let text = stored.file("20250101T000000Z-a", "result.json").unwrap();
        assert_eq!(text, result.as_bytes());
        let unknown = Err(StoredError::Unknown);
        assert_eq!(stored.file("no-result/..", "result.json"), unknown);
        assert_eq!(stored.file(".", "result.json"), unknown);
        assert_eq!(stored.file("no-result", "result.json"), unknown);
    }
}
