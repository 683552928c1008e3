//! `weir agent`: runs a slice of a benchmark's plan for another weir.

use anyhow::Context;
use std::io::{BufReader, IsTerminal};

/// Generate part of a benchmark's load for `weir bench run --agent`
///
/// Weir starts it itself, through ssh, kubectl exec, docker exec or in a network namespace, and
/// talks to it over standard input and output. It exits when its input closes.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {}

pub(crate) fn run(_: &AgentArgs, version: &str) -> anyhow::Result<()> {
    let input = std::io::stdin();
    anyhow::ensure!(
        !input.is_terminal(),
        "an agent is started by weir: weir bench run USE-CASE --agent \"ssh HOST weir agent\""
    );
    weir_load::agent::serve(BufReader::new(input), std::io::stdout(), version)
        .context("this agent ends")
}
