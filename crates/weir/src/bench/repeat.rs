//! `--repeat`: runs interleaved, in a folder of their own, compared at the end.

use super::How;
use anyhow::{Context, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_bench::compare::{self, CompareError, Comparison};
use weir_bench::driver::Driver;
use weir_bench::host::Pinning;
use weir_bench::live::events::Cell;
use weir_bench::repeat::{Repetition, Turn, order};
use weir_bench::result::RunResult;
use weir_bench::run::{Interrupted, RunOptions, run_one};
use weir_bench::usecase::{Times, UseCase};
use weir_bench::{folder, report};

/// Rest between repeats, in seconds, where none is asked for.
const COOL_DOWN_S: f64 = 2.0;

/// Longest rest.
const COOL_DOWN_S_MAX: f64 = 3_600.0;

/// How soon a wish to stop is heard while nothing runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often, and in which order.
#[derive(Debug, Args)]
pub(super) struct Repeats {
    /// Run everything so many times, brokers in turn, and compare them; 3 are the least for a
    /// verdict, 5 or more are better
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Seed of the order of repeats and of the intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rest before each run but the first; 2s between repeats, else none
    #[arg(long, value_name = "TIME", value_parser = super::parse_seconds)]
    cool_down: Option<f64>,
}

/// The runs of one command.
pub(super) struct Session {
    /// Folder of its runs.
    pub(super) out: PathBuf,
    name: String,
    repeats: u32,
    seed: u64,
    cool_down_s: f64,
}

impl Repeats {
    /// Of a command that has no repeats.
    ///
    /// # Errors
    /// Repeats were asked for; `why` there are none.
    pub(super) fn refuse(&self, why: &str) -> anyhow::Result<()> {
        let is_asked = self.repeat > 1 || self.cool_down.is_some();
        ensure!(!is_asked, "--repeat and --cool-down have no use here: {why}");
        Ok(())
    }

    /// Makes the folder of the runs where they are repeated: `out` itself is for single runs.
    pub(super) fn session(&self, out: &Path, use_cases: &[UseCase]) -> anyhow::Result<Session> {
        if let Some(cool_down_s) = self.cool_down {
            ensure!(cool_down_s <= COOL_DOWN_S_MAX, "--cool-down must be 1h at most");
        }
        let mut out = out.to_owned();
        if self.repeat > 1 {
            let name = match use_cases {
                [only] => &only.name,
                [first, ..] if !first.set.is_empty() => &first.set,
                _ => "runs",
            };
            out = folder::create(&out, name, &format!("x{}", self.repeat))?;
        }
        let default_s = if self.repeat > 1 { COOL_DOWN_S } else { 0.0 };
        Ok(Session {
            name: out.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            out,
            repeats: self.repeat,
            seed: self.seed,
            cool_down_s: self.cool_down.unwrap_or(default_s),
        })
    }
}

impl Session {
    pub(super) fn is_repeated(&self) -> bool {
        self.repeats > 1
    }

    /// Says what will run where, before anything does.
    pub(super) fn announce(&self, use_cases: &[UseCase], brokers: &[Box<dyn Driver>], how: &How) {
        let runs = use_cases.len() * brokers.len() * self.repeats as usize;
        if runs < 2 {
            return;
        }
        let pinning = Pinning::plan(how.pin == "auto").of_agents(how.agents).text;
        let (cases, brokers) = (use_cases.len(), brokers.len());
        let length_s = |of: &UseCase| {
            let times = Times::new(of, how.warm_up, how.duration);
            times.warm_up_s + times.measure_s
        };
        let once_s: f64 = use_cases.iter().map(length_s).sum();
        let each = (brokers * self.repeats as usize) as f64;
        let rounds = self.repeats;
        eprintln!("plan: {runs} runs (use cases {cases}, brokers {brokers}, rounds {rounds})");
        eprintln!("  {pinning}");
        if self.is_repeated() {
            let (seed, cool_down_s) = (self.seed, self.cool_down_s);
            eprintln!("  order by seed {seed}; {cool_down_s} s of rest before each run");
            eprintln!("  results go to {}", self.out.display());
        }
        let minutes = (once_s * each + self.cool_down_s * runs as f64) / 60.0;
        eprintln!("  at least {minutes:.1} min, and what connecting and draining take");
    }

    /// What [`Session::run_each`] is going to run.
    pub(super) fn planned(&self, use_cases: &[UseCase], brokers: &[Box<dyn Driver>]) -> Vec<Cell> {
        let turns = self.turns(use_cases, brokers).into_iter();
        let cell = |turn: Turn| Cell {
            use_case: use_cases[turn.use_case].name.clone(),
            broker: brokers[turn.broker].name().into(),
        };
        turns.map(cell).collect()
    }

    fn turns(&self, use_cases: &[UseCase], brokers: &[Box<dyn Driver>]) -> Vec<Turn> {
        order(use_cases.len(), brokers.len(), self.repeats, self.seed)
    }

    /// Every use case on every broker, in the session's order; `kept` gets each result with its
    /// folder.
    ///
    /// # Errors
    /// As `run_one` has them, with the use case and the broker.
    pub(super) fn run_each(
        &self,
        use_cases: &[UseCase],
        brokers: &[Box<dyn Driver>],
        options: &mut RunOptions,
        interrupted: &Interrupted,
        kept: &mut dyn FnMut(RunResult, PathBuf),
    ) -> anyhow::Result<()> {
        let turns = self.turns(use_cases, brokers);
        for (at, turn) in turns.iter().enumerate() {
            let cool_down_s = if at == 0 { 0.0 } else { self.cool_down_s };
            rest(cool_down_s, interrupted);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (use_case, broker) = (&use_cases[turn.use_case], &brokers[turn.broker]);
            options.repetition = self.repetition(turn, at, cool_down_s);
            if self.is_repeated() {
                eprintln!("run {} of {}, round {}", at + 1, turns.len(), turn.round);
            }
            let (result, folder) = run_one(use_case, &**broker, options, interrupted)
                .with_context(|| format!("{} on {}", use_case.name, broker.name()))?;
            report::write(std::slice::from_ref(&result), &folder.join("report.html"))?;
            kept(result, folder);
        }
        Ok(())
    }

    fn repetition(&self, turn: &Turn, at: usize, cool_down_s: f64) -> Option<Repetition> {
        self.is_repeated().then(|| Repetition {
            session: self.name.clone(),
            round: turn.round,
            rounds: self.repeats,
            seed: self.seed,
            position: at as u32 + 1,
            broker: turn.broker as u32 + 1,
            cool_down_s,
        })
    }

    /// Prints how the brokers stand, and keeps it beside the runs.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn tell(&self, stand: &Result<Comparison, CompareError>) -> anyhow::Result<()> {
        match stand {
            Ok(comparison) => {
                say!("{}", compare::render(comparison));
                let text = serde_json::to_string_pretty(comparison)? + "\n";
                folder::write(&self.out, "comparison.json", &text)
            }
            Err(error) => {
                eprintln!("  note: the brokers {error}");
                Ok(())
            }
        }
    }
}

/// Waits, but not for somebody who wants to stop.
fn rest(seconds: f64, interrupted: &Interrupted) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
    }
}
