//! `weir bench`: run use cases against brokers, look at results, look at the host.

mod brokers;
mod clients;
mod compare;
mod crash;
mod emqtt;
mod export;
mod guard;
mod ladder;
mod live;
mod new;
mod repeat;

use anyhow::Context;
use clap::{Args, Subcommand};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_bench::agents::Agents;
use weir_bench::driver::{self, Driver, Profile, UrlTls};
use weir_bench::interrupt::{Interrupted, note_signals};
use weir_bench::live::Live;
use weir_bench::live::events::Event;
use weir_bench::result::{RunResult, Status};
use weir_bench::run::RunOptions;
use weir_bench::session::Session;
use weir_bench::usecase::{self, Span, UseCase};
use weir_bench::{ceiling, conformance, doctor, folder, paths, report, summary, tables};
use weir_conformance::Version;
use weir_connection::{TlsArgs, TlsSettings};
use weir_load::plan::{ClientSettings, Transport};
use weir_say::{say, sayln};

/// Benchmark MQTT brokers with the Open MQTT Benchmark Suite
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// List the use cases by set
    List,
    /// Run one or more use cases
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        /// A name from `weir bench list`, a TOML file, or - to read one from standard input
        #[arg(required = true, value_name = "USE-CASE|FILE")]
        use_cases: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Run a set of use cases
    #[command(after_help = SUITE_EXAMPLES)]
    Suite {
        /// basic, enterprise, throughput, perf, secure, durable, beyond, storms, soak, faults or
        /// cluster
        set: String,
        #[command(flatten)]
        how: How,
    },
    /// Print a commented use case to start from: weir bench new > mine.toml
    New(new::NewArgs),
    /// Test how closely brokers follow the MQTT standard, and print a scoreboard
    #[command(after_help = CONFORMANCE_EXAMPLES)]
    Conformance(ConformanceArgs),
    /// Print stored results, and write their page again: report.html in the only folder named, or
    /// report-A-B.html here for several
    Report {
        /// Result folders, or folders that contain some
        #[arg(required = true, value_name = "RESULT")]
        results: Vec<PathBuf>,
        /// Write the page to this file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Leave the results themselves out of the page, which then offers none for download
        #[arg(long)]
        small: bool,
    },
    Export(export::ExportArgs),
    /// Browse and compare stored runs in a web browser
    Browse(live::BrowseArgs),
    /// Compare brokers or two sets of runs, with a verdict per metric
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Find the highest rate, or the most clients, at which brokers meet an objective
    #[command(after_help = ladder::EXAMPLES)]
    Ladder(Box<ladder::LadderArgs>),
    /// Crash brokers under load, and count what they had acknowledged and lost
    #[command(after_help = crash::EXAMPLES)]
    Crash(crash::CrashArgs),
    /// Open and hold connections, with emqtt-bench's options
    #[command(after_help = emqtt::CONN_EXAMPLES)]
    Conn(emqtt::ConnArgs),
    /// Publish, with emqtt-bench's options
    #[command(after_help = emqtt::PUB_EXAMPLES)]
    Pub(emqtt::PubArgs),
    /// Subscribe, with emqtt-bench's options
    #[command(after_help = emqtt::SUB_EXAMPLES)]
    Sub(emqtt::SubArgs),
    /// Check what this host can sustain and what would spoil a run, and say how to fix it
    Doctor {
        /// Also measure how much load one core of this host can generate; takes about 8 seconds
        #[arg(long)]
        measure: bool,
        /// Print one JSON object, for scripts
        #[arg(long, conflicts_with_all = ["measure", "tune"])]
        json: bool,
        /// Instead print commented files that tune a host: sysctl, limits or both
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "both")]
        tune: Option<doctor::Tune>,
    },
    /// List brokers that weir can start, whether they are installed, and how to get them
    Brokers(brokers::BrokersArgs),
    /// Measure what a message costs MQTT client libraries with a JSON parser
    Clients(clients::ClientsArgs),
    /// Play a recorded feed to one client stack, controlled over standard input and output
    #[command(hide = true)]
    Replay,
    /// Be a client stack that does next to nothing, controlled over standard input and output
    #[command(hide = true)]
    NullStack(clients::NullStackArgs),
    #[command(hide = true)]
    WeirStack(weir_stacks::weir_stack::WeirStackArgs),
    /// Be a broker that does next to nothing, until standard input closes
    #[command(hide = true)]
    NullBroker {
        /// Burn this share of its own CPU on top, like a slower broker: 0.1 is a tenth more
        #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
        burn: f64,
    },
    /// Run a broker until standard input closes, then end everything it started
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}

const RUN_EXAMPLES: &str = "Examples:
  weir bench run p2p-1K-1K-1K-1K
  weir bench run fanout-5-1000-5-250K --broker weir --broker mosquitto --duration 30s
  weir bench run p2p-50K-50K-50K-50K --agents 6
  weir bench run fanout-5-1000-5-250K --broker mqtt://broker.example:1883 \\
    --agent 'ssh load1 weir agent' --agent 'ssh load2 weir agent'
  weir bench run my-use-case.toml --broker mqtt://broker.example:1883 --scale 0.1
  weir bench run cluster-p2p-1K-1K-1K-1K --nodes 3
  weir bench run conn-tls-10K-200 --broker mqtts://broker.example --cafile ca.pem";

const SUITE_EXAMPLES: &str = "Examples:
  weir bench suite basic
  weir bench suite basic --broker weir --broker mosquitto --out results
  weir bench suite enterprise --scale 0.1 --duration 1m";

const CONFORMANCE_EXAMPLES: &str = "Examples:
  weir bench conformance
  weir bench conformance --broker weir --broker mosquitto
  weir bench conformance --broker mqtt://broker.example:1883 --mqtt 5.0 --only shared
  weir bench conformance --broker mqtts://broker.example --cafile ca.pem
  weir bench conformance --broker weir --broker mosquitto --transport wss";

#[derive(Debug, Args)]
struct ConformanceArgs {
    /// Broker under test: a name from `weir bench brokers`, NAME=COMMAND or mqtt://HOST:PORT (or
    /// mqtts://, ws://, wss://); may be given several times, and NAME@LABEL tells versions or
    /// builds of one broker apart
    #[arg(long, value_name = "BROKER", default_value = "weir")]
    broker: Vec<String>,
    /// What is spoken to brokers that weir starts: tcp, tls, ws or wss; a URL says it itself
    #[arg(long, default_value = "tcp", value_parser = parse_transport)]
    transport: Transport,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Only this version: 3.1, 3.1.1 or 5.0; may be given several times
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    mqtt: Vec<Version>,
    /// Configuration of the broker: default (as shipped), tuned (for the suite), published (as in
    /// the published runs) or durable (as little as possible is lost in a crash)
    #[arg(long, default_value = "default")]
    profile: Profile,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "weir-results")]
    out: PathBuf,
    #[command(flatten)]
    tls: TlsArgs,
}

fn parse_version(text: &str) -> Result<Version, String> {
    let found = Version::ALL.into_iter().find(|version| version.name() == text);
    found.ok_or_else(|| "a version is 3.1, 3.1.1 or 5.0".into())
}

/// How to run.
#[derive(Debug, Args)]
struct How {
    /// Broker under test: a name from `weir bench brokers`, NAME=COMMAND or mqtt://HOST:PORT (or
    /// mqtts://, ws://, wss://); may be given several times, and NAME@LABEL tells versions or
    /// builds of one broker apart
    #[arg(long, value_name = "BROKER", default_value = "weir")]
    broker: Vec<String>,
    /// Configuration of the broker: default (as shipped), tuned (for the suite), published (as in
    /// the published runs) or durable (as little as possible is lost in a crash) [default: from the
    /// use case, or default]
    #[arg(long)]
    profile: Option<Profile>,
    /// Nodes of the broker, as one cluster on this host; of a broker that runs already, name the
    /// nodes in its URL: mqtt://HOST:PORT,HOST:PORT [default: from the use case, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    nodes: Option<u32>,
    /// Size relative to the use case; 1 is full size
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale, allow_negative_numbers = true)]
    scale: f64,
    /// Length of the measure phase, such as 10s, 5m or 1h [default: from the use case, or 10s].
    /// Never shorter than the use case's steps need. mqttbs measures for 30m
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    duration: Option<f64>,
    /// Length of the warm-up [default: from the use case, or 3s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    warm_up: Option<f64>,
    /// Pin broker and load generator to a core each, if there are two: auto or none
    #[arg(long, value_name = "PIN", default_value = "auto", value_parser = ["auto", "none"])]
    pin: String,
    /// Share the load between this many processes on this host, each with its own open files
    #[arg(long, value_name = "N", default_value_t = 0)]
    agents: u32,
    /// Command that starts another agent, such as "ssh HOST weir agent"; may be given several
    /// times
    #[arg(long = "agent", value_name = "COMMAND")]
    agent: Vec<String>,
    #[command(flatten)]
    repeats: repeat::Repeats,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "weir-results")]
    out: PathBuf,
    #[command(flatten)]
    live: live::LiveArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Most agents: each is a process with three threads that listen to it.
const AGENTS_MAX: usize = 1_000;

impl How {
    /// What the runs of one command share; they go to `out`, and
    /// `live` hears of them.
    fn options(
        &self,
        brokers: &[Box<dyn Driver>],
        agents: Agents,
        out: PathBuf,
        live: Live,
    ) -> RunOptions {
        RunOptions {
            scale: self.scale,
            measure_s: self.duration,
            warm_up_s: self.warm_up,
            brokers_hold: brokers.iter().map(|b| b.connections_max()).min().unwrap_or(u64::MAX),
            nodes: self.nodes,
            profile: self.profile,
            is_pinned: self.pin == "auto",
            agents,
            repetition: None,
            abreast: None,
            invalid_before: Vec::new(),
            is_one_of_many: false,
            out,
            live,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: env!("WEIR_COMMIT").into(),
            command: command_line(),
        }
    }

    /// Each with its program found, so that a name that was mistyped is not told after hours.
    fn brokers(&self) -> anyhow::Result<Vec<Box<dyn Driver>>> {
        // What is asked for here is the same in all profiles.
        let profile = self.profile.unwrap_or(Profile::Default);
        let brokers =
            driver::parse_all(&self.broker, profile, url_tls(&self.broker, &self.tls)?.as_ref())?;
        for broker in &brokers {
            broker.about(profile)?;
        }
        Ok(brokers)
    }

    fn agents(&self) -> anyhow::Result<Agents> {
        let count = self.agents as usize + self.agent.len();
        anyhow::ensure!(
            count <= AGENTS_MAX,
            "{count} agents are more than {AGENTS_MAX}: give fewer with --agents"
        );
        let program = std::env::current_exe().context("cannot find this program for its agents")?;
        Ok(Agents { local: self.agents, program, commands: self.agent.clone() })
    }
}

/// How TLS is spoken to those of the brokers that are given by a URL, if it is to any.
fn url_tls(brokers: &[String], tls: &TlsArgs) -> anyhow::Result<Option<UrlTls>> {
    let has_tls = |text: &String| text.contains("mqtts://") || text.contains("wss://");
    if brokers.iter().any(has_tls) {
        return read_tls(tls).map(Some);
    }
    if let Some(option) = tls.given() {
        anyhow::bail!("{option}: it is for brokers given as mqtts:// or wss://");
    }
    Ok(None)
}

fn read_tls(tls: &TlsArgs) -> anyhow::Result<UrlTls> {
    let TlsSettings { settings, identity } = tls.read()?;
    // Handshakes are full unless a use case says that sessions are resumed.
    let settings = ClientSettings { tickets_max: 0, ..settings };
    Ok(UrlTls { settings, identity })
}

/// What carries MQTT, as use cases name it.
fn parse_transport(text: &str) -> Result<Transport, String> {
    let found = Transport::ALL.into_iter().find(|transport| transport.name() == text);
    found.ok_or_else(|| "a transport is tcp, tls, ws or wss".into())
}

/// More than any host holds of any use case, and little enough for every sum of clients.
const SCALE_MAX: f64 = 1_000.0;

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|&scale| scale > 0.0 && scale <= SCALE_MAX);
    scale.ok_or_else(|| format!("it must be above 0 and at most {SCALE_MAX}, such as 0.1"))
}

/// What was typed, but for passwords and for where things lie on this host: it is kept with the
/// results, which are passed on.
fn command_line() -> Vec<String> {
    let word = |word: String| paths::without_folders(&driver::without_password(&word));
    std::env::args().map(word).collect()
}

/// Seconds of `90`, `10s`, `5m`, `1h` or `500ms`.
fn parse_seconds(text: &str) -> Result<f64, String> {
    Ok(Span::parse(text)?.seconds)
}

/// Messages per second.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|&rate: &f64| rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "it must be above 0, such as 1000".into())
}

/// The same, and not nothing.
pub(crate) fn parse_length(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text)?;
    (seconds > 0.0).then_some(seconds).ok_or_else(|| "it must be above 0, such as 10s".into())
}

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BenchCommand::List => {
            say!("{}", usecase::list());
            Ok(ExitCode::SUCCESS)
        }
        BenchCommand::Run { use_cases, how } => {
            let use_cases: Vec<UseCase> =
                use_cases.iter().map(|name| UseCase::resolve(name)).collect::<Result<_, _>>()?;
            run_all(&use_cases, &how)
        }
        BenchCommand::New(args) => Ok(new::run(&args)),
        BenchCommand::Suite { set, how } => run_all(&usecase::set(&set)?, &how),
        BenchCommand::Conformance(args) => conform(args),
        BenchCommand::Report { results, out, small } => show(&results, out, small),
        BenchCommand::Export(args) => export::run(&args),
        BenchCommand::Browse(args) => live::browse(&args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::Ladder(args) => ladder::run(&args),
        BenchCommand::Crash(args) => crash::run(&args),
        BenchCommand::Conn(args) => emqtt::conn(args),
        BenchCommand::Pub(args) => emqtt::publish(args),
        BenchCommand::Sub(args) => emqtt::subscribe(args),
        BenchCommand::Brokers(args) => brokers::run(&args),
        BenchCommand::Clients(args) => clients::run(&args),
        BenchCommand::Replay => clients::replay(),
        BenchCommand::NullStack(args) => clients::null_stack(&args),
        BenchCommand::WeirStack(args) => {
            weir_stacks::weir_stack::run(&args)?;
            Ok(ExitCode::SUCCESS)
        }
        BenchCommand::NullBroker { burn } => null_broker(burn),
        BenchCommand::Guard(args) => Ok(guard::run(&args)),
        BenchCommand::Doctor { tune: Some(which), .. } => {
            say!("{}", doctor::tune(which));
            Ok(ExitCode::SUCCESS)
        }
        BenchCommand::Doctor { measure, json, tune: None } => {
            let report = doctor::report();
            say!("{}", if json { report.json + "\n" } else { report.text });
            if measure {
                let program = std::env::current_exe().context("cannot find this program")?;
                say!("\n{}", ceiling::measure(&program)?);
            }
            Ok(if report.is_basic_runnable { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
    }
}

/// Says where it listens, and serves until its input ends.
fn null_broker(burned: f64) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    sayln!("{}", listener.local_addr()?);
    let stop = weir_load::Stop::default();
    let at_end = stop.clone();
    std::thread::spawn(move || {
        // Whatever comes is of no interest, and an error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        at_end.stop();
    });
    weir_load::null::serve(listener, burned, &stop)?;
    Ok(ExitCode::SUCCESS)
}

/// Every use case on every broker; one report over all.
fn run_all(use_cases: &[UseCase], how: &How) -> anyhow::Result<ExitCode> {
    let brokers = how.brokers()?;
    let agents = how.agents()?;
    let asked = how.repeats.asked();
    let session = Session::new(asked, &how.out, use_cases, brokers.len(), &agents)?;
    let options = how.options(&brokers, agents, session.out.clone(), Live::default());
    session.announce(use_cases, &brokers, &options);
    doctor::warn(&doctor::Demand::of(use_cases, how.scale));
    let interrupted = note_signals()?;
    let live = how.live.open(how.pin == "auto", &how.out, &interrupted)?;
    live.tell(&Event::Planned(session.planned(use_cases, &brokers)));
    let options = RunOptions { live: live.clone(), ..options };
    let (mut results, mut folders) = (Vec::new(), Vec::new());
    let mut kept = |result: RunResult, folder: PathBuf| {
        results.push(result);
        folders.push(folder);
    };
    let outcome = session.run_each(use_cases, &brokers, &options, &interrupted, &mut kept);
    live.close();
    if !results.is_empty() {
        say!("{}{}", tables::render(&results), summary::render(&results));
    }
    // What was measured is printed, before anything that a full disk may prevent.
    let written = write_all(&results, &session, &folders);
    outcome.and(written)?;
    Ok(exit_code(&results, &interrupted))
}

/// How the brokers stand, and the page over all results.
fn write_all(results: &[RunResult], session: &Session, folders: &[PathBuf]) -> anyhow::Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    let stand = weir_bench::compare::of_repeats(results);
    if let Some(stand) = &stand {
        repeat::tell(session, stand)?;
    }
    let path = report_path(&session.out, folders);
    report::write_with(results, stand.as_ref(), &path)?;
    sayln!("report: {}", path.display());
    Ok(())
}

/// Beside the only result, or above all of them, named after the first.
fn report_path(out: &Path, folders: &[PathBuf]) -> PathBuf {
    match folders {
        [only] => only.join("report.html"),
        [first, ..] => {
            let name = first.file_name().unwrap_or_default().to_string_lossy();
            let time = name.split('-').next().unwrap_or_default();
            out.join(format!("{time}-report.html"))
        }
        [] => out.join("report.html"),
    }
}

fn conform(args: ConformanceArgs) -> anyhow::Result<ExitCode> {
    let tls = url_tls(&args.broker, &args.tls)?;
    let brokers = driver::parse_all(&args.broker, args.profile, tls.as_ref())?;
    let options = conformance::Options {
        transport: args.transport,
        only: args.only,
        versions: args.mqtt,
        profile: args.profile,
        out: args.out,
        suite: format!("weir {} ({})", env!("CARGO_PKG_VERSION"), env!("WEIR_COMMIT")),
        command: command_line(),
    };
    let interrupted = note_signals()?;
    let (scoreboard, folder) = conformance::run(&brokers, &options, &interrupted)?;
    say!("{}", conformance::render(&scoreboard));
    conformance::keep(&scoreboard, &folder)?;
    sayln!("report: {}", folder.join("report.html").display());
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    Ok(if scoreboard.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn show(roots: &[PathBuf], out: Option<PathBuf>, is_small: bool) -> anyhow::Result<ExitCode> {
    let mut results: Vec<RunResult> = Vec::new();
    for root in roots {
        results.extend(folder::read_all(root)?);
    }
    say!("{}{}", tables::render(&results), summary::render(&results));
    let path = match (out, roots) {
        (Some(file), _) => file,
        (None, [root]) => root.join("report.html"),
        // The page in a folder is of the runs in it alone.
        (None, several) => PathBuf::from(page_of(several)),
    };
    let write = if is_small { report::write_small } else { report::write };
    write(&results, &path)?;
    sayln!("report: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Longest name of a page of several folders, in bytes, without its ending; file systems take 255.
const PAGE_NAME_BYTES_MAX: usize = 120;

/// The name of a page of several folders, from theirs.
fn page_of(roots: &[PathBuf]) -> String {
    let mut name = "report".to_owned();
    for (at, root) in roots.iter().enumerate() {
        // `.` and `..` have a name only where they lie.
        let whole = root.canonicalize().unwrap_or_else(|_| root.clone());
        let next = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.len() + next.len() >= PAGE_NAME_BYTES_MAX {
            return format!("{name}-and-{}-more.html", roots.len() - at);
        }
        name = format!("{name}-{next}");
    }
    name + ".html"
}

/// 130 after Ctrl-C, 1 if a run did not pass that its broker could be asked for.
fn exit_code(results: &[RunResult], interrupted: &Interrupted) -> ExitCode {
    if interrupted.load(Ordering::Relaxed) {
        return ExitCode::from(130);
    }
    let is_good = |status| matches!(status, Status::Passed | Status::Unsupported);
    let all_passed = results.iter().all(|result| is_good(result.verdict.status));
    if all_passed { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(parse_seconds("10s"), Ok(10.0));
        assert_eq!(parse_seconds("90"), Ok(90.0));
        assert_eq!(parse_seconds("1.5m"), Ok(90.0));
        assert_eq!(parse_seconds("500ms"), Ok(0.5));
        assert!(parse_seconds("10 parsecs").is_err());
        assert!(parse_seconds("s").is_err());
    }
}
