//! Pages that are made of the code: written, or held against what they would be.

use crate::programs::root;
use anyhow::{Context, ensure};

/// Writes a page of the documentation; with `is_check` it says whether the page is as it would be
/// written. `task` is what writes it.
///
/// # Errors
/// A file that cannot be written; in a check a page that is not up to date.
pub(crate) fn keep(page: &str, text: &str, is_check: bool, task: &str) -> anyhow::Result<()> {
    let path = root().join(page);
    if is_check {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        ensure!(kept == text, "{page} is out of date: run cargo xtask {task}");
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {page}"))
}
