//! The raw costs of this machine in this minute, in both forms of the receiver, round by round.

use anyhow::{Context, ensure};
use clap::Parser;
use serde::Serialize;
use std::time::Duration;
use weir_costs::raw::{self, Form, Raw};

/// Measure what the system itself takes for a message of 36 bytes over loopback
#[derive(Debug, Parser)]
struct Arguments {
    /// Sockets that take turns
    #[arg(default_values_t = [100, 1000, 8000])]
    sockets: Vec<usize>,
    /// How often everything is measured, in turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of one measurement, in milliseconds
    #[arg(long, default_value_t = 500)]
    ms: u64,
    /// The sender's core and the receiver's; the first two that are allowed unless given
    #[arg(long, value_name = "CORE", num_args = 2)]
    cores: Option<Vec<usize>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One form over one number of sockets: an element a round.
#[derive(Debug, Serialize)]
struct Row {
    sockets: usize,
    form: &'static str,
    send_us: Vec<f64>,
    receive_us: Vec<f64>,
    pair_us: Vec<f64>,
    send_softirq_us: Vec<f64>,
    receive_softirq_us: Vec<f64>,
}

impl Row {
    fn new(sockets: usize, form: Form) -> Self {
        let [send_us, receive_us, pair_us, send_softirq_us, receive_softirq_us] =
            [const { Vec::new() }; 5];
        let form = form.name();
        Self { sockets, form, send_us, receive_us, pair_us, send_softirq_us, receive_softirq_us }
    }

    fn push(&mut self, raw: &Raw) {
        self.send_us.push(raw.send_us);
        self.receive_us.push(raw.receive_us);
        self.pair_us.push(raw.pair_us());
        self.send_softirq_us.push(raw.send_softirq_us);
        self.receive_softirq_us.push(raw.receive_softirq_us);
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let cores = match arguments.cores.as_deref() {
        Some(&[sender, receiver]) => [sender, receiver],
        _ => allowed()?,
    };
    let mut rows: Vec<Row> = arguments
        .sockets
        .iter()
        .flat_map(|&sockets| Form::ALL.map(|form| Row::new(sockets, form)))
        .collect();
    for _ in 0..arguments.rounds {
        for (at, row) in rows.iter_mut().enumerate() {
            let form = Form::ALL[at % Form::ALL.len()];
            let duration = Duration::from_millis(arguments.ms);
            row.push(&raw::measure(form, row.sockets, duration, cores)?);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else {
        print(&rows, cores);
    }
    Ok(())
}

fn allowed() -> anyhow::Result<[usize; 2]> {
    let set = rustix::thread::sched_getaffinity(None).context("the cores that are allowed")?;
    let mut cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&at| set.is_set(at));
    let (first, second) = (cores.next(), cores.next());
    ensure!(second.is_some(), "two cores are needed; name them with --cores");
    Ok([first.unwrap_or(0), second.unwrap_or(0)])
}

fn print(rows: &[Row], [sender, receiver]: [usize; 2]) {
    println!("CPU us, median and (lowest to highest) of {} rounds", rows[0].send_us.len());
    println!("one: sent and received by one thread on core {sender}, the receiver passive");
    println!("two: sent on core {sender}, received on core {receiver} by a thread that waits");
    println!("P = 2 R + 2 V; softirq is ksoftirqd's part of R\n");
    let titles = ["R", "V", "P", "softirq"];
    print!("{:>8} {:>5}", "sockets", "form");
    titles.iter().for_each(|title| print!(" {title:>22}"));
    println!();
    for row in rows {
        print!("{:>8} {:>5}", row.sockets, row.form);
        for values in [&row.send_us, &row.receive_us, &row.pair_us, &row.send_softirq_us] {
            print!(" {:>22}", spread(values));
        }
        println!();
    }
}

/// Median, lowest, highest.
fn spread(values: &[f64]) -> String {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    format!("{median:.2} ({:.2} to {:.2})", values[0], values[values.len() - 1])
}
