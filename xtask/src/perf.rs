//! The table of the targets: `cargo xtask perf`. Use cases in turn over brokers and repeats, each
//! beside a calibration of the same minute; one table; what is kept; what got slower.
//!
//! The machine is shared by broker and load, and by whoever else: so everything is interleaved, and
//! what counts are ratios within a round.

pub(crate) mod compare;
pub(crate) mod others;
pub(crate) mod record;
pub(crate) mod runner;
pub(crate) mod table;

use crate::calibrate::Calibrator;
use crate::programs;
use anyhow::{Context, ensure};
use others::Others;
use record::{Record, Repeat};
use runner::Runner;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_bench::driver::program_of_host;

/// Rows of the table of targets.
const USE_CASES: &[&str] = &[
    "fanout-5-1000-5-250K",
    "fanout-qos0-5-1000-5-250K",
    "fanout-2-1000-2-100K",
    "throughput-20-1000-20-2M",
    "throughput-10-1000-10-1M",
    "p2p-1K-1K-1K-50K",
    "p2p-9K-9K-9K-10K",
    "p2p-9K-9K-9K-50K",
    "sharedsub-9K-500-9K-50K",
    "ingest-1K-10-1K-200K",
    "ingest-qos1-1K-10-1K-20K",
    "p2p-1K-1K-1K-1K",
    "sharedsub-1K-5-1K-1K",
    "fanout-1-1K-1-1K",
    "conn-tcp-15K-2500",
];

/// Run the performance use cases, print ratios and store them
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Use case, with or without `singlenode-`; may be given several times [default: all]
    #[arg(long = "use", value_name = "NAME")]
    use_cases: Vec<String>,
    /// Broker, as `weir bench run` knows it, such as weir, mosquitto@2.1=PROGRAM or
    /// NAME=mqtt://HOST:PORT?pid=PID; may be given several times [default: weir, and of flashmq and
    /// mosquitto those that are installed]
    #[arg(long, value_name = "BROKER")]
    broker: Vec<String>,
    /// Number of repeats
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Length of the measure phase in seconds
    #[arg(long, default_value_t = 10.0)]
    measure_s: f64,
    /// Run once, for 3 seconds each, to see that it works; written to target/perf, not to results
    #[arg(long)]
    quick: bool,
}

/// The peers that are there, unless others are named.
const PEERS: [&str; 2] = ["flashmq", "mosquitto"];

/// Milliseconds of each form of calibration.
const CALIBRATION_MS: u64 = 500;

/// A use case to be run.
struct UseCase {
    name: String,
    file: String,
    connections: u64,
}

/// Runs all of it.
///
/// # Errors
/// A use case that is not there, a program that does not compile, no result at all.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = programs::root();
    let names: Vec<&str> = match &arguments.use_cases[..] {
        [] => USE_CASES.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let use_cases: Vec<UseCase> =
        names.into_iter().map(|name| resolve(&root, name)).collect::<Result<_, _>>()?;
    let calibrator = Calibrator::build()?;
    let scratch = root.join("target/perf");
    let runs = scratch.join("runs");
    if runs.exists() {
        std::fs::remove_dir_all(&runs)?;
    }
    let (warm_up_s, measure_s) =
        if arguments.quick { (1.0, 3.0) } else { (3.0, arguments.measure_s) };
    let program = programs::build("weir", "weir")?;
    let runner = Runner { program, folder: runs, warm_up_s, measure_s };
    let folder = if arguments.quick { scratch } else { root.join("results") };
    let repeats = if arguments.quick { 1 } else { arguments.repeat };
    let brokers = brokers(arguments);
    let mut record: Option<Record> = None;
    for round in 1..=repeats {
        for use_case in &use_cases {
            run_round(round, use_case, &brokers, &calibrator, &runner, &mut record)?;
        }
        // Kept after each round: what was measured outlives an interruption.
        if let Some(record) = &record {
            record.keep(&folder, &table::markdown(record))?;
        }
    }
    let record = record.context("there is no result at all")?;
    let table = table::markdown(&record);
    println!("{table}");
    match record.last_kept(&folder)? {
        Some(last) => print!("{}", compare::changes(&last, &record)),
        None => println!("nothing to compare with: no earlier record of this host is kept"),
    }
    println!("kept: {}", record.keep(&folder, &table)?.display());
    Ok(())
}

/// Who is asked for, or Weir and the peers that are there.
fn brokers(arguments: &Arguments) -> Vec<String> {
    if !arguments.broker.is_empty() {
        return arguments.broker.clone();
    }
    let peers = PEERS.into_iter().filter(|name| program_of_host(name).is_some());
    ["weir"].into_iter().chain(peers).map(str::to_owned).collect()
}

/// A use case on every broker, after a calibration.
fn run_round(
    round: u32,
    use_case: &UseCase,
    all: &[String],
    calibrator: &Calibrator,
    runner: &Runner,
    record: &mut Option<Record>,
) -> anyhow::Result<()> {
    let calibration = calibrator.measure(use_case.connections, CALIBRATION_MS)?;
    // Whoever comes first finds the machine as another use case left it: in turn.
    for at in 0..all.len() {
        let broker = &all[(at + round as usize - 1) % all.len()];
        eprint!("{round}: {} on {}: ", use_case.name, label(broker));
        let name = format!("{round}-{}-{}", use_case.name, broker.replace(['/', ':'], "_"));
        let others = Others::begin();
        let result = match runner.run(&use_case.file, broker, &name) {
            Ok(result) => result,
            Err(error) => {
                eprintln!("{error:#}");
                continue;
            }
        };
        let others_cores = others.cores();
        let record = record.get_or_insert_with(|| new_record(runner, &result));
        let row = record.row(&use_case.name, label(broker));
        row.version = result.version().to_owned();
        let repeat = Repeat { round, calibration, others_cores, figures: result.figures() };
        eprintln!("{}", one_line(&repeat));
        row.repeats.push(repeat);
    }
    Ok(())
}

fn new_record(runner: &Runner, result: &runner::RunResult) -> Record {
    let host_name = Command::new("uname").arg("-n").output();
    let host_name = host_name.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    Record {
        commit: result.commit().to_owned(),
        started: result.started().to_owned(),
        host_name,
        host: result.host.clone(),
        warm_up_s: runner.warm_up_s,
        measure_s: runner.measure_s,
        rows: Vec::new(),
    }
}

/// `name` of `name=mqtt://host:port?pid=PID`.
pub(crate) fn label(broker: &str) -> &str {
    broker.split('=').next().unwrap_or(broker)
}

fn one_line(repeat: &Repeat) -> String {
    let figures = &repeat.figures;
    let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    format!(
        "{}, {:.0}/s, c {} us, c/R one {}, p99 {} ms",
        figures.verdict(),
        figures.delivered_per_s,
        shown(repeat.cpu_us()),
        shown(repeat.by_send()),
        shown(repeat.p99_ms())
    )
}

/// The file of a use case of `usecases/`, or a file of one's own.
fn resolve(root: &Path, text: &str) -> anyhow::Result<UseCase> {
    let stem = Path::new(text).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = stem.strip_prefix("singlenode-").unwrap_or(&stem).to_owned();
    let path = if text.ends_with(".toml") {
        PathBuf::from(text).canonicalize().with_context(|| text.to_owned())?
    } else {
        root.join(format!("usecases/singlenode-{name}.toml"))
    };
    ensure!(path.is_file(), "there is no use case {text:?}: `weir bench list` names all");
    let shown = || path.display().to_string();
    let table: toml::Table =
        std::fs::read_to_string(&path).with_context(shown)?.parse().with_context(shown)?;
    let groups = table.get("group").and_then(toml::Value::as_array).with_context(shown)?;
    let clients = |group: &toml::Value| group.get("clients")?.as_integer();
    let connections = groups.iter().filter_map(clients).sum::<i64>().unsigned_abs();
    Ok(UseCase { name, file: path.to_string_lossy().into_owned(), connections })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_use_case_of_the_targets_is_there_with_its_connections() {
        let root = programs::root();
        for name in USE_CASES {
            assert!(resolve(&root, name).unwrap().connections > 1000, "{name}");
        }
        let same = resolve(&root, "singlenode-p2p-9K-9K-9K-50K").unwrap();
        assert_eq!((same.name.as_str(), same.connections), ("p2p-9K-9K-9K-50K", 18_000));
        assert!(resolve(&root, "p2p-9K").is_err());
    }
}
