//! `weir bench crash`: what a broker acknowledged and then lost.

use super::{command_line, parse_rate, parse_transport};
use anyhow::ensure;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_bench::driver::{self, Driver, Profile};
use weir_bench::folder;
use weir_bench::interrupt::{Interrupted, note_signals};
use weir_crash::{CrashResult, FileSystem, Options, QoS, Step, can_be_cut, render};
use weir_load::plan::Transport;
use weir_say::{noteln, say, sayln};

pub(super) const EXAMPLES: &str = "Examples:
  weir bench crash
  weir bench crash --broker weir --broker mosquitto --kills 50
  weir bench crash --broker mosquitto --qos 2 --rate 1000 --seed 7
  weir bench crash --step power-cut --broker weir --broker mosquitto
  weir bench crash --transport tls --broker weir --broker mosquitto

Brokers are configured with their profile durable: weir bench brokers names those that have one.
Exit status: 0 nothing acknowledged was lost, 1 something was, 2 a broker could not be crashed.";

#[derive(Debug, Args)]
pub(super) struct CrashArgs {
    /// Broker under test: a name from `weir bench brokers` or NAME=COMMAND; may be given several
    /// times, and NAME@LABEL tells versions or builds of one broker apart
    #[arg(long, value_name = "BROKER", default_value = "weir")]
    broker: Vec<String>,
    /// What clients speak: tcp, tls, ws or wss
    #[arg(long, default_value = "tcp", value_parser = parse_transport)]
    transport: Transport,
    /// What ends a broker's life: kill (SIGKILL to all its processes), or power-cut (its data is on
    /// a file system that forgets what was not synced; takes root)
    #[arg(long, default_value = "kill")]
    step: Step,
    /// Of power-cut: ext4 or xfs, on a loop device
    #[arg(long, value_name = "NAME", default_value = "ext4")]
    file_system: FileSystem,
    /// How often
    #[arg(long, visible_alias = "crashes", value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    kills: u32,
    /// Most messages acknowledged from one crash to the next; a tenth of them are the fewest
    #[arg(long, value_name = "N", default_value_t = 5_000,
        value_parser = clap::value_parser!(u32).range(10..=100_000_000))]
    messages: u32,
    /// Seed for the moments of crashes, the absences of subscribers and the order of messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Clients that publish
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    publishers: u32,
    /// Clients that subscribe to everything; one in four is away from one crash to the next
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    subscribers: u32,
    /// 1, 2 or both
    #[arg(long, default_value = "both", value_parser = ["1", "2", "both"])]
    qos: String,
    /// Messages per second in all [default: as many as 100 in flight per publisher allow]
    #[arg(long, value_name = "NUMBER", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "weir-results")]
    out: PathBuf,
}

impl CrashArgs {
    fn options(&self) -> Options {
        Options {
            step: self.step,
            transport: self.transport,
            file_system: self.file_system,
            kills: self.kills,
            messages: self.messages,
            seed: self.seed,
            publishers: self.publishers as usize,
            subscribers: self.subscribers as usize,
            qos: match self.qos.as_str() {
                "1" => vec![QoS::AtLeastOnce],
                "2" => vec![QoS::ExactlyOnce],
                _ => vec![QoS::AtLeastOnce, QoS::ExactlyOnce],
            },
            rate: self.rate,
            suite: format!("weir {} ({})", env!("CARGO_PKG_VERSION"), env!("WEIR_COMMIT")),
            command: command_line(),
        }
    }
}

pub(super) fn run(args: &CrashArgs) -> anyhow::Result<ExitCode> {
    for broker in &args.broker {
        ensure!(
            !broker.contains("://"),
            "--broker {}: a broker that is already running cannot be crashed; give the name of one \
             that weir can start, or NAME=COMMAND",
            driver::without_password(broker)
        );
    }
    let brokers = driver::parse_all(&args.broker, Profile::Durable, None)?;
    for broker in &brokers {
        broker.about(Profile::Durable)?;
    }
    if args.step == Step::PowerCut {
        can_be_cut(args.file_system)?;
    }
    let options = args.options();
    let interrupted = note_signals()?;
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for broker in &brokers {
        match crash(&**broker, &options, &args.out, &interrupted) {
            Ok(Some((result, kept))) => {
                results.push(result);
                errors.extend(kept.err());
            }
            Ok(None) => break,
            // One broker that cannot be crashed is no end of the others.
            Err(error) => errors.push(error.context(broker.name().to_owned())),
        }
    }
    say!("{}", render(&results));
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(130));
    }
    if let Some(last) = errors.pop() {
        errors.iter().for_each(|error| noteln!("weir: {error:#}"));
        return Err(last);
    }
    let is_kept = results.iter().all(|result| result.tally.has_lost_nothing());
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Crashes one broker and keeps what came of it; says whether it could be kept, since what was seen
/// is printed all the same.
fn crash(
    broker: &dyn Driver,
    options: &Options,
    out: &std::path::Path,
    interrupted: &Interrupted,
) -> anyhow::Result<Option<(CrashResult, anyhow::Result<()>)>> {
    let folder = folder::create(out, &format!("crash-{}", options.step), broker.name())?;
    let result = weir_crash::run(broker, options, &folder, interrupted)
        .inspect_err(|_| folder::remove_if_empty(&folder))?;
    let Some(result) = result else { return Ok(None) };
    let text = serde_json::to_string_pretty(&result)? + "\n";
    let kept = folder::write(&folder, "crash.json", &text);
    if kept.is_ok() {
        sayln!("result: {}", folder.join("crash.json").display());
    }
    Ok(Some((result, kept)))
}
