//! The runs of one command: repeats interleaved, in a folder of their own, each kept as it ends.

use crate::agents::Agents;
use crate::compare::Comparison;
use crate::driver::Driver;
use crate::host::Pinning;
use crate::interrupt::Interrupted;
use crate::live::Live;
use crate::live::events::Cell;
use crate::repeat::{Abreast, Turn, order};
use crate::result::{InvalidRun, Repetition, RunResult, Status};
use crate::run::{RunOptions, Unkept, run_one};
use crate::usecase::{Times, UseCase};
use crate::{folder, report};
use anyhow::{Context, bail, ensure};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_load::{Shifts, StartBarrier};
use weir_say::noteln;

/// Rest between repeats, in seconds, where none is asked for.
const COOL_DOWN_S: f64 = 2.0;

/// Longest rest.
const COOL_DOWN_S_MAX: f64 = 3_600.0;

/// Shortest and longest turn of brokers that go abreast, in seconds: less is mostly the begin and
/// the end of a turn, more is little better than one after the other.
const ABREAST_S: RangeInclusive<f64> = 0.02..=0.5;

const SECOND_US: u64 = 1_000_000;

/// Of a turn, how long nobody is loaded after it.
const PAUSE_OF: u64 = 20;

/// How soon a wish to stop is heard while nothing runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often everything is run, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Times that everything is run.
    pub repeats: u32,
    /// Seed of the order of repeats.
    pub seed: u64,
    /// Rest before each run but the first; `None` is 2 s between repeats, else none.
    pub cool_down_s: Option<f64>,
    /// Length of the turns of brokers that are all up at once, if they are.
    pub abreast_s: Option<f64>,
    /// How often a run that came out invalid is run again.
    pub again: u32,
}

/// The runs of one command.
pub struct Session {
    /// Folder of its runs.
    pub out: PathBuf,
    name: String,
    repeats: u32,
    seed: u64,
    cool_down_s: f64,
    /// Length of the turns of brokers that go abreast, in microseconds.
    abreast_us: Option<u64>,
    again: u32,
}

impl Session {
    /// Makes the folder of the runs where they are repeated: `out` itself is for single runs.
    ///
    /// # Errors
    /// Repeats that cannot be: too long a rest, turns that nobody can take.
    pub fn new(
        asked: Repeats,
        out: &Path,
        use_cases: &[UseCase],
        brokers: usize,
        agents: &Agents,
    ) -> anyhow::Result<Self> {
        if let Some(cool_down_s) = asked.cool_down_s {
            ensure!(cool_down_s <= COOL_DOWN_S_MAX, "--cool-down must be 1h at most");
        }
        if let Some(length_s) = asked.abreast_s {
            let (least, most) = (ABREAST_S.start(), ABREAST_S.end());
            ensure!(ABREAST_S.contains(&length_s), "--abreast must be {least}s to {most}s");
            ensure!(asked.again == 0, "--again: one of those that go abreast cannot run alone");
            ensure!(asked.repeats > 1, "--abreast needs --repeat: it makes repeats comparable");
            ensure!(agents.is_empty(), "--abreast: a load that agents share cannot take turns");
            for use_case in use_cases {
                let why = use_case.not_in_turn();
                ensure!(why.is_none(), "--abreast: {}: {}", use_case.name, why.unwrap_or_default());
            }
            ensure!(brokers > 1, "--abreast needs at least two brokers, which take turns");
        }
        let mut out = out.to_owned();
        if asked.repeats > 1 {
            let name = match use_cases {
                [only] => &only.name,
                [first, rest @ ..]
                    if !first.set.is_empty() && rest.iter().all(|of| of.set == first.set) =>
                {
                    &first.set
                }
                _ => "runs",
            };
            out = folder::create(&out, name, &format!("x{}", asked.repeats))?;
        }
        let default_s = if asked.repeats > 1 { COOL_DOWN_S } else { 0.0 };
        Ok(Self {
            name: out.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            out,
            repeats: asked.repeats,
            seed: asked.seed,
            cool_down_s: asked.cool_down_s.unwrap_or(default_s),
            abreast_us: asked.abreast_s.map(|length_s| (length_s * 1e6) as u64),
            again: asked.again,
        })
    }

    /// Whether anything is run more than once.
    pub fn is_repeated(&self) -> bool {
        self.repeats > 1
    }

    /// Runs that go on at once.
    fn together(&self, brokers: &[Box<dyn Driver>]) -> usize {
        if self.abreast_us.is_some() { brokers.len() } else { 1 }
    }

    /// Says what will run where, before anything does.
    pub fn announce(&self, use_cases: &[UseCase], brokers: &[Box<dyn Driver>], how: &RunOptions) {
        self.announcement(use_cases, brokers, how).iter().for_each(|line| noteln!("{line}"));
    }

    fn announcement(
        &self,
        use_cases: &[UseCase],
        brokers: &[Box<dyn Driver>],
        how: &RunOptions,
    ) -> Vec<String> {
        let runs = use_cases.len() * brokers.len() * self.repeats as usize;
        if runs < 2 {
            return Vec::new();
        }
        let pinning = Pinning::plan(how.is_pinned).of_agents(how.agents.local).text;
        let (cases, count, together) = (use_cases.len(), brokers.len(), self.together(brokers));
        let length_s = |of: &UseCase| {
            let times = Times::new(of, how.warm_up_s, how.measure_s);
            times.warm_up_s + times.measure_s
        };
        let once_s: f64 = use_cases.iter().map(length_s).sum();
        let each = (count / together * self.repeats as usize) as f64;
        let rounds = self.repeats;
        let mut lines = vec![
            format!("plan: {runs} runs (use cases {cases}, brokers {count}, rounds {rounds})"),
            format!("  {pinning}"),
        ];
        if let Some(length_us) = self.abreast_us {
            let ms = length_us / 1_000;
            lines.push(format!(
                "  brokers of a round are all up, each loaded for about {ms} ms in turn"
            ));
        }
        if self.is_repeated() {
            let (seed, cool_down_s) = (self.seed, self.cool_down_s);
            lines.push(format!("  order by seed {seed}; {cool_down_s} s of rest before each run"));
            lines.push(format!("  results go to {}", self.out.display()));
        }
        let minutes = (once_s * each + self.cool_down_s * (runs / together) as f64) / 60.0;
        lines.push(format!("  at least {minutes:.1} min, plus the time to connect and drain"));
        lines
    }

    /// What [`Session::run_each`] is going to run.
    pub fn planned(&self, use_cases: &[UseCase], brokers: &[Box<dyn Driver>]) -> Vec<Cell> {
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
    /// As `run_one` has them, with the use case and the broker. A result whose files cannot be
    /// written is handed to `kept`, too.
    pub fn run_each(
        &self,
        use_cases: &[UseCase],
        brokers: &[Box<dyn Driver>],
        options: &RunOptions,
        interrupted: &Interrupted,
        kept: &mut dyn FnMut(RunResult, PathBuf),
    ) -> anyhow::Result<()> {
        let turns = self.turns(use_cases, brokers);
        let together = self.together(brokers);
        let mut unstarted = Vec::new();
        for (group_at, group) in turns.chunks(together).enumerate() {
            let first = group_at * together;
            let cool_down_s = if first == 0 { 0.0 } else { self.cool_down_s };
            rest(cool_down_s, interrupted);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.is_repeated() {
                let last = first + group.len();
                let runs = if together == 1 { String::new() } else { format!("{} to ", first + 1) };
                noteln!("run {runs}{last} of {}, round {}", turns.len(), group[0].round);
            }
            let barrier = StartBarrier::new(group.len() as u32);
            let options_of = |at: usize| RunOptions {
                repetition: self.repetition(&group[at], first + at, cool_down_s),
                abreast: self.abreast(&barrier, at, group.len()),
                is_one_of_many: turns.len() > 1,
                // There is one line and one screen: they show the first.
                live: if at == 0 { options.live.clone() } else { Live::default() },
                ..options.clone()
            };
            let run = |turn: &Turn, options: &RunOptions| {
                let (use_case, broker) = (&use_cases[turn.use_case], &*brokers[turn.broker]);
                self.until_valid(use_case, broker, options, interrupted)
                    .with_context(|| format!("{} on {}", use_case.name, broker.name()))
            };
            for ended in at_once(group, &options_of, &run) {
                let (result, folder) = ended.inspect_err(|error| told(error, kept))?;
                if !result.was_run() && result.verdict.status == Status::Failed {
                    unstarted.extend(result.verdict.reasons.clone());
                }
                let page = write_page(&result, &folder);
                kept(result, folder);
                page?;
            }
        }
        // Nothing was run at all: that is no result, however many cells it has.
        ensure!(unstarted.len() < turns.len(), "{}", unstarted[0]);
        Ok(())
    }

    /// Once, and again as often as may be while it comes out invalid. Only what the generator or
    /// the host did makes a run invalid, never what the broker did.
    fn until_valid(
        &self,
        use_case: &UseCase,
        broker: &dyn Driver,
        options: &RunOptions,
        interrupted: &Interrupted,
    ) -> Ran {
        let mut options = options.clone();
        loop {
            let (result, folder) = run_one(use_case, broker, &options, interrupted)?;
            let tries = options.invalid_before.len() as u32;
            let is_over = tries >= self.again || interrupted.load(Ordering::Relaxed);
            if is_over || result.verdict.status != Status::Invalid {
                return Ok((result, folder));
            }
            if let Err(error) = write_page(&result, &folder) {
                return Err(Unkept::new(result, folder, &error).into());
            }
            noteln!("  run again, {} of {}: it was invalid", tries + 1, self.again);
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let reasons = result.verdict.reasons;
            options.invalid_before.push(InvalidRun { folder: name, reasons });
            rest(self.cool_down_s, interrupted);
        }
    }

    fn abreast(&self, barrier: &StartBarrier, index: usize, of: usize) -> Option<Abreast> {
        let asked_us = self.abreast_us?;
        let (index, of) = (index as u32, of as u32);
        // In each second everybody has as much: a series by seconds has no waves, and its sums are
        // those of the rate.
        let rounds = (SECOND_US as f64 / (asked_us * u64::from(of)) as f64).round().max(1.0) as u64;
        let turn_us = SECOND_US / (rounds * u64::from(of));
        let pause_us = turn_us / PAUSE_OF;
        let shifts = Shifts { length_us: turn_us - pause_us, pause_us, index, of };
        Some(Abreast { barrier: barrier.clone(), shifts })
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
            abreast_ms: self.abreast_us.map(|length_us| length_us / 1_000),
        })
    }

    /// Keeps beside the runs how the brokers stand.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn keep(&self, comparison: &Comparison) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(comparison)? + "\n";
        folder::write(&self.out, "comparison.json", &text)
    }
}

type Ran = anyhow::Result<(RunResult, PathBuf)>;

fn write_page(result: &RunResult, folder: &Path) -> anyhow::Result<()> {
    report::write(std::slice::from_ref(result), &folder.join("report.html"))
}

/// Hands on what was measured in a run whose files could not be written.
fn told(error: &anyhow::Error, kept: &mut dyn FnMut(RunResult, PathBuf)) {
    if let Some(Unkept { result, folder, .. }) = error.downcast_ref() {
        kept((**result).clone(), folder.clone());
    }
}

/// Every run of a group, each of several on a thread of its own, and how each ended.
fn at_once(
    group: &[Turn],
    options_of: &dyn Fn(usize) -> RunOptions,
    run: &(dyn Fn(&Turn, &RunOptions) -> Ran + Sync),
) -> Vec<Ran> {
    let options: Vec<RunOptions> = (0..group.len()).map(options_of).collect();
    if let ([turn], [options]) = (group, &options[..]) {
        return vec![run(turn, options)];
    }
    std::thread::scope(|scope| {
        let runs: Vec<_> = group
            .iter()
            .zip(&options)
            .map(|(turn, options)| scope.spawn(move || run(turn, options)))
            .collect();
        let joined = runs.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|ended| ended.unwrap_or_else(|_| bail!("a run broke down"))).collect()
    })
}

/// Waits, but not for somebody who wants to stop.
fn rest(seconds: f64, interrupted: &Interrupted) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
    }
}

#[cfg(test)]
mod tests;
