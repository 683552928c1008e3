//! The workspace's programs, built as they are shipped.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap_or(root)
}

/// Builds the program `name` of `package` in release and says where it is.
///
/// # Errors
/// It does not compile.
pub(crate) fn build(package: &str, name: &str) -> anyhow::Result<PathBuf> {
    built(&["--release", "--package", package, "--bin", name], name)
}

/// Builds the program `name` as tests have it, which is quick where these are built, and says where
/// it is.
///
/// # Errors
/// It does not compile.
pub(crate) fn debug(name: &str) -> anyhow::Result<PathBuf> {
    built(&["--quiet", "--bin", name], name)
}

fn built(arguments: &[&str], name: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("cargo")
        .args(["build", "--locked"])
        .args(arguments)
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{name} does not compile");
    let text = String::from_utf8(output.stdout)?;
    let executable = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|line| line["executable"].as_str().map(Into::into));
    executable.with_context(|| format!("cargo built no {name}"))
}

/// What a program prints.
///
/// # Errors
/// It cannot be started, or fails: then with what it says.
pub(crate) fn said(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{program} cannot be started"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
