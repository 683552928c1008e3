//! `weir flow run`: the rules of a file beside a broker, on some threads.

use crate::control::{Control, Notice};
use crate::counts::Counts;
use crate::options::{Settings, parse_version};
use crate::subscriptions::subscriptions;
use crate::worker::Worker;
use crate::{Error, check};
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_connection::{Address, TlsArgs, obey_signals};
use weir_flow::{Flow, RuleCounts};
use weir_say::{note, noteln};
use weir_wire::{QoS, Version};

/// How often the line on a terminal is written anew.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// The share name when several threads need one and none is given.
const GROUP: &str = "weir-flow";

/// How long a session named by --client-id outlives its connection, unless said.
const SESSION_EXPIRY_S: u32 = 24 * 60 * 60;

/// Apply the rules of a flow file as a client of a broker
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    /// Flow file (TOML) with [[flow]] rules
    file: PathBuf,
    /// Broker as mqtt://[USER[:PASSWORD]@]HOST[:PORT], or with mqtts://, ws:// or wss://
    #[arg(short, long, value_name = "URL", default_value = "mqtt://localhost:1883")]
    broker: Address,
    /// Number of connections, each on its own thread; several share the subscriptions
    #[arg(short, long, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Share name for subscriptions without one [default with --threads: weir-flow]
    #[arg(short, long, value_name = "NAME")]
    group: Option<String>,
    /// Client identifier; keeps the session, so that no QoS 1 message is lost while it is down
    #[arg(short = 'i', long, value_name = "ID", allow_hyphen_values = true)]
    client_id: Option<String>,
    /// Seconds the session outlives the connection (5.0); 0 ends it with the connection
    /// [default with --client-id: 86400]
    #[arg(short = 'x', long, value_name = "SECONDS", requires = "client_id")]
    session_expiry: Option<u32>,
    /// MQTT version: 5 or 311
    #[arg(short = 'V', long, value_name = "VERSION", default_value = "5",
        value_parser = parse_version)]
    protocol_version: Version,
    /// Keep alive in seconds; 0 turns it off
    #[arg(short, long, value_name = "SECONDS", default_value_t = 60)]
    keep_alive: u16,
    /// QoS 1 messages that the broker may send before they are acknowledged (5.0)
    #[arg(long, value_name = "COUNT", default_value_t = Settings::IN_FLIGHT_MAX,
        value_parser = clap::value_parser!(u16).range(1..))]
    receive_maximum: u16,
    /// When QoS 0 messages arrive often, process them in batches at least this many microseconds
    /// apart; saves CPU and adds up to that much latency. 0 turns it off
    #[arg(long, value_name = "MICROSECONDS", default_value_t = Settings::GATHER_US,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    gather_us: u32,
    /// Print only the error that ends it
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

const AFTER_HELP: &str =
    "It runs until SIGINT or SIGTERM. Then it processes no more messages, waits up to 2 s for the \
last acknowledgements, and prints its counters. It reconnects if the connection is lost.

Exit codes:
  0 ended as asked; 1 failed or refused, or results left unacknowledged; 2 wrong options or file

Examples:
  weir flow run cells.toml --broker mqtt://localhost
  weir flow run cells.toml -b mqtts://user:secret@broker -i cells-1
  weir flow run cells.toml --threads 4 --client-id cells";

/// Runs until a signal asks for the end, or it fails. Prints the counters to standard output.
///
/// # Errors
/// A file or an option that cannot be used, no connection, a refusal.
pub fn run(args: &RunArgs) -> Result<(), Error> {
    let flow = check::read(&args.file)?;
    let settings = settings(args, &flow)?;
    let (control, told) = Control::new(settings.threads)?;
    let asked = Arc::clone(&control);
    obey_signals(move || asked.stop())?;
    let work = flow.split(args.threads.into());
    let begun = Instant::now();
    let (result, rules) = std::thread::scope(|scope| {
        for (thread, work) in work.into_iter().enumerate() {
            let (settings, control) = (&settings, &control);
            let serve = move || {
                let (result, rules) = Worker::new(settings, control, thread, work).run();
                control.tell(Notice::Ended(result, rules));
            };
            let spawned = std::thread::Builder::new()
                .name(format!("flow-{}", thread + 1))
                .spawn_scoped(scope, serve);
            if let Err(error) = spawned {
                control.stop();
                return (Err(error.into()), Vec::new());
            }
        }
        watch(&settings, &control, &told, flow.rules().len())
    });
    if !args.quiet {
        let seconds = begun.elapsed().as_secs_f64();
        print_end(&flow, &rules, &control.counts(), seconds);
    }
    result
}

fn settings(args: &RunArgs, flow: &Flow) -> Result<Settings, Error> {
    let path = || args.file.display().to_string();
    let group = match &args.group {
        Some(group) if group.is_empty() || group.contains(['/', '+', '#', '\0']) => {
            let rule = "a share name is not empty and holds no /, + or #";
            return Err(Error::option("--group", rule));
        }
        None if args.threads > 1 => Some(GROUP),
        group => group.as_deref(),
    };
    let subscriptions =
        subscriptions(flow, group).map_err(|rule| Error::Unfit { path: path(), rule })?;
    let is_kept = args.client_id.is_some() && args.session_expiry != Some(0);
    let expiry_s = args.session_expiry.unwrap_or(SESSION_EXPIRY_S);
    let settings = Settings {
        transport: args.broker.transport(&args.tls)?,
        address: args.broker.clone(),
        version: args.protocol_version,
        client_id: args.client_id.clone().unwrap_or_else(Settings::random_client_id),
        threads: args.threads.into(),
        is_session_kept: is_kept,
        session_expiry_s: if is_kept { expiry_s } else { 0 },
        keep_alive_s: args.keep_alive,
        in_flight_max: args.receive_maximum,
        gather_us: args.gather_us.into(),
        subscriptions,
        publishes: publishes(flow),
        comes_back: true,
        is_quiet: args.quiet,
    };
    settings.check_lengths()?;
    Ok(settings)
}

/// The highest QoS that a result may have, and whether one may be retained.
fn publishes(flow: &Flow) -> (QoS, bool) {
    let mut most = (QoS::AtMostOnce, false);
    for rule in flow.rules().iter().filter(|rule| rule.publishes()) {
        if rule.source().publish_qos.unwrap_or(rule.qos()) > 0 {
            most.0 = QoS::AtLeastOnce;
        }
        most.1 |= rule.source().retain == Some(true);
    }
    most
}

/// Shows how it goes, until every thread has ended. One that fails ends all.
fn watch(
    settings: &Settings,
    control: &Arc<Control>,
    told: &Receiver<Notice>,
    rules: usize,
) -> (Result<(), Error>, Vec<Vec<RuleCounts>>) {
    let (mut ready, mut all) = (0, Vec::new());
    let mut result = Ok(());
    let mut line = Line::new(!settings.is_quiet && std::io::stderr().is_terminal());
    while all.len() < settings.threads {
        match told.recv_timeout(SHOWN_EVERY) {
            Ok(Notice::Ready) => {
                ready += 1;
                if ready == settings.threads && !settings.is_quiet {
                    let (address, threads) = (&settings.address, settings.threads);
                    noteln!("weir: {rules} rules run on {address}, {threads} connections");
                }
            }
            Ok(Notice::Ended(ended, counts)) => {
                if ended.is_err() {
                    control.stop();
                }
                result = result.and(ended);
                all.push(counts);
            }
            Err(RecvTimeoutError::Timeout) => line.show(control.counts()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    line.clear();
    (result, all)
}

/// The line on a terminal.
struct Line {
    is_shown: bool,
    last: (Instant, Counts),
}

impl Line {
    fn new(is_shown: bool) -> Self {
        Self { is_shown, last: (Instant::now(), Counts::default()) }
    }

    fn show(&mut self, counts: Counts) {
        if self.is_shown {
            let (then, before) = std::mem::replace(&mut self.last, (Instant::now(), counts));
            let rates = counts.since(&before).rates(then.elapsed().as_secs_f64());
            note!("\r\x1b[K{rates}; {counts}");
        }
    }

    fn clear(&self) {
        if self.is_shown {
            note!("\r\x1b[K");
        }
    }
}

/// A line of all connections and one a rule. Whether somebody reads it is not our concern.
fn print_end(flow: &Flow, threads: &[Vec<RuleCounts>], counts: &Counts, seconds: f64) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{counts} in {seconds:.1} s");
    for (at, rule) in flow.rules().iter().enumerate() {
        let mut sum = RuleCounts::default();
        for counts in threads.iter().filter_map(|rules| rules.get(at)) {
            add(&mut sum, counts);
        }
        let RuleCounts { seen, matched, published, dropped, sampled_out, throttled, faults } = sum;
        let _ = write!(out, "  {}: seen {seen}, matched {matched}", rule.name());
        let rare = [
            ("published", published),
            ("dropped", dropped),
            ("sampled out", sampled_out),
            ("throttled", throttled),
        ];
        for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            let _ = write!(out, ", {name} {count}");
        }
        for (fault, count) in faults.iter() {
            let _ = write!(out, ", {} {count}", fault.name());
        }
        let _ = writeln!(out);
    }
}

fn add(sum: &mut RuleCounts, more: &RuleCounts) {
    sum.seen += more.seen;
    sum.matched += more.matched;
    sum.sampled_out += more.sampled_out;
    sum.throttled += more.throttled;
    sum.published += more.published;
    sum.dropped += more.dropped;
    sum.faults.merge(&more.faults);
}
