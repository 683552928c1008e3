//! `weir bench compare`: stored runs against each other.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_bench::compare::{self, Comparison, Options};
use weir_bench::folder;
use weir_say::{say, sayln};

pub(super) const EXAMPLES: &str = "Examples:
  weir bench compare weir-results/before weir-results/after --fail-on worse
  weir bench compare weir-results/20261121T101500Z-basic-x5

With one folder, its brokers are compared with the one that was named first. With two, each broker
of the second is compared with the same broker of the first; single brokers are compared directly.
Exit status: 0 compared; 1 worse, with --fail-on worse; 2 nothing could be compared.";

/// Which runs, and how.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Baseline: a result folder, or a folder that contains some
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Runs to judge; without it, the brokers in BASE are compared with each other
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Also compare runs made under different conditions, such as host, scale or duration
    #[arg(long)]
    anyway: bool,
    /// Exit with 1 if the comparison finds this
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
    /// Seed for the confidence intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A metric that is worse, or a contract that only the other side broke
    Worse,
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let base = folder::read_all(&args.base)?;
    let options = Options { seed: args.seed, is_anyway: args.anyway };
    let comparison: Comparison = match &args.other {
        Some(other) => compare::between(&base, &folder::read_all(other)?, options)?,
        None => compare::within(&base, options)?,
    };
    if args.json {
        sayln!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        say!("{}", compare::render(&comparison));
    }
    let is_failed = args.fail_on == Some(FailOn::Worse) && comparison.worse() > 0;
    Ok(if is_failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
