//! The results that a command has kept.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Those in the folders of `out`, each with its folder.
pub(crate) fn results(out: &Path) -> Vec<(Value, PathBuf)> {
    let folders = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let kept = folders.filter(|folder| folder.join("result.json").is_file());
    let read = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("result.json")).unwrap();
        (serde_json::from_str(&text).unwrap(), folder)
    };
    kept.map(read).collect()
}
