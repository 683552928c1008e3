//! What the house checks and measures, and no compiler does: `cargo xtask help`.

mod calibrate;
mod circles;
mod costs;
mod coverage;
mod curves;
mod functions;
mod perf;
mod programs;
mod tidy;

use clap::Parser;

/// Checks of the house, and its measurements
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Check dependency directions, circles of modules, purity gates, lengths
    Tidy,
    /// Write the page that says what tests each statement of the standards
    Coverage {
        /// Only check that it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Count the instructions of one operation of the hot paths
    Costs(costs::Arguments),
    /// Measure what the system itself takes for a message: arguments go to `calibrate`
    #[command(disable_help_flag = true)]
    Calibrate {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    Perf(perf::Arguments),
    Curves(curves::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Tidy => tidy::run(),
        Task::Coverage { check } => coverage::run(check),
        Task::Costs(arguments) => costs::run(&arguments),
        Task::Calibrate { arguments } => calibrate::Calibrator::build()?.show(&arguments),
        Task::Perf(arguments) => perf::run(&arguments),
        Task::Curves(arguments) => curves::run(&arguments),
    }
}
