//! Programs that tests need and a host may lack.

use std::path::PathBuf;

/// Where a program is. One that is missing skips a test, but fails it where CI is set.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is not installed; run scripts/setup");
        eprintln!("skipped: {name} is not installed; scripts/setup installs it");
    }
    found
}
