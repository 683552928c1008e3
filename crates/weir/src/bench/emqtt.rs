//! `weir bench conn`, `pub` and `sub`: emqtt-bench's options, by its letters.

use super::read_tls;
use anyhow::{anyhow, bail, ensure};
use clap::{ArgAction, Args};
use std::process::ExitCode;
use weir_bench::driver::without_password;
use weir_bench::emqtt::{self, Audience, Common, Options, Work};
use weir_bench::interrupt::note_signals;
use weir_connection::TlsArgs;
use weir_load::plan::Credentials;
use weir_load::{Scheme, Url};
use weir_say::noteln;

/// What all three take. `-h` is the host, as there; help is `--help`.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Host of the broker, or its URL: mqtt://HOST, mqtts://HOST, ws://HOST/PATH or wss://HOST/PATH
    #[arg(short = 'h', long, value_name = "HOST|URL", default_value = "localhost")]
    host: String,
    /// Port of the broker [default: 1883; over TLS 8883, by WebSocket 80, by both 443]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Speak TLS, as to mqtts:// or wss://
    #[arg(
        short = 'S', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true"
    )]
    ssl: bool,
    /// Speak WebSocket, as to ws:// or wss://
    #[arg(
        long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true"
    )]
    ws: bool,
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
#[command(disable_help_flag = true, mut_arg("cafile", |of| of.visible_alias("cacertfile")))]
#[command(mut_arg("cert", |of| of.visible_alias("certfile")))]
#[command(mut_arg("key", |of| of.visible_alias("keyfile")))]
pub(crate) struct ConnArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Options of `sub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, mut_arg("cafile", |of| of.visible_alias("cacertfile")))]
#[command(mut_arg("cert", |of| of.visible_alias("certfile")))]
#[command(mut_arg("key", |of| of.visible_alias("keyfile")))]
pub(crate) struct SubArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Topic filter of each client, with %i, %c and %u; may be given several times
    #[arg(short, long)]
    topic: Vec<String>,
    /// Highest QoS to ask for
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Options of `pub`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, mut_arg("cafile", |of| of.visible_alias("cacertfile")))]
#[command(mut_arg("cert", |of| of.visible_alias("certfile")))]
#[command(mut_arg("key", |of| of.visible_alias("keyfile")))]
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
    #[command(flatten)]
    tls: TlsArgs,
}

pub(super) const CONN_EXAMPLES: &str = "Examples:
  weir bench conn -h broker.example -c 50000 -R 2000
  weir bench conn -c 1000 -i 5 -V 4
  weir bench conn -h mqtts://broker.example --cafile ca.pem -c 1000";

pub(super) const SUB_EXAMPLES: &str = "Examples:
  weir bench sub -h broker.example -c 500 -t bench/# -q 1
  weir bench sub -c 1000 -t bench/%i";

pub(super) const PUB_EXAMPLES: &str = "Examples:
  weir bench pub -h broker.example -c 100 -I 10 -t bench/%i -s 256
  weir bench pub -c 100 -I 10 -t bench/%i -q 1 -L 100000 --subscribers 10";

pub(super) fn conn(args: ConnArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<ConnArgs>("conn", &args.tls)?;
    run(&Options { common, work: Work::Connect })
}

pub(super) fn subscribe(args: SubArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<SubArgs>("sub", &args.tls)?;
    ensure!(!args.topic.is_empty(), "weir bench sub needs a topic filter: -t FILTER");
    run(&Options { common, work: Work::Subscribe { filters: args.topic, qos: args.qos } })
}

pub(super) fn publish(args: PubArgs) -> anyhow::Result<ExitCode> {
    let common = args.common.common::<PubArgs>("pub", &args.tls)?;
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
    fn common<A: Args>(self, command: &str, tls: &TlsArgs) -> anyhow::Result<Common> {
        if let Some(first) = self.rest.first() {
            bail!("{}", emqtt::refusal(command, first, &taken::<A>()));
        }
        if self.lowmem {
            noteln!("note: --lowmem is not needed: an idle client has no buffers");
        }
        let url = self.url()?;
        let tls = match (url.scheme.has_tls(), tls.given()) {
            (true, _) => Some(read_tls(tls)?),
            (false, Some(option)) => bail!("{option}: TLS is not spoken; add --ssl"),
            (false, None) => None,
        };
        let credentials = match (&url.user_name, self.username) {
            (Some(_), Some(_)) => bail!("the URL of -h names a user, and so does -u: give one"),
            (Some(_), None) => Credentials {
                user_name: url.user_name.clone(),
                password: url.password.clone().or(self.password),
            },
            (None, user_name) => Credentials { user_name, password: self.password },
        };
        Ok(Common {
            url,
            tls,
            version: self.version,
            clients: self.count,
            start_number: self.startnumber,
            connect_rate_per_s: self.connrate,
            connect_interval_ms: self.interval,
            credentials,
            keep_alive_s: self.keepalive,
            is_clean: self.clean,
            prefix: self.prefix,
        })
    }
}

/// Where the broker is, by `-h`, `-p`, `--ssl` and `--ws`.
impl CommonArgs {
    fn url(&self) -> anyhow::Result<Url> {
        if self.host.contains("://") {
            let fault = |why| format!("-h {}: {why}", without_password(&self.host));
            let url: Url = self.host.parse().map_err(|why| anyhow!(fault(why)))?;
            ensure!(url.topic.is_none(), "{}", fault("it must have no topic: -t says it"));
            ensure!(
                !(url.port.is_some() && self.port.is_some()),
                "{}",
                fault("it names a port, and so does -p: give one")
            );
            let is_other = self.ssl && !url.scheme.has_tls() || self.ws && url.path.is_none();
            ensure!(!is_other, "{}", fault("--ssl and --ws are for a host; write wss:// for both"));
            return Ok(Url { port: url.port.or(self.port), ..url });
        }
        let (scheme, path) = match (self.ssl, self.ws) {
            (false, false) => (Scheme::Mqtt, None),
            (true, false) => (Scheme::Mqtts, None),
            (false, true) => (Scheme::Ws, Some(Url::PATH.to_owned())),
            (true, true) => (Scheme::Wss, Some(Url::PATH.to_owned())),
        };
        let (host, port, topic) = (self.host.clone(), self.port, None);
        Ok(Url { scheme, user_name: None, password: None, host, port, topic, path })
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
        let common = args.common.common::<PubArgs>("pub", &args.tls).unwrap();
        let expected = Common {
            url: "mqtt://broker:77".parse().unwrap(),
            tls: None,
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
    fn a_broker_is_where_the_host_or_the_url_says() {
        let url = |line: &str| {
            let Command::Conn(args) = parse(&format!("weir conn {line}")) else { panic!() };
            args.common.url().map(|url| (url.scheme, url.host.clone(), url.port(), url.path))
        };
        let path = || Some("/mqtt".to_owned());
        for (line, scheme, port, path) in [
            ("-h b", Scheme::Mqtt, 1883, None),
            ("-h b -S", Scheme::Mqtts, 8883, None),
            ("-h b --ssl true -p 7", Scheme::Mqtts, 7, None),
            ("-h b --ssl=false", Scheme::Mqtt, 1883, None),
            ("-h b --ws -p 8083", Scheme::Ws, 8083, path()),
            ("-h b --ws --ssl", Scheme::Wss, 443, path()),
            ("-h mqtts://b -p 7", Scheme::Mqtts, 7, None),
            ("-h mqtts://b --ssl", Scheme::Mqtts, 8883, None),
            ("-h wss://b:9/x", Scheme::Wss, 9, Some("/x".into())),
        ] {
            assert_eq!(url(line).unwrap(), (scheme, "b".into(), port, path), "{line}");
        }
        assert_eq!(url("-h ::1 -p 7").unwrap().1, "::1");
        for (line, part) in [
            ("-h mqtt://b:1 -p 2", "names a port, and so does -p"),
            ("-h mqtt://b --ssl", "--ssl and --ws are for a host"),
            ("-h ws://b --ssl", "write wss:// for both"),
            ("-h http://me:secret@b", "-h http://me:***@b: it must be mqtt://"),
            ("-h mqtt://b/topic", "it must have no topic"),
        ] {
            let text = url(line).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn a_user_is_named_once_and_options_of_tls_need_it() {
        let common = |line: &str| {
            let Command::Conn(args) = parse(&format!("weir conn {line}")) else { panic!() };
            args.common.common::<ConnArgs>("conn", &args.tls)
        };
        let credentials = common("-h mqtt://me:secret@b").unwrap().credentials;
        assert_eq!(credentials.user_name.as_deref(), Some("me"));
        assert_eq!(credentials.password.as_deref(), Some("secret"));
        let credentials = common("-h mqtt://me@b -P other").unwrap().credentials;
        assert_eq!(credentials.password.as_deref(), Some("other"));
        for (line, part) in [
            ("-h mqtt://me@b -u you", "names a user, and so does -u"),
            ("-h b --cacertfile x", "--cafile: TLS is not spoken; add --ssl"),
            ("-h b --ssl --cafile /none", "--cafile /none: "),
        ] {
            let text = common(line).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn what_is_not_taken_is_left_over_and_refused() {
        for (line, part) in [
            ("weir conn -c 5 --quic --ifaddr x", "--quic"),
            ("weir conn --counts 5", "did you mean --count?"),
            ("weir conn -t x", "has no option -t"),
        ] {
            let Command::Conn(args) = parse(line) else { panic!("it is conn") };
            let text = args.common.common::<ConnArgs>("conn", &args.tls).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
