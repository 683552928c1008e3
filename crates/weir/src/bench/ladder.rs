//! `weir bench ladder`: the highest load at which a broker meets an objective.

use super::How;
use anyhow::Context;
use clap::Args;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_bench::doctor::{self, Demand};
use weir_bench::driver::Driver;
use weir_bench::interrupt::{Interrupted, note_signals};
use weir_bench::ladder::{self, Climb, Ladder, LadderOptions, Objective, What};
use weir_bench::run::RunOptions;
use weir_bench::usecase::UseCase;
use weir_bench::{folder, host};
use weir_chance::Chance;
use weir_say::{noteln, say, sayln};

pub(super) const EXAMPLES: &str = "Examples:
  weir bench ladder p2p-1K-1K-1K-1K --broker weir --broker mosquitto
  weir bench ladder fanout-5-1000-5-250K --objective 'p99<=50ms,lost=0' --from 50 --to 2000
  weir bench ladder conn-tcp-10K-100 --what connections --objective 'connect-p99<=100ms,dropped=0'

Every step is a run of its own and must meet the objective and keep the use case's contract. A step
that misses is run again before it counts, and the step that bounds the knee is run once more at the
end. Ladders of several brokers, and of --repeat, take turns step by step to meet the same host.
Exit status: 0 a knee, or the end of the span, was confirmed; 1 it was not.";

/// Measure phase of a step.
const STEP_S: &str = "4s";

/// Warm-up of a step.
const WARM_UP_S: &str = "1s";

const DURATION: &str = "Length of the measure phase of each step";
const WARM_UP: &str = "Length of the warm-up of each step";
const REPEAT: &str = "Climb this many ladders per broker, and say how far their knees lie apart";

/// What to climb, and how.
#[derive(Debug, Args)]
#[command(mut_arg("duration", |arg| arg.default_value(STEP_S).help(DURATION)))]
#[command(mut_arg("warm_up", |arg| arg.default_value(WARM_UP_S).help(WARM_UP)))]
#[command(mut_arg("repeat", |arg| arg.help(REPEAT)))]
#[command(mut_arg("seed", |arg| arg.help("Seed for the order in which ladders take turns")))]
#[command(mut_arg("cool_down", |arg| arg.hide(true)))]
#[command(mut_arg("abreast", |arg| arg.hide(true)))]
pub(super) struct LadderArgs {
    /// A name from `weir bench list`, or a TOML file
    #[arg(value_name = "USE-CASE|FILE")]
    use_case: String,
    /// What a step must meet besides the contract: p50, p90, p95, p99, p99.9, mean, max,
    /// ack-p99, connect-p99 (times), lost, duplicated, dropped (counts), cpu (cores), rss (MB)
    #[arg(long, value_name = "CONDITIONS", default_value = "p99<=20ms,lost=0")]
    objective: Objective,
    /// What to increase: rate (published/s in total), connections or subscribers
    #[arg(long, default_value = "rate")]
    what: What,
    /// First step [default: the use case's own size]
    #[arg(long, value_name = "NUMBER")]
    from: Option<f64>,
    /// Last step [default: a thousand times the first]
    #[arg(long, value_name = "NUMBER")]
    to: Option<f64>,
    #[command(flatten)]
    how: How,
}

pub(super) fn run(args: &LadderArgs) -> anyhow::Result<ExitCode> {
    let use_case = UseCase::resolve(&args.use_case)?;
    let how = &args.how;
    let rounds = how.repeats.rounds("steps of ladders take turns already")?;
    let brokers = how.brokers()?;
    let agents = how.agents()?;
    let out = folder::create(&how.out, &use_case.name, "ladder")?;
    let options = LadderOptions {
        what: args.what,
        objective: args.objective.clone(),
        from: args.from,
        to: args.to,
    };
    let is_pinned = how.pin == "auto";
    noteln!("{}", host::Pinning::plan(is_pinned).of_agents(how.agents).text);
    doctor::warn(&Demand::of(std::slice::from_ref(&use_case), how.scale));
    let interrupted = note_signals()?;
    let live = how.live.open(is_pinned, &how.out, &interrupted)?;
    let run = how.options(&brokers, agents, out.clone(), live.clone());
    let seed = how.repeats.seed();
    let climbed = climbs(&use_case, &brokers, &options, &run, rounds)
        .and_then(|climbs| climb_in_turn(climbs, &run, seed, &interrupted));
    live.close();
    // A search that could not begin leaves no folder; what a broker's log says stays.
    let (ladders, is_whole) = climbed.inspect_err(|_| folder::remove_if_empty(&out))?;
    // Not before the screen is gone.
    ladders.iter().for_each(|ladder| say!("{}", ladder::render(ladder)));
    ladder::apart(&ladders).iter().for_each(|line| sayln!("{line}"));
    if ladders.is_empty() {
        folder::remove_if_empty(&out);
    } else {
        keep(&ladders, &out)?;
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    let is_confirmed = |ladder: &Ladder| ladder.knee.is_some_and(|knee| knee.confirmed.is_some());
    Ok(if is_whole && ladders.iter().all(is_confirmed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn climbs<'a>(
    use_case: &'a UseCase,
    brokers: &'a [Box<dyn Driver>],
    options: &'a LadderOptions,
    run: &RunOptions,
    rounds: u32,
) -> anyhow::Result<Vec<Climb<'a>>> {
    let mut climbs = Vec::new();
    for broker in brokers {
        // One alone has no number.
        let rounds = if rounds == 1 { 0..=0 } else { 1..=rounds };
        for round in rounds {
            let climb = Climb::new(use_case, &**broker, options, run, round)
                .with_context(|| format!("{} on {}", use_case.name, broker.name()))?;
            climbs.push(climb);
        }
    }
    Ok(climbs)
}

/// A step of each ladder that is not over, in an order by `seed`, until all are. Says whether all
/// could be climbed, too.
fn climb_in_turn(
    mut climbs: Vec<Climb<'_>>,
    run: &RunOptions,
    seed: u64,
    interrupted: &Interrupted,
) -> anyhow::Result<(Vec<Ladder>, bool)> {
    let mut first_error = None;
    let mut chance = Chance::new(seed);
    let mut order: Vec<usize> = (0..climbs.len()).collect();
    while climbs.iter().any(|climb| !climb.is_over()) {
        chance.shuffle(&mut order);
        for &at in &order {
            if interrupted.load(Ordering::Relaxed) {
                return Ok((ladders(climbs), true));
            }
            let climb = &mut climbs[at];
            let (name, unit) = (climb.name(), climb.unit());
            match climb.step(run, interrupted) {
                Ok(Some(step)) => noteln!("{}", ladder::step_line(&name, step, unit)),
                Ok(None) => {}
                // One broker that does not start is no end of the others' ladders.
                Err(error) => {
                    let error = error.context(name);
                    climb.stop();
                    if order.len() > 1 {
                        noteln!("weir: {error:#}");
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    match (ladders(climbs), first_error) {
        (found, Some(error)) if found.is_empty() => Err(error),
        (found, error) => Ok((found, error.is_none())),
    }
}

fn ladders(climbs: Vec<Climb<'_>>) -> Vec<Ladder> {
    climbs.into_iter().filter_map(Climb::ladder).collect()
}

fn keep(ladders: &[Ladder], out: &Path) -> anyhow::Result<()> {
    folder::write(out, "ladder.json", &(serde_json::to_string_pretty(ladders)? + "\n"))?;
    folder::write(out, "ladder.html", &ladder::html(ladders)?)?;
    sayln!("report: {}", out.join("ladder.html").display());
    Ok(())
}
