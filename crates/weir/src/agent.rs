//! `weir agent`: runs a slice of a benchmark's plan for another weir.

use anyhow::Context;
use std::io::{BufReader, IsTerminal};

/// Run a part of a benchmark for `weir bench run --agent`, by lines on standard input and output.
///
/// Started by weir itself, over ssh, kubectl exec, docker exec or in a network namespace; ends when
/// its input does.
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
