//! `weir bench conn`, `pub` and `sub`: emqtt-bench's options, by its letters.

use anyhow::{bail, ensure};
use clap::{ArgAction, Args};
use std::process::ExitCode;
use weir_bench::emqtt::{self, Audience, Common, Options, Work};
use weir_bench::interrupt::note_signals;
use weir_load::plan::Credentials;
use weir_say::noteln;

/// What all three take. `-h` is the host, as there; help is `--help`.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Host of the broker
    #[arg(short = 'h', long, default_value = "localhost")]
    host: String,
    /// Port of the broker
    #[arg(short, long, default_value_t = 1883, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// MQTT version: 4 is 3.1.1, 5 is 5.0
    #[arg(
        short = 'V', long, default_value_t = 5,
        value_parser = clap::value_parser!(u8).range(3..=5)
    )]
    version: u8,
    /// Number of clients
    #[arg(short, long, default_value_t = 200)]
    count: u32,
    /// The first client has this number plus 1
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    startnumber: u32,
    /// New connections per second; 0 uses --interval
    #[arg(short = 'R', long, value_name = "RATE", default_value_t = 0)]
    connrate: u32,
    /// Milliseconds between two new connections
    #[arg(short, long, value_name = "MS", default_value_t = 10)]
    interval: u64,
    /// User name of every client
    #[arg(short, long, value_name = "NAME")]
    username: Option<String>,
    /// Password of every client
    #[arg(short = 'P', long)]
    password: Option<String>,
    /// Keep alive in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = 300)]
    keepalive: u16,
    /// Whether sessions start clean
    #[arg(
        short = 'C', long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true"
    )]
    clean: bool,
    /// Prefix of client identifiers, instead of the host's name
    #[arg(long)]
    prefix: Option<String>,
    /// Accepted but not needed
    #[arg(
        short = 'l', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true"
    )]
    lowmem: bool,
    /// From the first argument on that is no option of these
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Options of `conn`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ConnArgs {
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `sub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct SubArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Topic filter of each client, with %i, %c and %u; may be given several times
    #[arg(short, long)]
    topic: Vec<String>,
    /// Highest QoS to ask for
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
}

/// Options of `pub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct PubArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Topic of each client, with %i, %c and %u
    #[arg(short, long)]
    topic: Option<String>,
    /// QoS of the messages
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Bytes of a payload, at least 16
    #[arg(short, long, value_name = "BYTES", default_value_t = 256)]
    size: u32,
    /// Milliseconds between two messages of one client
    #[arg(short = 'I', long = "interval_of_msg", value_name = "MS", default_value_t = 1_000)]
    interval_of_msg: u64,
    /// Total number of messages; 0 publishes until Ctrl-C
    #[arg(short = 'L', long, value_name = "N", default_value_t = 0)]
    limit: u64,
    /// Whether messages are retained
    #[arg(
        short, long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true"
    )]
    retain: bool,
    /// Accepted but not needed: publishing starts when all clients are connected
    #[arg(
        short = 'w', long = "wait-before-publishing", value_name = "BOOL", default_value_t = false,
        action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true"
    )]
    wait: bool,
    /// Also run this many subscribers, so that every delivery is timed and audited
    #[arg(long, value_name = "N")]
    subscribers: Option<u32>,
    /// Topic filter of --subscribers, with %i, %c and %u [default: the topic, with + for each level
    /// that contains one]
    #[arg(long, value_name = "FILTER", requires = "subscribers")]
    subscribe: Option<String>,
}

pub(super) const CONN_EXAMPLES: &str = "Examples:
  weir bench conn -h broker.example -c 50000 -R 2000
  weir bench conn -c 1000 -i 5 -V 4";

pub(super) const SUB_EXAMPLES: &str = "Examples:
  weir bench sub -h broker.example -c 500 -t bench/# -q 1
  weir bench sub -c 1000 -t bench/%i";

pub(super) const PUB_EXAMPLES: &str = "Examples:
  weir bench pub -h broker.example -c 100 -I 10 -t bench/%i -s 256
  weir bench pub -c 100 -I 10 -t bench/%i -q 1 -L 100000 --subscribers 10";

pub(super) fn conn(args: ConnArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<ConnArgs>("conn")?;
    run(&Options { common, work: Work::Connect })
}

pub(super) fn subscribe(args: SubArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<SubArgs>("sub")?;
    ensure!(!args.topic.is_empty(), "weir bench sub needs a topic filter: -t FILTER");
    run(&Options { common, work: Work::Subscribe { filters: args.topic, qos: args.qos } })
}

pub(super) fn publish(args: PubArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<PubArgs>("pub")?;
    if args.wait {
        noteln!(
            "note: --wait-before-publishing is always so: publishing begins when all are connected"
        );
    }
    let Some(topic) = args.topic else { bail!("weir bench pub needs a topic: -t TOPIC") };
    let filter = args.subscribe;
    let work = Work::Publish {
        topic,
        qos: args.qos,
        payload_bytes: args.size,
        interval_ms: args.interval_of_msg,
        limit: args.limit,
        is_retained: args.retain,
        audience: args.subscribers.map(|subscribers| Audience { subscribers, filter }),
    };
    run(&Options { common, work })
}

fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let interrupted = note_signals()?;
    emqtt::run(options, &interrupted, &mut std::io::stdout()).map(ExitCode::from)
}

impl CommonArgs {
    /// Refuses what `A` does not take, and notes what is not needed.
    fn common<A: Args>(self, command: &str) -> anyhow::Result<Common> {
        if let Some(first) = self.rest.first() {
            bail!("{}", emqtt::refusal(command, first, &taken::<A>()));
        }
        if self.lowmem {
            noteln!("note: --lowmem is not needed: an idle client has no buffers");
        }
        Ok(Common {
            host: self.host,
            port: self.port,
            version: self.version,
            clients: self.count,
            start_number: self.startnumber,
            connect_rate_per_s: self.connrate,
            connect_interval_ms: self.interval,
            credentials: Credentials { user_name: self.username, password: self.password },
            keep_alive_s: self.keepalive,
            is_clean: self.clean,
            prefix: self.prefix,
        })
    }
}

/// The options of a command, with their dashes.
fn taken<A: Args>() -> Vec<String> {
    let command = A::augment_args(clap::Command::new("bench"));
    let shorts = command.get_arguments().filter_map(clap::Arg::get_short);
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    longs.map(|long| format!("--{long}")).chain(shorts.map(|short| format!("-{short}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        Pub(PubArgs),
        Conn(ConnArgs),
    }

    fn parse(line: &str) -> Command {
        Line::try_parse_from(line.split(' ')).unwrap().command
    }

    #[test]
    fn their_letters_mean_what_they_mean_there() {
        let line = "weir pub -h broker -p 77 -c 5 -R 9 -i 3 -I 20 -t a/%i -q 1 -s 64 -V 4 -u me \
                    -P secret -k 30 -C false -n 7 --lowmem --prefix x -L 90 -r";
        let Command::Pub(args) = parse(line) else { panic!("it is pub") };
        assert_eq!((args.topic.as_deref(), args.qos, args.size), (Some("a/%i"), 1, 64));
        assert_eq!((args.interval_of_msg, args.limit, args.retain), (20, 90, true));
        assert!(args.common.lowmem && args.common.rest.is_empty(), "{:?}", args.common.rest);
        let common = args.common.common::<PubArgs>("pub").unwrap();
        let expected = Common {
            host: "broker".into(),
            port: 77,
            version: 4,
            clients: 5,
            start_number: 7,
            connect_rate_per_s: 9,
            connect_interval_ms: 3,
            credentials: Credentials {
                user_name: Some("me".into()),
                password: Some("secret".into()),
            },
            keep_alive_s: 30,
            is_clean: false,
            prefix: Some("x".into()),
        };
        assert_eq!(common, expected);
    }

    #[test]
    fn what_is_not_taken_is_left_over_and_refused() {
        for (line, part) in [
            ("weir conn -c 5 --ssl --keyfile x", "--ssl"),
            ("weir conn -S", "-S"),
            ("weir conn --counts 5", "did you mean --count?"),
            ("weir conn -t x", "has no option -t"),
        ] {
            let Command::Conn(args) = parse(line) else { panic!("it is conn") };
            let text = args.common.common::<ConnArgs>("conn").unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
