//! Dependency directions of crates and of their modules, purity gates, lengths of lines and files.

use crate::circles::{self, Circle};
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::spanned::Spanned;

/// What each crate may depend on of ours. A crate that is not here is an error.
const DIRECTIONS: &[(&str, &[&str])] = &[
    // Nothing of ours: whoever needs chance from a seed may have it.
    ("weir-chance", &[]),
    // Whoever prints for people may have it.
    ("weir-say", &[]),
    ("weir-wire", &[]),
    ("weir-core", &["weir-chance", "weir-wire"]),
    ("weir-store", &["weir-chance"]),
    // What is between nodes, without the broker.
    ("weir-cluster", &["weir-chance", "weir-core", "weir-wire"]),
    ("weir-carrier", &["weir-cluster", "weir-reactor", "weir-transport"]),
    // Pure, and fuzzed without the broker.
    ("weir-mosquitto", &["weir-core", "weir-wire"]),
    ("weir-client", &["weir-wire"]),
    // The broker and the program beside it give it what they have.
    ("weir-flow", &["weir-chance"]),
    ("weir-transport", &["weir-chance"]),
    ("weir-reactor", &["weir-transport"]),
    ("weir-http", &[]),
    // Nothing of the broker, which makes rights of what it finds out.
    ("weir-access", &["weir-http"]),
    // What it is asked and says is the cluster's.
    ("weir-etcd", &["weir-cluster", "weir-http"]),
    // Nothing of the broker, which answers it by its port.
    ("weir-control", &["weir-http"]),
    (
        "weir-broker",
        &[
            "weir-wire",
            "weir-access",
            "weir-bridge",
            "weir-carrier",
            "weir-cluster",
            "weir-connection",
            "weir-core",
            "weir-etcd",
            "weir-reactor",
            "weir-flow",
            "weir-control",
            "weir-store",
            "weir-transport",
        ],
    ),
    ("weir-ledger", &[]),
    (
        "weir-load",
        &[
            "weir-chance",
            "weir-wire",
            "weir-client",
            "weir-ledger",
            "weir-reactor",
            "weir-transport",
        ],
    ),
    ("weir-sim", &["weir-chance", "weir-wire", "weir-core"]),
    // Nothing of ours: a fault of the codec cannot hide itself.
    ("weir-conformance", &[]),
    // It knows numbers only.
    ("weir-stats", &["weir-chance"]),
    // Neutral: no way into our broker but the one that every broker has.
    (
        "weir-bench",
        &["weir-chance", "weir-conformance", "weir-http", "weir-load", "weir-say", "weir-stats"],
    ),
    (
        "weir-connection",
        &["weir-wire", "weir-client", "weir-reactor", "weir-transport", "weir-say"],
    ),
    // Nothing of the broker, which it has a way into.
    (
        "weir-bridge",
        &[
            "weir-chance",
            "weir-wire",
            "weir-client",
            "weir-connection",
            "weir-reactor",
            "weir-transport",
        ],
    ),
    (
        "weir-pubsub",
        &["weir-chance", "weir-wire", "weir-client", "weir-connection", "weir-reactor", "weir-say"],
    ),
    (
        "weir-flowrun",
        &["weir-wire", "weir-client", "weir-connection", "weir-reactor", "weir-flow", "weir-say"],
    ),
    (
        "weir-stacks",
        &[
            "weir-chance",
            "weir-wire",
            "weir-client",
            "weir-reactor",
            "weir-flow",
            "weir-flowrun",
            "weir-load",
            "weir-say",
            "weir-stats",
            "weir-bench",
        ],
    ),
    ("weir-faults", &["weir-bench", "weir-chance", "weir-crash", "weir-wire"]),
    ("weir-crash", &["weir-bench", "weir-chance", "weir-load", "weir-say", "weir-wire"]),
    (
        "weir",
        &[
            "weir-bench",
            "weir-broker",
            "weir-chance",
            "weir-conformance",
            "weir-connection",
            "weir-control",
            "weir-core",
            "weir-crash",
            "weir-flowrun",
            "weir-load",
            "weir-mosquitto",
            "weir-pubsub",
            "weir-say",
            "weir-stacks",
            "weir-wire",
        ],
    ),
    ("weir-costs", &["weir-wire", "weir-core", "weir-ledger"]),
    ("xtask", &["weir-bench", "weir-broker", "weir-conformance", "weir-core", "weir-stats"]),
];

/// Crates without I/O, clock, thread, lock or random source; each has a clippy.toml that says so.
const PURE: &[&str] =
    &["chance", "wire", "core", "client", "cluster", "flow", "mosquitto", "sim", "transport"];

/// What every purity gate must forbid.
const FORBIDDEN: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::sync::Mutex",
    "std::collections::HashMap",
    "std::net::TcpStream",
];

/// Crates whose modules still have circles, and how many modules are in one: no more may come, and
/// who takes one out lowers the number.
const CIRCLES: &[(&str, usize)] = &[];

/// The one folder with unsafe code.
const UNSAFE: &str = "crates/reactor";

/// Crates that are not shipped: what they print is for us.
const NOT_SHIPPED: &[&str] =
    &["crates/sim", "crates/costs", "crates/faults", "crates/flow/compare", "xtask"];

const LINE_CHARS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 600;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for an ordinary dependency.
    kind: Option<String>,
}

pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut faults = Vec::new();
    directions(&metadata, &mut faults)?;
    purity(&metadata.workspace_root, &mut faults)?;
    lengths(&metadata.workspace_root, &mut faults)?;
    for package in &metadata.packages {
        package.circles(&mut faults)?;
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    ensure!(faults.is_empty(), "{} faults", faults.len());
    Ok(())
}

fn metadata() -> anyhow::Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn directions(metadata: &Metadata, faults: &mut Vec<String>) -> anyhow::Result<()> {
    for package in &metadata.packages {
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(name, _)| *name == package.name) else {
            faults.push(format!("{} is not in the table of directions", package.name));
            continue;
        };
        let ours = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.is_none() && dependency.name.starts_with("weir"));
        for dependency in ours {
            if !allowed.contains(&dependency.name.as_str()) {
                faults.push(format!("{} may not depend on {}", package.name, dependency.name));
            }
        }
    }
    Ok(())
}

fn purity(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    for name in PURE {
        let path = root.join("crates").join(name).join("clippy.toml");
        let gate = std::fs::read_to_string(&path)
            .with_context(|| format!("the purity gate {} is missing", path.display()))?;
        for forbidden in FORBIDDEN {
            if !gate.contains(forbidden) {
                faults.push(format!("crates/{name}/clippy.toml does not forbid {forbidden}"));
            }
        }
    }
    Ok(())
}

impl Package {
    fn circles(&self, faults: &mut Vec<String>) -> anyhow::Result<()> {
        let is_ours =
            |target: &&Target| target.kind.iter().any(|kind| kind == "lib" || kind == "bin");
        let mut circles: Vec<Circle> = Vec::new();
        for target in self.targets.iter().filter(is_ours) {
            circles.extend(circles::of_crate(&target.src_path)?);
        }
        let known = CIRCLES.iter().find(|(name, _)| *name == self.name).map_or(0, |of| of.1);
        let count = circles.iter().map(|circle| circle.modules.len()).sum::<usize>();
        if count > known {
            for circle in circles {
                let (modules, ties) = (circle.modules.join(", "), circle.ties.join("\n    "));
                faults.push(format!("{}: a circle of {modules}:\n    {ties}", self.name));
            }
        }
        if count != known {
            let name = &self.name;
            faults.push(format!("{name}: {count} modules in circles, and CIRCLES says {known}"));
        }
        Ok(())
    }
}

fn lengths(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        sources(&root.join(folder), &mut files)?;
    }
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        // The lint can be silenced anywhere; here it cannot.
        if text.contains(concat!("expect(", "unsafe_code")) && !path.starts_with(root.join(UNSAFE))
        {
            faults.push(format!("{shown} holds unsafe code: only {UNSAFE} may"));
        }
        let is_shipped = !NOT_SHIPPED.iter().any(|folder| path.starts_with(root.join(folder)));
        let in_sources = path.components().any(|part| part.as_os_str() == "src");
        let panics = |line: &str| line.contains("println!(") || line.contains("print!(");
        if is_shipped
            && in_sources
            && let Some(at) = text.lines().position(panics)
        {
            let rule = "println! ends a program that nobody reads; weir_say::sayln! does not";
            faults.push(format!("{shown}:{}: {rule}", at + 1));
        }
        for (at, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX {
                faults.push(format!("{shown}:{} is over {LINE_CHARS_MAX} columns", at + 1));
            }
        }
        for long in crate::functions::too_long(&text).with_context(|| shown.to_string())? {
            let crate::functions::Long { name, line, lines } = long;
            faults.push(format!("{shown}:{line}: the function {name} has {lines} lines"));
        }
        // Tests in a file do not count; a file of tests counts as a whole twice over.
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        let lines_max = if is_test { 2 * FILE_LINES_MAX } else { FILE_LINES_MAX };
        if text.lines().count() - lines_of_tests(&text)? > lines_max {
            faults.push(format!("{shown} is over {lines_max} lines"));
        }
    }
    Ok(())
}

/// Lines of the items of a file that are there for tests alone, wherever they stand.
fn lines_of_tests(text: &str) -> syn::Result<usize> {
    let file = syn::parse_file(text)?;
    let tests = file.items.iter().filter(|item| circles::is_test(circles::attributes(item)));
    let lines = |item: &syn::Item| item.span().end().line - item.span().start().line + 1;
    Ok(tests.map(lines).sum())
}

/// The Rust files below a folder.
pub(crate) fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_behind_the_tests_of_a_file_counts() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n\nfn b() {}\n";
        assert_eq!(text.lines().count() - lines_of_tests(text).unwrap(), 3);
    }
}
