//! `weir bench clients`: client stacks listed, set up and measured; and the two hidden programs
//! that it is made of, the replay server and a stack that does next to nothing.

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_bench::folder;
use weir_bench::interrupt::note_signals;
use weir_say::{noteln, say, sayln};
use weir_stacks::null_stack::{Fault, NullStack};
use weir_stacks::replay::PAYLOAD_BYTES;
use weir_stacks::{ClientsOptions, Folder, Settings, Stack, Standing, Workflow};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ClientsArgs {
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// List the stacks: what each is, and whether it is installed
    List(Which),
    /// Install stacks into ~/.cache/weir/stacks, and say which are unavailable
    Setup {
        #[command(flatten)]
        which: Which,
        /// Install again what is already installed
        #[arg(long)]
        anew: bool,
    },
    /// Measure the stacks
    Run(Box<RunArgs>),
    /// Print stored results, and write clients.md and clients.html again
    Report {
        /// Folder that contains clients.json
        folder: PathBuf,
    },
}

const EXAMPLES: &str = "Examples:
  weir bench clients list
  weir bench clients setup --stack go-paho --stack node-mqttjs
  weir bench clients run --repeat 3 --knee
  weir bench clients run --stack weir --workflow subscribe --rate 200000 --per-segment 10
  weir bench clients report weir-results/20261121T101500Z-clients-workflow

Exit status of run: 0 every stack followed the protocol and its books balanced; 1 otherwise.";

/// Which stacks.
#[derive(Debug, Args)]
struct Which {
    /// A stack, or FOLDER/ for all of its stacks; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    stack: Vec<String>,
    /// Folder that contains the stacks [default: `stacks` here or next to the program]
    #[arg(long, value_name = "DIR")]
    stacks: Option<PathBuf>,
}

impl Which {
    fn folders(&self) -> anyhow::Result<Vec<Folder>> {
        Ok(weir_stacks::folders(self.stacks.as_deref())?)
    }

    fn stacks(&self, weir: &Path) -> anyhow::Result<Vec<Stack>> {
        Ok(weir_stacks::choose(&self.folders()?, &self.stack, weir)?)
    }
}

/// How to measure.
#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    which: Which,
    /// What the stacks do: subscribe, workflow, publish or connect; may be given several times
    #[arg(long, value_name = "WORKFLOW", default_value = "workflow")]
    workflow: Vec<Workflow>,
    /// A fixed rate in operations per second; may be given several times
    #[arg(long, value_name = "RATE", default_values = ["1000", "5000", "20000"],
        value_parser = parse_rate)]
    rate: Vec<f64>,
    /// Also find the highest rate that each stack keeps up with
    #[arg(long)]
    knee: bool,
    /// QoS in both directions: 0 or 1; may be given several times
    #[arg(long, value_name = "QOS", default_value = "0",
        value_parser = clap::value_parser!(u8).range(0..=1))]
    qos: Vec<u8>,
    /// Rounds, each with every stack at every rate in an order given by the seed; a confidence
    /// interval needs at least 3
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Seed for the order within rounds and for the confidence intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the measure phase at a fixed rate
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = super::parse_length)]
    duration: f64,
    /// Length of the feed before the measure phase, which must be fully processed; just-in-time
    /// compilers need it
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = super::parse_seconds)]
    warm_up: f64,
    /// Length of the measure phase of each step on the way to the knee
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = super::parse_length)]
    step: f64,
    /// Highest p99 that a step may have, from the intended time
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = super::parse_length)]
    p99: f64,
    /// Messages that are due together and arrive in one segment
    #[arg(long, value_name = "K", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    per_segment: u32,
    /// QoS 1 messages that may be unacknowledged at a time
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..=32_768))]
    window: u32,
    /// How long an adapter may take to become ready, and to answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = super::parse_length)]
    patience: f64,
    /// Stack that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Pin stack and replay server to a core each, if there are two: auto or none
    #[arg(long, value_name = "PIN", default_value = "auto", value_parser = ["auto", "none"])]
    pin: String,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "weir-results")]
    out: PathBuf,
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a rate is a number, such as 20000".to_owned())?;
    let is_usable = rate > 0.0 && rate <= 5e6;
    is_usable.then_some(rate).ok_or_else(|| "a rate is above 0 and at most 5000000".into())
}

pub(super) fn run(args: &ClientsArgs) -> anyhow::Result<ExitCode> {
    let weir = std::env::current_exe().context("cannot find this program")?;
    match &args.command {
        ClientsCommand::List(which) => {
            say!("{}", weir_stacks::render_list(&which.stacks(&weir)?));
            Ok(ExitCode::SUCCESS)
        }
        ClientsCommand::Setup { which, anew } => setup(which, *anew, &weir),
        ClientsCommand::Run(args) => measure(args, weir),
        ClientsCommand::Report { folder } => {
            let clients = weir_stacks::read(folder)?;
            let text = weir_stacks::render(&clients);
            say!("{text}");
            folder::write(folder, "clients.md", &text)?;
            folder::write(folder, "clients.html", &weir_stacks::html(&clients)?)?;
            sayln!("report: {}", folder.join("clients.html").display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Each folder that one of the names is in.
fn setup(which: &Which, is_anew: bool, weir: &Path) -> anyhow::Result<ExitCode> {
    let folders = which.folders()?;
    let chosen = weir_stacks::choose(&folders, &which.stack, weir)?;
    let interrupted = note_signals()?;
    let mut missing = 0;
    for folder in folders.iter().filter(|of| chosen.iter().any(|stack| stack.folder == of.name)) {
        noteln!("{}: setting up in {}", folder.name, folder.cache.display());
        let done = weir_stacks::setup(folder, weir, is_anew, &interrupted)
            .with_context(|| format!("{}: {}", folder.name, folder.cache.display()))?;
        if interrupted.load(Ordering::Relaxed) {
            noteln!("{}: interrupted; not set up", folder.name);
            return Ok(ExitCode::from(130));
        }
        for (name, why) in &done.variants {
            match why {
                None if done.is_known => sayln!("{name}: here already"),
                None => sayln!("{name}: here"),
                Some(why) => {
                    missing += 1;
                    sayln!("{name}: cannot be had: {why}");
                    noteln!("  {}", done.log.display());
                }
            }
        }
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn measure(args: &RunArgs, weir: PathBuf) -> anyhow::Result<ExitCode> {
    let stacks = args.which.stacks(&weir)?;
    let here: Vec<&Stack> = stacks.iter().filter(|stack| stack.missing.is_none()).collect();
    ensure!(!here.is_empty(), "no stack is here; weir bench clients list says why");
    for stack in stacks.iter().filter(|stack| args.which.stack.contains(&stack.name)) {
        if let Some(why) = &stack.missing {
            anyhow::bail!("--stack {}: {why}", stack.name);
        }
    }
    let base = args.base.clone().unwrap_or_else(|| here[0].name.clone());
    ensure!(
        here.iter().any(|stack| stack.name == base),
        "--base {base}: no stack of this run has that name"
    );
    let settings = Settings {
        workflows: unique(&args.workflow),
        rates: args.rate.clone(),
        knee: args.knee,
        qos: unique(&args.qos),
        repeats: args.repeat,
        seed: args.seed,
        warm_up_s: args.warm_up,
        measure_s: args.duration,
        step_s: args.step,
        per_segment: args.per_segment,
        window: args.window,
        patience_s: args.patience,
        p99_max_ms: args.p99 * 1e3,
        payload_bytes: PAYLOAD_BYTES as u64,
        base,
        pinning: String::new(),
    };
    let options = ClientsOptions {
        stacks,
        settings,
        is_pinned: args.pin == "auto",
        out: args.out.clone(),
        weir,
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("WEIR_COMMIT").into(),
        command: super::command_line(),
    };
    let interrupted = note_signals()?;
    let (clients, folder) = weir_stacks::run(&options, &interrupted)?;
    say!("{}", weir_stacks::render(&clients));
    sayln!("report: {}", folder.join("clients.html").display());
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    let is_right = |standing: Standing| !standing.is_fault();
    let is_all = clients.points.iter().all(|point| is_right(point.standing))
        && clients.knees.iter().all(|knee| {
            knee.broken.is_none() && knee.steps.iter().all(|step| is_right(step.standing))
        });
    Ok(if is_all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn unique<T: PartialEq + Copy>(of: &[T]) -> Vec<T> {
    let mut unique = Vec::new();
    for one in of {
        if !unique.contains(one) {
            unique.push(*one);
        }
    }
    unique
}

/// Serves one stack until standard input ends.
pub(super) fn replay() -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let input = BufReader::new(std::io::stdin());
    weir_stacks::replay::serve(listener, input, std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// The arguments every adapter is given, and how this one is to fail.
#[derive(Debug, Args)]
pub(super) struct NullStackArgs {
    #[arg(long)]
    host: IpAddr,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    workflow: Workflow,
    #[arg(long = "in")]
    filter: String,
    #[arg(long = "out")]
    topic: String,
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=1))]
    qos: u8,
    #[arg(long)]
    rate: f64,
    /// Speak MQTT 5.0
    #[arg(long)]
    v5: bool,
    /// Do this to every tenth result: lose, double, alter, invent, stray, retain, swap or
    /// overstate; or stall once
    #[arg(long)]
    fault: Option<Fault>,
}

pub(super) fn null_stack(args: &NullStackArgs) -> anyhow::Result<ExitCode> {
    let stack = NullStack {
        server: SocketAddr::from((args.host, args.port)),
        workflow: args.workflow.name().into(),
        filter: args.filter.clone(),
        topic: args.topic.clone(),
        qos: args.qos,
        rate_per_s: args.rate,
        is_v5: args.v5,
        fault: args.fault,
    };
    stack.run(std::io::stdin().lock(), std::io::stdout()).context("this stack ends")?;
    Ok(ExitCode::SUCCESS)
}
