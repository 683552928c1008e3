//! The program, called as a user calls it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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

/// Runs any program to its end with this as its standard input.
pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    // Dropped at once: it is read to its end.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What it printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
