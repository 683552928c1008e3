//! The program that looks at a page in a browser: tests of other crates use it too.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the browser's program, or nothing where it is not installed, which is an error
/// where CI is set.
pub(crate) fn look_mjs() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if has("node") && has("chromium") && folder.join("node_modules").is_dir() {
        return Some(folder.join("look.mjs"));
    }
    assert!(std::env::var_os("CI").is_none(), "no node, chromium or modules; run scripts/setup");
    eprintln!("skipped: node, chromium or tests/browser/node_modules is missing; scripts/setup");
    None
}

pub(crate) fn look(program: &Path, page: &Path, more: &[&str]) -> Output {
    Command::new("node").arg(program).arg(page).args(more).output().unwrap()
}

pub(crate) fn seen(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}
