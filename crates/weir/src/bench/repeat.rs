//! `--repeat`: how often everything is run, as the command line says it.

use anyhow::ensure;
use clap::Args;
use weir_bench::compare::{self, CompareError, Comparison};
use weir_bench::session::Session;
use weir_say::{noteln, say};

/// How often, and in which order.
#[derive(Debug, Args)]
pub(super) struct Repeats {
    /// Repeat everything this many times, brokers in turn, and compare them; a verdict needs at
    /// least 3, and 5 or more are better
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Seed for the order of runs and for the confidence intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pause before each run except the first [default: 2s with --repeat, otherwise none]
    #[arg(long, value_name = "TIME", value_parser = super::parse_seconds)]
    cool_down: Option<f64>,
    /// Run again what came out invalid because the load generator was late or the limit, up to
    /// this many times per run; the result names each of those before it
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=10))]
    again: u32,
    /// Keep all brokers of a round up and load each in turn for about this long, 100ms by default.
    /// What a shared host does within a second then cancels out of their ratio
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "100ms", value_parser = super::parse_seconds)]
    abreast: Option<f64>,
}

impl Repeats {
    /// How often, of a command whose repeats take turns in a way of its own; `why` they do.
    ///
    /// # Errors
    /// A rest or turns were asked for.
    pub(super) fn rounds(&self, why: &str) -> anyhow::Result<u32> {
        let is_asked = self.cool_down.is_some() || self.abreast.is_some() || self.again > 0;
        ensure!(!is_asked, "--cool-down, --abreast and --again have no use here: {why}");
        Ok(self.repeat)
    }

    /// Of the order.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// All of it.
    pub(super) const fn asked(&self) -> weir_bench::session::Repeats {
        weir_bench::session::Repeats {
            repeats: self.repeat,
            seed: self.seed,
            cool_down_s: self.cool_down,
            abreast_s: self.abreast,
            again: self.again,
        }
    }
}

/// Prints how the brokers stand, and keeps it beside the runs.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn tell(
    session: &Session,
    stand: &Result<Comparison, CompareError>,
) -> anyhow::Result<()> {
    match stand {
        Ok(comparison) => {
            say!("{}", compare::render(comparison));
            session.keep(comparison)
        }
        Err(error) => {
            noteln!("  note: the brokers {error}");
            Ok(())
        }
    }
}
