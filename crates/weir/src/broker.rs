//! `weir broker`: run the broker in the foreground.

use crate::log::{Filter, Log};
use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_broker::{
    Config, MosquittoFile, MosquittoNote, OnDamage, Section, ServeError, Server, Source, Verifier,
};
use weir_say::{say, sayln};

/// A shard ended by itself, by an error of its event loop or a panic.
const SHARD_ENDED: u8 = 3;

/// The disk that the log is on has failed.
const DISK_FAILED: u8 = 4;

/// Run the MQTT broker in the foreground until SIGTERM or Ctrl-C
///
/// It speaks MQTT 3.1, 3.1.1 and 5.0 over TCP, TLS and WebSocket. Without options it listens on
/// 127.0.0.1:1883, the programs of this host may use it, and sessions are in memory only.
/// docs/broker.md has every key of the configuration file, with examples; docs/limits.md says what
/// happens at each bound.
///
/// With --store, sessions and their messages outlive the broker, and nothing is acknowledged before
/// it is on the disk: docs/durability.md.
///
/// SIGUSR1 writes all counters to the log, and so does SIGHUP, which also opens the log's file and
/// reads the configuration and its files again: --check says what takes a restart. With a control
/// socket ([control] in the file), weir ctl shows clients and counters: docs/control.md.
/// Subscriptions and rules that look at the content of messages are in docs/flow.md.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// Configuration file (TOML); the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Configuration file (TOML)
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration file of Mosquitto, and what it includes, instead of one of Weir's; not run if
    /// it has lines that guard the broker and that Weir cannot do
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "config"])]
    mosquitto: Option<PathBuf>,
    /// Port to listen on, for clients on this host only (127.0.0.1 and ::1), instead of the
    /// addresses in the file; may be given several times
    #[arg(short, long = "port", value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
    /// Address to listen on, instead of those in the file; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Let clients in that say who they are by nothing, instead of [auth] allow_anonymous in the
    /// file: needed where other hosts reach the broker and the file says nothing of who may come in
    #[arg(long)]
    allow_anonymous: bool,
    /// Folder in which sessions and messages outlive the broker, instead of [store] path in the
    /// file; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Go on without what is damaged in the store, instead of [store] on_damage in the file: the
    /// log says what is lost, and the damaged files are kept beside it
    #[arg(long)]
    salvage: bool,
    /// Log everything, as --log-level debug does
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Check the configuration, print it with its defaults and without what is secret (***), and
    /// exit
    #[arg(long)]
    check: bool,
    /// Read a password from standard input, print its verifier for [auth.users], and exit
    #[arg(long, exclusive = true)]
    verifier: bool,
    /// Mosquitto's option for the background
    #[arg(short, long = "daemon", hide = true)]
    daemon: bool,
}

impl BrokerArgs {
    /// Mosquitto's file, if there is one.
    pub(crate) fn read_mosquitto(&self) -> anyhow::Result<Option<MosquittoFile>> {
        Ok(self.mosquitto.as_deref().map(MosquittoFile::read).transpose()?)
    }
}

pub(crate) fn run(
    args: BrokerArgs,
    mosquitto: Option<&MosquittoFile>,
    log: &Log,
) -> anyhow::Result<ExitCode> {
    if args.verifier {
        return print_verifier().map(|()| ExitCode::SUCCESS);
    }
    anyhow::ensure!(
        !args.daemon,
        "-d: weir broker stays in the foreground; have systemd start it, or a shell with &"
    );
    let from = match (args.mosquitto.clone(), args.file.clone().or(args.config.clone())) {
        (Some(path), _) => Given::Mosquitto(path),
        (None, Some(path)) => Given::File(path),
        (None, None) => Given::Options,
    };
    let check = args.check;
    let options = Options::of(args);
    let mut config = match (&from, mosquitto) {
        (Given::Mosquitto(_), Some(file)) => file.config()?,
        (Given::File(path), _) => Config::read(path)?,
        _ => Config::default(),
    };
    mosquitto.iter().flat_map(|file| file.notes()).for_each(MosquittoNote::log);
    options.set(&mut config);
    if let Some(level) = &config.log.level {
        crate::log::level(level).map_err(|rule| anyhow::anyhow!("log.level: {rule}"))?;
    }
    if check {
        warn(&config.check()?);
        say!("{}\n{}", config.shown(), Section::remarks());
        return Ok(ExitCode::SUCCESS);
    }
    log.filter().set(config.log.level.as_deref());
    let mut server = Server::bind(&config)?;
    warn(server.warnings());
    server.count_lost_lines(log.lost_lines());
    server.set_source(source(from, options, log.filter()));
    let (reopen, reloader) = (log.reopener(), server.reloader());
    let hung_up = move || {
        reopen();
        reloader.reload();
    };
    let obeyed = server.stopper().obey_signals(hung_up);
    obeyed.context("cannot install signal handlers")?;
    for place in server.spoken() {
        tracing::info!("listening on {place}");
    }
    match server.run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The log has it.
        Err(ServeError::Shard { .. }) => Ok(ExitCode::from(SHARD_ENDED)),
        Err(ServeError::Disk { .. }) => Ok(ExitCode::from(DISK_FAILED)),
        Err(error) => Err(error.into()),
    }
}

/// Where the configuration is.
enum Given {
    Options,
    File(PathBuf),
    Mosquitto(PathBuf),
}

/// What options say of the configuration, whatever its file says.
struct Options {
    addresses: Vec<String>,
    allow_anonymous: bool,
    store: Option<PathBuf>,
    salvage: bool,
}

impl Options {
    fn of(args: BrokerArgs) -> Self {
        let ports = args.ports.into_iter().flat_map(loopback);
        let addresses = args.listen.into_iter().chain(ports).collect();
        let BrokerArgs { allow_anonymous, store, salvage, .. } = args;
        Self { addresses, allow_anonymous, store, salvage }
    }

    fn set(&self, config: &mut Config) {
        if !self.addresses.is_empty() {
            config.listen.clone_from(&self.addresses);
            config.listener.clear();
        }
        if self.allow_anonymous {
            config.auth.allow_anonymous = Some(true);
        }
        if self.store.is_some() {
            config.store.path.clone_from(&self.store);
        }
        if self.salvage {
            config.store.on_damage = OnDamage::Salvage;
        }
    }
}

/// What reads the configuration again.
fn source(from: Given, options: Options, filter: Filter) -> Source {
    let file = match &from {
        Given::File(path) => Some(path.clone()),
        Given::Options | Given::Mosquitto(_) => None,
    };
    let read = move |text: Option<&str>| {
        let config = match (&from, text) {
            (Given::File(path), Some(text)) => Config::of_text(path, text),
            (Given::File(path), None) => Config::read(path),
            (Given::Mosquitto(path), _) => MosquittoFile::read(path).and_then(|file| {
                file.notes().iter().for_each(MosquittoNote::log);
                file.config()
            }),
            (Given::Options, _) => Ok(Config::default()),
        };
        // With what is behind it: why a file cannot be read.
        let mut config = config.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        options.set(&mut config);
        if let Some(level) = &config.log.level {
            crate::log::level(level).map_err(|rule| format!("log.level: {rule}"))?;
        }
        Ok(config)
    };
    let set_log_level = Box::new(move |level: Option<&str>| filter.set(level));
    Source { file, read: Box::new(read), set_log_level }
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// This host alone, by each family of addresses that it has.
fn loopback(port: u16) -> impl Iterator<Item = String> {
    let addresses = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let is_here = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    addresses
        .into_iter()
        .filter(is_here)
        .map(move |address| SocketAddr::new(address, port).to_string())
}

fn print_verifier() -> anyhow::Result<()> {
    let mut password = String::new();
    std::io::stdin().read_line(&mut password).context("cannot read the password")?;
    let password = password.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(!password.is_empty(), "no password on standard input");
    sayln!("{}", Verifier::generate(password).context("no random source")?);
    Ok(())
}
