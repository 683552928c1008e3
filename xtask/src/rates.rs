//! Latency against rate: `cargo xtask rates`. Pairs from 100 messages a second to the knee, brokers
//! in turn at every rate; a table, and a picture for the README.

mod picture;

use crate::curves::points::{Point, pairs_of};
use crate::curves::{heading, new_table};
use crate::perf::label;
use crate::perf::record::Figures;
use crate::perf::runner::Runner;
use crate::programs;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_stats::Spread;

/// Messages per second in all.
const RATES: [u64; 11] =
    [100, 300, 1_000, 3_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000];

const PAIRS: u64 = 1_000;

/// A row of the record: what a broker showed at a rate.
const HEADER: [&str; 9] = [
    "messages/s",
    "broker",
    "verdict",
    "delivered/s",
    "c us",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "gen",
];

/// Measure latency against rate, and draw it
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Broker, as `weir bench run` knows it; may be given several times [default: weir]
    #[arg(long, value_name = "BROKER")]
    broker: Vec<String>,
    /// Highest rate in messages per second
    #[arg(long, default_value_t = 70_000)]
    up_to: u64,
    /// Number of repeats
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Length of the measure phase in seconds
    #[arg(long, default_value_t = 5.0)]
    measure_s: f64,
    /// Where the table and the picture go
    #[arg(long, value_name = "FOLDER", default_value = "target/perf")]
    out: PathBuf,
}

/// What was measured, by broker and rate.
type Measured = BTreeMap<(usize, u64), Vec<Figures>>;

/// Measures all rates and keeps the table and the picture.
///
/// # Errors
/// A program that does not compile, a folder that cannot be written.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let brokers = match &arguments.broker[..] {
        [] => vec!["weir".to_owned()],
        some => some.to_vec(),
    };
    let scratch = programs::root().join("target/perf/rates");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    let folder = scratch.join("runs");
    let program = programs::build("weir", "weir")?;
    let runner = Runner { program, folder, warm_up_s: 2.0, measure_s: arguments.measure_s };
    let rates: Vec<u64> = RATES.into_iter().filter(|&rate| rate <= arguments.up_to).collect();
    let mut measured = Measured::new();
    for round in 0..arguments.repeat as usize {
        for &rate in &rates {
            let point = point(rate);
            let file = scratch.join(format!("{}.toml", point.name));
            std::fs::write(&file, &point.text)?;
            let file = file.to_str().context("a path that is not text")?;
            for turn in 0..brokers.len() {
                // Another one begins in each round.
                let at = (turn + round) % brokers.len();
                let name = format!("{rate}-{at}-{round}");
                eprint!("{rate} on {}: ", label(&brokers[at]));
                match runner.run(file, &brokers[at], &name) {
                    Ok(result) => {
                        let figures = result.figures();
                        eprintln!("{}", figures.verdict());
                        measured.entry((at, rate)).or_default().push(figures);
                    }
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
    }
    std::fs::create_dir_all(&arguments.out)?;
    let about = format!("{} Medians of {}.", heading(&runner)?, arguments.repeat);
    let text = format!(
        "# Latency against rate\n\n{about}\n{PAIRS} pairs at QoS 1, 16 bytes.\n\n{}\n",
        table(&brokers, &measured)
    );
    std::fs::write(arguments.out.join("latency-by-rate.md"), &text)?;
    println!("{text}");
    picture::draw(&arguments.out.join("latency-by-rate.svg"), &lines(&brokers, &measured))
}

fn point(rate: u64) -> Point {
    let each = rate as f64 / PAIRS as f64;
    pairs_of(format!("rate-{rate}"), rate.to_string(), PAIRS, 16, each)
}

fn table(brokers: &[String], measured: &Measured) -> comfy_table::Table {
    let mut table = new_table(HEADER);
    let mut rows: Vec<_> = measured.iter().collect();
    rows.sort_by_key(|((at, rate), _)| (*rate, *at));
    for ((at, rate), figures) in rows {
        let of = |value: fn(&Figures) -> Option<f64>| {
            middle(figures, value).map_or("-".into(), |value| format!("{value:.2}"))
        };
        table.add_row([
            rate.to_string(),
            label(&brokers[*at]).to_owned(),
            figures.iter().map(Figures::verdict).collect::<Vec<_>>().join(", "),
            of(|figures| Some(figures.delivered_per_s)),
            of(|figures| figures.cpu_us),
            of(|figures| ms(figures.p50_us)),
            of(|figures| ms(figures.p99_us)),
            of(|figures| ms(figures.p999_us)),
            of(|figures| Some(figures.generator_cores)),
        ]);
    }
    table
}

fn ms(us: Option<u64>) -> Option<f64> {
    us.map(|us| us as f64 / 1000.0)
}

fn middle(figures: &[Figures], value: fn(&Figures) -> Option<f64>) -> Option<f64> {
    Spread::of(figures.iter().filter_map(value)).map(|spread| spread.median)
}

/// What is drawn, a line per broker in each panel.
fn lines(brokers: &[String], measured: &Measured) -> Vec<picture::Panel> {
    let panel = |title, value: fn(&Figures) -> Option<f64>| {
        let of = |at: usize| {
            let points = measured.iter().filter(move |((broker, _), _)| *broker == at);
            points.filter_map(move |((_, rate), figures)| {
                Some((*rate as f64, middle(figures, value)?))
            })
        };
        let lines = (0..brokers.len()).map(|at| (label(&brokers[at]).to_owned(), of(at).collect()));
        picture::Panel { title, lines: lines.collect() }
    };
    vec![
        panel("p50, ms", |figures| ms(figures.p50_us)),
        panel("p99, ms", |figures| ms(figures.p99_us)),
        panel("p99.9, ms", |figures| ms(figures.p999_us)),
        panel("CPU, us per message", |figures| figures.cpu_us),
    ]
}
