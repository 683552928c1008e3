//! Cost against work: `cargo xtask curves`. One thing grows, the rest stays; a table a curve. What
//! concerns sockets goes through `weir bench run` with use cases made here, beside a calibration of
//! the same minute; filters and topics go through the core alone, in process.

pub(crate) mod points;

use crate::calibrate::Calibrator;
use crate::perf::others::Others;
use crate::perf::record::Repeat;
use crate::perf::runner::Runner;
use crate::programs;
use anyhow::{Context, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use points::{CURVES, Curve, Sweep};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// Measure cost against work: subscribers, connections, payload, filters, topics
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Curve: subscribers, connections, payload, filters or topics [default: all]
    #[arg(long, value_name = "CURVE")]
    only: Vec<String>,
    /// Broker, as `weir bench run` knows it
    #[arg(long, default_value = "weir")]
    broker: String,
    /// Length of the measure phase at each point in seconds
    #[arg(long, default_value_t = 10.0)]
    measure_s: f64,
    /// Run for 3 seconds each, to see that it works; written to target/perf, not to results
    #[arg(long)]
    quick: bool,
}

/// A point of a curve of the core, as the program `sweep` prints it.
#[derive(Deserialize)]
struct CorePoint {
    count: u64,
    message_ns: f64,
    floor_ns: f64,
    hits: f64,
    filter_bytes: Option<f64>,
}

/// Programs and folders.
struct Bench {
    runner: Runner,
    calibrator: Calibrator,
    sweep: PathBuf,
    broker: String,
    scratch: PathBuf,
}

/// Measures the curves and keeps their tables.
///
/// # Errors
/// No such curve, a program that does not compile, the core's sweep failing.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for name in &arguments.only {
        let known = || CURVES.iter().map(|curve| curve.name).collect::<Vec<_>>().join(", ");
        let is_known = CURVES.iter().any(|curve| curve.name == name);
        ensure!(is_known, "there is no curve {name:?}; there are {}", known());
    }
    let root = programs::root();
    let scratch = root.join("target/perf/curves");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    let (warm_up_s, measure_s) =
        if arguments.quick { (1.0, 3.0) } else { (3.0, arguments.measure_s) };
    let program = programs::build("weir", "weir")?;
    let bench = Bench {
        runner: Runner { program, folder: scratch.join("runs"), warm_up_s, measure_s },
        calibrator: Calibrator::build()?,
        sweep: programs::build("weir-costs", "sweep")?,
        broker: arguments.broker.clone(),
        scratch,
    };
    let is_wanted = |curve: &&Curve| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == curve.name)
    };
    let mut text =
        format!("# Cost against work\n\n{} Broker {}.\n", heading(&bench.runner)?, bench.broker);
    for curve in CURVES.iter().filter(is_wanted) {
        let table = match curve.sweep {
            Sweep::Core(counts) => core_table(&bench, curve, counts)?,
            Sweep::Broker(points) => broker_table(&bench, curve, &points())?,
        };
        let part = format!("\n## {}\n{}\n\n{table}\n", curve.name, curve.about);
        println!("{part}");
        text += &part;
    }
    let folder = root.join(if arguments.quick { "target/perf" } else { "results" });
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("curves-{}.md", arguments.broker.replace(['/', ':'], "_")));
    std::fs::write(&path, text)?;
    println!("kept: {}", path.display());
    Ok(())
}

/// Program, kernel, lengths.
pub(crate) fn heading(runner: &Runner) -> anyhow::Result<String> {
    let version = programs::said(Command::new(&runner.program).arg("--version"))?;
    let system = programs::said(Command::new("uname").args(["-n", "-r", "-m"]))?;
    Ok(format!(
        "{} on {}; {} s measured after {} s of warm-up.",
        version.trim(),
        system.trim(),
        runner.measure_s,
        runner.warm_up_s
    ))
}

pub(crate) fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn broker_table(bench: &Bench, curve: &Curve, points: &[points::Point]) -> anyhow::Result<Table> {
    let header = [
        curve.name,
        "verdict",
        "delivered/s",
        "lost",
        "c us",
        "R one us",
        "c/R one",
        "c/P one",
        "c/R two",
        "p50 ms",
        "p99 ms",
        "RSS MB",
        "gen",
        "others",
    ];
    let mut table = new_table(header);
    for point in points {
        let file = bench.scratch.join(format!("{}.toml", point.name));
        std::fs::write(&file, &point.text)?;
        let calibration = bench.calibrator.measure(point.connections, 300)?;
        let file = file.to_str().context("a path that is not text")?;
        eprint!("{}: ", point.name);
        let others = Others::begin();
        let figures = match bench.runner.run(file, &bench.broker, &point.name) {
            Ok(result) => result.figures(),
            Err(error) => {
                eprintln!("{error:#}");
                continue;
            }
        };
        eprintln!("{}", figures.verdict());
        let others_cores = others.cores();
        let repeat = Repeat { round: 1, calibration, others_cores, figures };
        table.add_row(cells(&point.shown, &repeat));
    }
    Ok(table)
}

fn cells(shown: &str, repeat: &Repeat) -> [String; 14] {
    let figures = &repeat.figures;
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    [
        shown.to_owned(),
        figures.verdict().to_owned(),
        format!("{:.0}", figures.delivered_per_s),
        figures.lost.to_string(),
        number(repeat.cpu_us()),
        number(Some(repeat.calibration.one.send_us)),
        number(repeat.by_send()),
        number(repeat.by_pair()),
        number(repeat.by_send_two()),
        number(repeat.p50_ms()),
        number(repeat.p99_ms()),
        number(repeat.rss_mb()),
        number(Some(figures.generator_cores)),
        number(Some(repeat.others_cores)),
    ]
}

fn core_table(bench: &Bench, curve: &Curve, counts: &[u64]) -> anyhow::Result<Table> {
    let header = [curve.name, "ns a message", "with # alone", "hits", "bytes a filter"];
    let mut table = new_table(header);
    for count in counts {
        eprintln!("{}: {count}", curve.name);
        let mut command = Command::new(&bench.sweep);
        command.args([curve.name, &count.to_string()]);
        let point: CorePoint = serde_json::from_str(&programs::said(&mut command)?)?;
        table.add_row([
            point.count.to_string(),
            format!("{:.0}", point.message_ns),
            format!("{:.0}", point.floor_ns),
            format!("{:.2}", point.hits),
            point.filter_bytes.map_or("-".into(), |bytes| format!("{bytes:.0}")),
        ]);
    }
    Ok(table)
}
