//! Runs one workload a number of rounds, for callgrind to count:
//! `weir-costs NAME ROUNDS`; without arguments the names and the operations in a round.

use anyhow::{Context, bail};
use weir_costs::WORKLOADS;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = &arguments[..] else {
        if !arguments.is_empty() {
            bail!("usage: weir-costs [NAME ROUNDS]");
        }
        for workload in WORKLOADS {
            println!("{} {}", workload.name, workload.operations);
        }
        return Ok(());
    };
    let rounds: u64 = rounds.parse().context("ROUNDS is a number")?;
    let workload = WORKLOADS.iter().find(|workload| workload.name == name);
    let workload = workload.with_context(|| format!("there is no workload {name}"))?;
    let mut round = (workload.prepare)();
    for _ in 0..rounds {
        round();
    }
    Ok(())
}
