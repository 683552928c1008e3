//! What the house checks and measures, and no compiler does: `cargo xtask help`.

mod calibrate;
mod circles;
mod costs;
mod coverage;
mod curves;
mod functions;
mod manual;
mod page;
mod perf;
mod programs;
mod rates;
mod tidy;

use clap::Parser;

/// Checks and measurements for developers
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Check dependency directions, circles among modules, purity of the cores, and lengths
    Tidy,
    /// Write the page that lists the tests of every statement of the standards
    Coverage {
        /// Only check that it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Write the pages that are made of the code: broker.md, limits.md, metrics.md
    Manual {
        /// Only check that it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Count the instructions of single operations on the hot paths
    Costs(costs::Arguments),
    /// Measure what the kernel takes per message; arguments go to `calibrate`
    #[command(disable_help_flag = true)]
    Calibrate {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    Perf(perf::Arguments),
    Curves(curves::Arguments),
    Rates(rates::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Tidy => tidy::run(),
        Task::Coverage { check } => coverage::run(check),
        Task::Manual { check } => manual::run(check),
        Task::Costs(arguments) => costs::run(&arguments),
        Task::Calibrate { arguments } => calibrate::Calibrator::build()?.show(&arguments),
        Task::Perf(arguments) => perf::run(&arguments),
        Task::Curves(arguments) => curves::run(&arguments),
        Task::Rates(arguments) => rates::run(&arguments),
    }
}
