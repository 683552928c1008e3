//! The program, called as a user calls it.

use std::path::Path;
use std::process::{Command, Output};

/// Runs it to its end with results in `out`.
pub(crate) fn weir(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .arg("--out")
        .arg(out)
        .env_remove("WEIR_LOG")
        .output()
        .unwrap()
}

/// What it printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
