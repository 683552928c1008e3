//! Instructions an operation, counted by callgrind: they don't jitter, so a kept baseline can be
//! checked. Two runs of different length take the preparation out.

use crate::programs;
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BASELINE: &str = "crates/costs/baseline.json";
const ROUNDS: [u64; 2] = [2, 12];
/// Of the baseline, in percent. The C library's copies depend on the host's processor.
const MARGIN: f64 = 3.0;

/// Count the instructions of single operations on the hot paths
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fail if an operation exceeds the baseline by more than the margin
    #[arg(long, conflicts_with = "keep")]
    check: bool,
    /// Store the counts as the baseline
    #[arg(long)]
    keep: bool,
}

/// Counts every workload of `weir-costs`.
///
/// # Errors
/// No valgrind, a workload that fails, in a check one that became dearer or is new.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // On a developer's machine a check may be skipped; what is asked for, and CI, may not.
    let is_there = Command::new("valgrind").arg("--version").output().is_ok();
    if arguments.check && !is_there && std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) {
        eprintln!("costs: skipped: there is no valgrind; Debian's package is valgrind");
        return Ok(());
    }
    let root = programs::root();
    let program = programs::build("weir-costs", "weir-costs")?;
    let kept = std::fs::read_to_string(root.join(BASELINE)).unwrap_or_else(|_| "{}".into());
    let kept: BTreeMap<String, f64> = serde_json::from_str(&kept).context(BASELINE)?;
    let mut counted = BTreeMap::new();
    let (mut dearer, mut new) = (Vec::new(), Vec::new());
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
        match change {
            Some(change) if change > MARGIN => dearer.push(name.clone()),
            Some(_) => {}
            None => new.push(name.clone()),
        }
        counted.insert(name, each);
    }
    if arguments.check && !dearer.is_empty() {
        bail!("dearer than the baseline by more than {MARGIN} %: {}", dearer.join(", "))
    }
    if arguments.check && !new.is_empty() {
        bail!("not in the baseline: {}; --keep keeps them", new.join(", "))
    }
    if arguments.keep {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        std::fs::write(root.join(BASELINE), text).with_context(|| BASELINE.to_owned())?;
    }
    Ok(())
}

fn workloads(program: &Path) -> anyhow::Result<Vec<(String, u64)>> {
    let said = programs::said(&mut Command::new(program))?;
    let workload = |line: &str| -> anyhow::Result<(String, u64)> {
        let (name, operations) = line.split_once(' ').context("a name and a number")?;
        Ok((name.into(), operations.parse()?))
    };
    said.lines().map(workload).collect()
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
