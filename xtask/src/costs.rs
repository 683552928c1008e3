//! Instructions an operation, counted by callgrind: they don't jitter, so a kept baseline can be
//! checked. Two runs of different length take the preparation out.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BASELINE: &str = "crates/costs/baseline.json";
const ROUNDS: [u64; 2] = [2, 12];
/// Of the baseline, in percent. The C library's copies depend on the host's processor.
const MARGIN: f64 = 3.0;

/// What is done with the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Printed beside the baseline.
    Show,
    /// Printed; more than the margin over the baseline is an error.
    Check,
    /// Printed, and kept as the baseline.
    Keep,
}

/// Counts every workload of `weir-costs`.
///
/// # Errors
/// No valgrind, a workload that fails, in a check one that became dearer.
pub(crate) fn run(mode: Mode) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = build(&root)?;
    let kept = std::fs::read_to_string(root.join(BASELINE)).unwrap_or_else(|_| "{}".into());
    let kept: BTreeMap<String, f64> = serde_json::from_str(&kept).context(BASELINE)?;
    let mut counted = BTreeMap::new();
    let mut dearer = Vec::new();
    println!("{:32} {:>12} {:>12} {:>8}", "operation", "instructions", "baseline", "change");
    for (name, operations) in workloads(&program)? {
        let [few, many] = ROUNDS.map(|rounds| count(&program, &name, rounds));
        let rounds = ROUNDS[1] - ROUNDS[0];
        let each = (many? - few?) as f64 / (rounds * operations) as f64;
        let each = (each * 10.0).round() / 10.0;
        let change = kept.get(&name).map(|before| 100.0 * (each / before - 1.0));
        let before = kept.get(&name).map_or("-".into(), |before| format!("{before:.1}"));
        let shown = change.map_or("-".into(), |change| format!("{change:+.1} %"));
        println!("{name:32} {each:>12.1} {before:>12} {shown:>8}");
        if change.is_some_and(|change| change > MARGIN) {
            dearer.push(name.clone());
        }
        counted.insert(name, each);
    }
    match mode {
        Mode::Check if !dearer.is_empty() => {
            bail!("dearer than the baseline by more than {MARGIN} %: {}", dearer.join(", "))
        }
        Mode::Keep => {
            let text = serde_json::to_string_pretty(&counted)? + "\n";
            std::fs::write(root.join(BASELINE), text).with_context(|| BASELINE.to_owned())
        }
        _ => Ok(()),
    }
}

/// Builds the program and says where it is.
fn build(root: &Path) -> anyhow::Result<std::path::PathBuf> {
    let output = Command::new("cargo")
        .args(["build", "--release", "--locked", "--package", "weir-costs", "--bin", "weir-costs"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let executable = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|line| line["executable"].as_str().map(Into::into));
    executable.context("cargo built no weir-costs")
}

fn workloads(program: &Path) -> anyhow::Result<Vec<(String, u64)>> {
    let output = Command::new(program).output()?;
    let workload = |line: &str| -> anyhow::Result<(String, u64)> {
        let (name, operations) = line.split_once(' ').context("a name and a number")?;
        Ok((name.into(), operations.parse()?))
    };
    String::from_utf8(output.stdout)?.lines().map(workload).collect()
}

/// Instructions of the whole program.
fn count(program: &Path, name: &str, rounds: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([name, &rounds.to_string()])
        .output()
        .context("valgrind cannot be started; Debian's package is valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {said}");
    let line = said.lines().find(|line| line.contains("Collected :"));
    let number = line.and_then(|line| line.split_whitespace().last());
    Ok(number.context("callgrind says no count")?.parse()?)
}
