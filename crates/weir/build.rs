//! Tells the binary its commit.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).map_or_else(
        || "unknown".to_owned(),
        |commit| {
            // Without its lock git does not write the index, which would have all built again.
            let look = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];
            let changed = git(&look);
            let suffix = if changed.is_some_and(|list| !list.is_empty()) { "-dirty" } else { "" };
            commit + suffix
        },
    );
    println!("cargo:rustc-env=WEIR_COMMIT={commit}");
    // A new commit, or a change of a source of any crate, makes the answer another.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        for name in ["HEAD", "index", "logs/HEAD"] {
            println!("cargo:rerun-if-changed={folder}/{name}");
        }
    }
    println!("cargo:rerun-if-changed=../");
}
