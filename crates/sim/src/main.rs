//! `sim`: runs seeds and says what was found.

use anyhow::{Context, ensure};
use clap::Parser;
use std::ops::Range;
use std::process::ExitCode;
use weir_core::Stats;
use weir_sim::{Crashes, PLANTS, Plant, Run, Size};

/// Simulates the broker's core, and checks what it does.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Options {
    /// Seeds to run, the second not included
    #[arg(long, value_parser = range, default_value = "0..100", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// One seed
    #[arg(long)]
    seed: Option<u64>,
    /// Steps of a run
    #[arg(long, default_value_t = 2000)]
    steps: usize,
    /// Nodes of the cluster; one is a broker for itself
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
    /// Shards of each
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    shards: u16,
    /// Stop after this step, before anything is drained or ended
    #[arg(long)]
    until: Option<usize>,
    /// Print what happened, up to the finding
    #[arg(long)]
    trace: bool,
    /// Run each seed twice; both have to be the same
    #[arg(long)]
    twice: bool,
    /// In which runs the broker keeps a log and crashes
    #[arg(long, value_enum, default_value_t = When::Some)]
    crashes: When,
    /// Commit this fault now and then; `list` names them
    #[arg(long)]
    plant: Option<String>,
}

/// In which runs there are crashes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum When {
    Never,
    Some,
    Always,
    /// Nodes are lost whose logs others have
    OfNodes,
    /// The same, two at once
    OfTwoNodes,
}

impl From<When> for Crashes {
    fn from(when: When) -> Self {
        match when {
            When::Never => Self::Never,
            When::Some => Self::Some,
            When::Always => Self::Always,
            When::OfNodes => Self::OfNodes,
            When::OfTwoNodes => Self::OfTwoNodes,
        }
    }
}

/// What the shards of all runs did: that the runs are not empty.
#[derive(Debug, Default)]
struct Totals {
    connections: u64,
    takeovers: u64,
    publishes_in: u64,
    publishes_out: u64,
    publishes_refused: u64,
    dropped: u64,
    queue_overflows: u64,
    shared_rechosen: u64,
    freezes: u64,
    records_logged: u64,
    pages_out: u64,
    pages_in: u64,
    crashes: u64,
    /// Of a log in the middle of a session's copy.
    copies_cut: u64,
    nodes_lost: u64,
    sessions_taken: u64,
    wills_taken: u64,
    redelivered: u64,
}

impl Totals {
    fn add(&mut self, stats: &Stats) {
        self.connections += stats.connections_opened;
        self.takeovers += stats.takeovers;
        self.publishes_in += stats.publishes_in;
        self.publishes_out += stats.publishes_out;
        self.publishes_refused += stats.publishes_refused;
        self.dropped += stats.dropped_output_full
            + stats.dropped_too_large
            + stats.dropped_queue_full
            + stats.dropped_expired
            + stats.dropped_absent_qos0
            + stats.dropped_no_member;
        self.queue_overflows += stats.queue_overflows;
        self.shared_rechosen += stats.shared_rechosen;
        self.freezes += stats.freezes;
        self.records_logged += stats.records_logged;
        self.pages_out += stats.pages_out;
        self.pages_in += stats.pages_in;
        self.sessions_taken += stats.sessions_taken;
        self.wills_taken += stats.wills_taken;
    }
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parse = |part: &str| part.parse::<u64>().ok();
    let both = text.split_once("..").and_then(|(from, to)| Some((parse(from)?, parse(to)?)));
    let (from, to) = both.ok_or("seeds are given as 0..1000")?;
    if from < to { Ok(from..to) } else { Err("no seed in this range".into()) }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if options.plant.as_deref() == Some("list") {
        PLANTS.iter().for_each(|plant| println!("{}", plant.name()));
        return Ok(ExitCode::SUCCESS);
    }
    let plant = match &options.plant {
        None => None,
        Some(name) => {
            Some(Plant::of(name).with_context(|| format!("no fault {name}: see --plant list"))?)
        }
    };
    let seeds = options.seed.map_or(options.seeds.clone(), |seed| seed..seed + 1);
    let (mut failed, mut all) = (0, 0);
    let mut totals = Totals::default();
    for seed in seeds {
        let run = Run {
            seed,
            steps: options.steps,
            size: Size { nodes: options.nodes, shards: options.shards },
            until: options.until,
            plant,
            crashes: options.crashes.into(),
            is_printed: options.trace,
        };
        let outcome = run.run();
        if options.twice {
            let second = run.run();
            ensure!(outcome.hash == second.hash, "seed {seed} gives two traces");
        }
        outcome.lines.iter().for_each(|line| println!("{line}"));
        if let Some(finding) = outcome.findings.first() {
            let more = outcome.findings.len() - 1;
            println!(
                "seed {seed} step {}: {}: {}, and {more} more",
                outcome.step, finding.checker, finding.what
            );
        }
        if options.seed.is_some() {
            outcome.stats.iter().for_each(|stats| println!("{stats:?}"));
        }
        outcome.stats.iter().for_each(|stats| totals.add(stats));
        totals.crashes += outcome.crashes as u64;
        totals.copies_cut += outcome.copies_cut as u64;
        totals.nodes_lost += outcome.nodes_lost as u64;
        totals.redelivered += outcome.redelivered as u64;
        all += 1;
        failed += usize::from(!outcome.findings.is_empty());
        if options.seed.is_some() {
            println!(
                "seed {seed}: trace {:016x}, faults committed: {}",
                outcome.hash, outcome.strikes
            );
        }
    }
    println!("{totals:?}");
    let Options { nodes, shards, steps, .. } = options;
    println!("{all} seeds, {nodes} nodes of {shards} shards, {steps} steps: {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
