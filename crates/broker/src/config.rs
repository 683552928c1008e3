//! The configuration file: TOML, every key with a default, an unknown key an error.
//!
//! docs/broker.md is made of it by `cargo xtask manual`: the first paragraph of a key's comment is
//! what people read there.

mod lines;
mod mosquitto;
mod range;
pub(crate) mod secrets;
mod sections;

pub use mosquitto::{
    MosquittoFile, MosquittoNote, OPTIONS as MOSQUITTO_OPTIONS, Options as MosquittoOptions,
};
pub use range::{RANGES, Range};
pub(crate) use sections::{Change, Plan, shown as shown_config};
pub use sections::{SECTIONS, Section};

use crate::admission::ProcessLimits;
use crate::auth::{Access, AuthConfig, FileError};
use crate::bridges::{self, BridgeConfig, KafkaConfig};
use crate::cluster::{ClusterConfig, NoPlace};
use crate::control::{BanBook, ControlConfig};
use crate::journal::{ADDED_BANS_FILE, StoreConfig};
use crate::listener::{Door, Doors, ListenerConfig, Place as ListenPlace, TlsFault};
use crate::rules::FlowRules;
use crate::sys::SysConfig;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::level_filters::LevelFilter;
use weir_core::{Features, Limits, Settings, SharePolicy};
use weir_reactor::Backend;

/// Everything `weir broker` can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on, each `HOST:PORT`. `0.0.0.0:1883` is every IPv4 address that this
    /// host has, `[::]:1883` every address, IPv4 and IPv6.
    /// With `[[listener]]` tables, the default is none.
    pub listen: Vec<String>,
    /// Threads that serve connections, each with a part of the sessions. 0 is one for each core
    /// that the process may run on.
    pub shards: u16,
    /// How long output waits at most for more of it, so that it leaves with fewer system calls:
    /// only while a thread is busy, only for connections that get several messages in that time,
    /// and no longer than it saves calls. 0 sends at once.
    pub latency_budget_ms: u16,
    /// How long a thread rests at most before it reads on, in microseconds, so that one wake serves
    /// more connections: only while several of them have something in that time, and while no less
    /// comes for it. 0 never rests.
    pub rest_us: u16,
    /// What holds the connections: open files, of which the process may have only so many (`ulimit
    /// -n`), or direct descriptors of io_uring, which that limit does not bound in all. These need
    /// Linux 6.11, and the permission to use io_uring.
    pub io: IoBackend,
    /// Further addresses to listen on, a table for each: with TLS, with WebSocket, with both.
    /// SIGHUP has them and their certificates read again: connections that are there stay, but for
    /// clients whose own certificates count no more, and for those of a listener that is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listener: Vec<ListenerConfig>,
    /// Bounds of connections, sessions, messages and topics. [limits.md](limits.md) says what
    /// happens at each of them.
    pub limits: Limits,
    /// Bounds of all connections together. [limits.md](limits.md) says what happens at each of
    /// them.
    pub process: ProcessLimits,
    /// What the broker offers. Clients of MQTT 5.0 are told what is off when they connect.
    pub features: Features,
    /// Where sessions and messages outlive the broker, and how safe they are before they are
    /// acknowledged: [durability.md](durability.md). Without it they are kept in memory only.
    pub store: StoreConfig,
    /// Who is let in, and what they may do. By default that is everybody who can reach the loopback
    /// addresses, and everything.
    pub auth: AuthConfig,
    /// How shared subscriptions choose the member that gets a message: the first table whose prefix
    /// fits the group says it, and round robin is the rule where none does.
    pub share: SharePolicy,
    /// What the broker makes of messages by their content: a table for each rule, in their order.
    /// [flow.md](flow.md#rules) explains them.
    #[serde(skip_serializing_if = "FlowRules::is_empty")]
    pub flow: FlowRules,
    /// Messages that are relayed between this broker and others, a table for each of those:
    /// [bridges.md](bridges.md).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bridge: Vec<BridgeConfig>,
    /// Messages that go to Kafka, a table for each cluster: [kafka.md](kafka.md). A program that is
    /// built without the feature `kafka` refuses it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kafka: Vec<KafkaConfig>,
    /// What the broker says of what it does.
    #[serde(skip_serializing_if = "LogConfig::is_default")]
    pub log: LogConfig,
    /// How the broker can be asked while it runs: [control.md](control.md).
    #[serde(skip_serializing_if = "ControlConfig::is_off")]
    pub control: ControlConfig,
    /// What the broker says of itself in messages: [sys.md](sys.md).
    pub sys: SysConfig,
    /// Several nodes as one broker: [cluster.md](cluster.md).
    #[serde(skip_serializing_if = "ClusterConfig::is_off")]
    pub cluster: ClusterConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec!["127.0.0.1:1883".into()],
            shards: 0,
            latency_budget_ms: 12,
            rest_us: 500,
            io: IoBackend::default(),
            listener: Vec::new(),
            limits: Limits::default(),
            process: ProcessLimits::default(),
            features: Features::default(),
            store: StoreConfig::default(),
            auth: AuthConfig::default(),
            share: SharePolicy::default(),
            flow: FlowRules::default(),
            bridge: Vec::new(),
            kafka: Vec::new(),
            log: LogConfig::default(),
            control: ControlConfig::default(),
            sys: SysConfig::default(),
            cluster: ClusterConfig::default(),
        }
    }
}

/// The `[log]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// What is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`, and `TARGET=LEVEL` for
    /// parts of it, separated by commas, such as `info,clients=warn`. By default `info`. The option
    /// `--log-level` and the variable `WEIR_LOG` go before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

impl LogConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn fault(&self) -> Option<(&'static str, String, String)> {
        let level = self.level.as_ref()?;
        let rule = check_log_level(level).err()?;
        Some(("log.level", level.clone(), rule))
    }
}

/// Whether a text says what is logged.
///
/// # Errors
/// What it has to be.
pub fn check_log_level(text: &str) -> Result<(), String> {
    for directive in text.split(',') {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        // No word at all would be a level to those who parse it.
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "{level:?} is no level: it must be off, error, warn, info, debug or trace, alone \
                 or in TARGET=LEVEL, separated by commas"
            ));
        }
    }
    Ok(())
}

/// What holds the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoBackend {
    /// Open files while there are some left, direct descriptors for the connections beyond.
    #[default]
    Auto,
    /// Open files only.
    Epoll,
    /// Direct descriptors only; where they cannot be had the broker does not start.
    IoUring,
}

impl From<IoBackend> for Backend {
    fn from(io: IoBackend) -> Self {
        match io {
            IoBackend::Auto => Self::Auto,
            IoBackend::Epoll => Self::Epoll,
            IoBackend::IoUring => Self::IoUring,
        }
    }
}

/// What is wrong with a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not the TOML that is expected: unknown key, wrong type, syntax.
    #[error("{place}: {message}")]
    Parse {
        /// File and line.
        place: Place,
        /// What is wrong there.
        message: String,
    },
    /// The file is Mosquitto's.
    #[error(
        "{0} is a configuration of Mosquitto: weir broker --mosquitto {0} runs it, and \
         weir import mosquitto {0} prints it in Weir's words (see docs/broker.md)",
        path.display()
    )]
    Mosquitto {
        /// The file.
        path: PathBuf,
    },
    /// The file is Mosquitto's, and lines of it cannot be left out without harm.
    #[error(
        "{0} has lines without which more would be let in than it allows:{notes}\n\
         weir import mosquitto {0} prints the rest in Weir's words",
        path.display()
    )]
    MosquittoGuards {
        /// The file.
        path: PathBuf,
        /// Those lines, and what is to be said of them.
        notes: String,
    },
    /// A value is out of its range.
    #[error("{key} = {value} is not usable: {rule}")]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// What it is set to.
        value: String,
        /// What it has to be.
        rule: String,
    },
    /// A file of users or rights cannot be used.
    #[error(transparent)]
    Auth(#[from] FileError),
    /// A rule on content cannot be used, or feeds itself.
    #[error("flow: {0}")]
    Flow(weir_flow::FlowError),
    /// A file of a listener cannot be used.
    #[error("listener {address}: {fault}")]
    Tls {
        /// Of the listener.
        address: String,
        /// The file, and what is wrong with it.
        fault: TlsFault,
    },
    /// What `[cluster]` says cannot be used.
    #[error(transparent)]
    Cluster(#[from] NoPlace),
    /// What a line says cannot be used.
    #[error("{place}: {error}")]
    At {
        /// File and line.
        place: Place,
        /// What is wrong there.
        error: Box<ConfigError>,
    },
    /// A user's verifier cannot be used.
    #[error("auth.users: {user}: {rule}")]
    User {
        /// The user name.
        user: String,
        /// What it has to be.
        rule: &'static str,
    },
}

/// The name of the file of added bans beside `auth.bans_file`, behind that one's, where there is no
/// folder of `[store]`.
const ADDED_BANS_ENDING: &str = ".ctl";

/// What the files of a configuration say.
pub(crate) struct Opened {
    /// Users and rights.
    pub(crate) access: Access,
    /// What is spoken by each of [`Config::addresses`].
    pub(crate) doors: Doors,
    /// What relays to other brokers, and to Kafka.
    pub(crate) bridges: Vec<weir_bridge::Task>,
    /// What is odd about them, and about the rest.
    pub(crate) warnings: Vec<String>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.path.display(), self.line)
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// An unreadable file, an unknown key, a value out of range: each names file, key and line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::of_text(path, &text)
    }

    /// Checks the text of the file at `path`.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn of_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::parse(path, text).map_err(|error| error.at(path, text))
    }

    /// The same of a text that is made of that file's.
    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| {
            if MosquittoFile::is_like(text) {
                return ConfigError::Mosquitto { path: path.into() };
            }
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at].matches('\n').count() + 1;
            let message = error.message().replace('\n', " ");
            ConfigError::Parse { place: Place { path: path.into(), line }, message }
        })?;
        let names_addresses =
            || toml::from_str(text).is_ok_and(|it: toml::Table| it.contains_key("listen"));
        if !config.listener.is_empty() && !names_addresses() {
            config.listen.clear();
        }
        config.check_values()?;
        Ok(config)
    }

    /// What a shard is told.
    pub fn settings(&self) -> Settings {
        let is_counted = self.process.flapping_connects_per_minute_max > 0;
        let may_ban = is_counted || !self.control.is_off();
        let authentication = may_ban || self.auth.is_on(self.allows_anonymous());
        let features = Features { authentication, ..self.features.clone() };
        Settings { limits: self.limits.clone(), features, share: self.share.clone() }
    }

    /// Checks what the types cannot, with the files that it names. Returns what is odd about a
    /// configuration that can be used, a line each.
    ///
    /// # Errors
    /// The first value out of its range, or a file that cannot be used.
    pub fn check(&self) -> Result<Vec<String>, ConfigError> {
        self.bans()?;
        self.cluster.check(self.shard_count())?;
        self.open().map(|opened| opened.warnings)
    }

    /// Checks it, and returns what its files say.
    pub(crate) fn open(&self) -> Result<Opened, ConfigError> {
        self.check_values()?;
        let mut warnings: Vec<String> = self.auth.warnings().chain(self.flow.warnings()).collect();
        warnings.extend(self.bridge.iter().flat_map(BridgeConfig::warnings));
        warnings.extend(self.unproven_readers());
        let (doors, mut access) = (self.doors(&mut warnings)?, self.auth.read_files()?);
        access.policy = self.sys.limit(access.policy);
        let is_said = self.auth.allow_anonymous.is_some() || self.auth.names_users();
        match self.places_for_all()?.first() {
            Some(place) if !is_said => Err(value_error("listen", place, UNASKED)),
            _ => {
                let bridges = bridges::tasks(&self.bridge, &self.kafka)
                    .map_err(|(key, value, rule)| value_error(key, value, rule))?;
                Ok(Opened { access, doors, bridges, warnings })
            }
        }
    }

    /// It, as a file has it, for people: what is secret in it is `***`.
    pub fn shown(&self) -> String {
        sections::shown(self)
    }

    /// Bans that were added while a broker ran.
    pub(crate) fn bans(&self) -> Result<BanBook, ConfigError> {
        Ok(BanBook::read(self.added_bans_file())?)
    }

    /// Where bans are kept that are added while the broker runs, if there is a place for that.
    fn added_bans_file(&self) -> Option<PathBuf> {
        let of_store = self.store.folder().map(|folder| folder.join(ADDED_BANS_FILE));
        of_store.or_else(|| {
            let mut beside = self.auth.bans_file.clone()?.into_os_string();
            beside.push(ADDED_BANS_ENDING);
            Some(beside.into())
        })
    }

    /// Whether clients come in that say no user name.
    pub fn allows_anonymous(&self) -> bool {
        self.auth.allow_anonymous.unwrap_or_else(|| {
            let for_all = self.places_for_all();
            !self.auth.names_users() && for_all.is_ok_and(|places| places.is_empty())
        })
    }

    /// What can be said of the file alone: options may set other addresses.
    fn check_values(&self) -> Result<(), ConfigError> {
        for range in RANGES {
            if let Some(value) = range.violation(self) {
                return Err(value_error(range.key, value, format!("it must be {range}")));
            }
        }
        if let Some((key, value, rule)) = self.control.fault() {
            return Err(value_error(key, value, rule));
        }
        if let Some(key) = self.hidden_secret() {
            let rule = "it was printed for people, without the secret: set that here";
            return Err(value_error(key, sections::HIDDEN, rule));
        }
        if let Some((key, value, rule)) = BridgeConfig::fault_of(&self.bridge)
            .or_else(|| KafkaConfig::fault_of(&self.kafka, &self.bridge))
        {
            return Err(value_error(key, value, rule));
        }
        if let Some((key, value, rule)) = self.log.fault() {
            return Err(value_error(key, value, rule));
        }
        let bytes_min = self.store.disk_bytes_min(self.shard_count());
        if (1..bytes_min).contains(&self.store.disk_bytes_max) {
            let value = self.store.disk_bytes_max;
            let why = "16 files of store.segment_bytes for each shard, and 8 for pages";
            let rule = format!("it must be 0, or at least {bytes_min}: {why}");
            return Err(value_error("store.disk_bytes_max", value, rule));
        }
        if self.cluster.is_copied() && self.store.folder().is_none() {
            let rule = "more than 1 needs a store: set store.path";
            return Err(value_error("cluster.replicas", self.cluster.replicas, rule));
        }
        self.auth.check().map_err(|(user, rule)| ConfigError::User { user, rule })?;
        self.flow.compile().map_err(ConfigError::Flow)?;
        self.places().map(drop)
    }

    /// A line where readers of `$SYS` are whoever says so.
    fn unproven_readers(&self) -> Option<String> {
        let is_unproven =
            !self.sys.readers.is_empty() && !self.auth.checks_names() && self.allows_anonymous();
        let text = "sys.readers without auth.password_file: whoever says a user name is that user";
        is_unproven.then(|| text.to_owned())
    }

    /// A secret that is what is printed in its place. Verifiers and hashes of tokens have a form
    /// that this has not.
    fn hidden_secret(&self) -> Option<&'static str> {
        let is_hidden = |password: &Option<String>| password.as_deref() == Some(sections::HIDDEN);
        if self.bridge.iter().any(|bridge| is_hidden(&bridge.password)) {
            return Some("bridge.password");
        }
        if self.kafka.iter().any(|sink| is_hidden(&sink.password)) {
            return Some("kafka.password");
        }
        let mut headers = self.auth.http.iter().flat_map(|http| http.headers.values());
        headers.any(|it| it == sections::HIDDEN).then_some("auth.http.headers")
    }

    /// How many shards there are.
    pub fn shard_count(&self) -> u16 {
        match self.shards {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                cores.min(usize::from(range::SHARDS_MAX)) as u16
            }
            shards => shards,
        }
    }

    /// Where to listen: the addresses of `listen`, then what the `[[listener]]` tables say.
    ///
    /// # Errors
    /// One that is not `HOST:PORT`, or a host without an address; a table without a place.
    pub(crate) fn places(&self) -> Result<Vec<ListenPlace>, ConfigError> {
        let has_clients = self.cluster.stand_in.is_none();
        if has_clients && self.listen.is_empty() && self.listener.is_empty() {
            return Err(value_error("listen", "[]", "name at least one HOST:PORT"));
        }
        let resolve = |(key, text): (&'static str, &String)| {
            let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
            found.ok_or_else(|| {
                value_error(key, text, "it must be HOST:PORT, such as 127.0.0.1:1883")
            })
        };
        let plain = |text| Ok(ListenPlace::Address(resolve(("listen", text))?, None));
        let of_table = |table: &ListenerConfig| {
            if let Some((key, value, rule)) = table.fault() {
                return Err(value_error(key, value, rule));
            }
            let by_address = table.address.as_ref().map(|text| {
                let address = resolve(("listener.address", text))?;
                Ok(ListenPlace::Address(address, table.bind_device.clone()))
            });
            let rule = "each [[listener]] has one of address, unix and systemd";
            let other = || ListenPlace::of(table).ok_or(value_error("listener", "a table", rule));
            by_address.unwrap_or_else(other)
        };
        self.listen.iter().map(plain).chain(self.listener.iter().map(of_table)).collect()
    }

    /// Those of its places that other hosts reach, by a proxy if not by themselves, and where
    /// nobody has to show a certificate.
    fn places_for_all(&self) -> Result<Vec<ListenPlace>, ConfigError> {
        let plain = self.listen.iter().map(|_| (false, false));
        let tables = self.listener.iter();
        let tables = tables.map(|table| (table.has_proxies(), table.asks_for_certificates()));
        let is_for_all = |(place, (has_proxies, asks)): &(ListenPlace, (bool, bool))| {
            !asks && (*has_proxies || !place.is_of_this_host())
        };
        let places = self.places()?.into_iter().zip(plain.chain(tables)).filter(is_for_all);
        Ok(places.map(|(place, _)| place).collect())
    }

    /// What is spoken at each of [`Config::places`], with what is in its files now.
    fn doors(&self, warnings: &mut Vec<String>) -> Result<Doors, ConfigError> {
        let mut doors = vec![None; self.listen.len()];
        for listener in &self.listener {
            let open = Door::open(listener, warnings);
            let door =
                open.map_err(|fault| ConfigError::Tls { address: listener.name(), fault })?;
            doors.push(door.map(Arc::new));
        }
        Ok(doors.into())
    }
}

const UNASKED: &str = "other hosts reach it, and nothing says who may come in; name an \
    auth.password_file, demand certificates of clients (listener.tls.require_certificate), or set \
    allow_anonymous = true in [auth] (--allow-anonymous) to let everybody in";

fn value_error(
    key: &'static str,
    value: impl fmt::Display,
    rule: impl Into<String>,
) -> ConfigError {
    ConfigError::Value { key, value: value.to_string(), rule: rule.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_core::{QUOTAS, ShareRule, ShareStrategy};

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn every_bound_is_in_the_documentation() {
        let text = include_str!("../../../docs/limits.md");
        let all = toml::Table::try_from(Config::default()).unwrap();
        for (table, key) in ["limits", "process"]
            .iter()
            .flat_map(|&table| all[table].as_table().unwrap().keys().map(move |key| (table, key)))
        {
            assert!(text.contains(&format!("`{key}`")), "docs/limits.md lacks {table}.{key}");
        }
    }

    #[test]
    fn every_bound_is_in_the_table_of_quotas() {
        let all = toml::Table::try_from(Config::default()).unwrap();
        let tables = ["limits", "process"].into_iter();
        let settings: BTreeSet<String> = tables
            .flat_map(|table| {
                let keys = all[table].as_table().unwrap().keys();
                keys.map(move |key| format!("{table}.{key}"))
            })
            .collect();
        let named = QUOTAS.iter().map(|quota| quota.bound).filter(|bound| !bound.contains(' '));
        let named: BTreeSet<String> = named.map(String::from).collect();
        assert_eq!(named, settings);
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(read("").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = read("listen = [\"127.0.0.1:1\"]\n[limits]\nqueue_max = 3\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(":3: ") && text.contains("queue_max"), "{text}");
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_rule() {
        let text = read("[limits]\nin_flight_max = 0\n").unwrap_err().to_string();
        assert!(text.contains("limits.in_flight_max = 0") && text.contains("at least 1"), "{text}");
    }

    #[test]
    fn every_range_is_of_a_key_whose_default_lies_in_it() {
        let mut config = Config::default();
        // Without it, there is nothing of a cluster.
        config.cluster.etcd.push("http://a:1".into());
        let all = toml::Value::try_from(config).unwrap();
        for range in RANGES {
            let value = range.key.split('.').try_fold(&all, |at, name| at.get(name));
            assert!(value.is_some_and(toml::Value::is_integer), "{} is no number", range.key);
            assert_eq!(range.violation(&Config::default()), None, "{}", range.key);
        }
    }

    #[test]
    fn the_ends_of_a_range_are_taken_and_what_lies_beyond_is_not() {
        for range in RANGES {
            let text = |value: u64| match range.key.split_once('.') {
                Some((table, key)) => format!("[{table}]\n{key} = {value}\n"),
                None => format!("{} = {value}\n", range.key),
            };
            for (value, is_taken) in [
                (Some(range.least), true),
                (range.most, true),
                (Some(0), range.or_zero || range.least == 0),
                (range.most.map(|most| most + 1), false),
                (range.least.checked_sub(1).filter(|below| *below > 0), false),
            ] {
                let Some(value) = value else { continue };
                let result = read(&text(value));
                assert_eq!(result.is_ok(), is_taken, "{} = {value}: {result:?}", range.key);
                if let Err(error) = result {
                    assert!(error.to_string().contains(range.key), "{error}");
                }
            }
        }
    }

    /// Its proxies bring clients from anywhere.
    #[test]
    fn a_listener_with_proxies_is_not_for_this_host_alone() {
        let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
        for (more, is_open) in [
            ("", true),
            ("websocket = true\nforwarded_from = [\"127.0.0.1/32\"]\n", false),
            ("[listener.proxy]\nfrom = [\"127.0.0.1/32\"]\n", false),
        ] {
            let config = read(&format!("{listener}{more}")).unwrap();
            assert_eq!((config.check().is_ok(), config.allows_anonymous()), (is_open, is_open));
            let config = read(&format!("auth.allow_anonymous = true\n{listener}{more}")).unwrap();
            assert!(config.check().is_ok() && config.allows_anonymous());
        }
    }

    #[test]
    fn what_holds_connections_is_named() {
        for (text, io) in [
            ("", IoBackend::Auto),
            ("io = \"auto\"", IoBackend::Auto),
            ("io = \"epoll\"", IoBackend::Epoll),
            ("io = \"io_uring\"", IoBackend::IoUring),
        ] {
            assert_eq!(read(text).unwrap().io, io);
        }
        let text = read("io = \"iouring\"").unwrap_err().to_string();
        assert!(text.contains(":1: ") && text.contains("io_uring"), "{text}");
    }

    #[test]
    fn a_control_socket_is_read_back_and_a_path_that_no_socket_can_have_is_refused() {
        let config = read("[control]\nsocket = \"/run/weir/ctl\"\n").unwrap();
        assert_eq!(config.control.socket.as_deref(), Some(Path::new("/run/weir/ctl")));
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
        for path in [String::new(), "x".repeat(108)] {
            let text = read(&format!("[control]\nsocket = {path:?}\n")).unwrap_err().to_string();
            assert!(text.contains("control.socket = ") && text.contains("107"), "{text}");
        }
    }

    #[test]
    fn an_address_without_a_port_is_refused() {
        let text = read("listen = [\"localhost\"]\n").unwrap_err().to_string();
        assert!(text.contains("HOST:PORT"), "{text}");
    }

    #[test]
    fn listeners_are_read_back_and_what_does_not_go_together_is_named() {
        let text = r#"
            [[listener]]
            unix = "/run/weir/mqtt"
            mode = "600"
            identity = "peer"
            [[listener]]
            systemd = "mqtt"
            websocket = true
            origins = ["https://app.example:8443"]
            forwarded_from = ["10.0.0.0/8"]
            [listener.proxy]
            from = ["2001:db8::/32", "192.0.2.1/32"]
        "#;
        let config = read(text).unwrap();
        let places = config.places().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(places, ["/run/weir/mqtt", "systemd's socket mqtt"]);
        assert!(!config.allows_anonymous());
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
        for (faulty, key) in [
            ("", "listener"),
            ("address = \"127.0.0.1:1\"\nunix = \"/x\"", "listener"),
            ("unix = \"\"", "listener.unix"),
            ("unix = \"/x\"\nmode = \"0o7\"", "listener.mode"),
            ("unix = \"/x\"\nmode = \"1777\"", "listener.mode"),
            ("unix = \"/x\"\nbind_device = \"lo\"", "listener.bind_device"),
            ("unix = \"/x\"\n[listener.proxy]\nfrom = [\"::1/128\"]", "listener.proxy"),
            ("systemd = \"a\"\nidentity = \"peer\"", "listener.identity"),
            ("systemd = \"a\"\n[listener.proxy]\nfrom = []", "listener.proxy.from"),
            ("systemd = \"a\"\norigins = [\"https://a\"]", "listener.origins"),
            ("systemd = \"a\"\nforwarded_from = [\"::1/128\"]", "listener.forwarded_from"),
            ("systemd = \"a\"\nwebsocket = true\norigins = [\"a.example\"]", "listener.origins"),
            ("systemd = \"a\"\nwebsocket = true\norigins = [\"https://a/\"]", "listener.origins"),
        ] {
            let error = read(&format!("[[listener]]\n{faulty}\n")).unwrap_err().to_string();
            assert!(error.contains(&format!(": {key} = ")), "{error}");
        }
        let error =
            read("[[listener]]\nsystemd = \"a\"\n[listener.proxy]\nfrom = [\"10.0.0.1\"]\n");
        let error = error.unwrap_err().to_string();
        assert!(error.contains(":4: "), "{error}");
    }

    #[test]
    fn share_rules_are_read_in_order_with_their_strategies() {
        let text = r#"
            [[share]]
            prefix = "sensor"
            strategy = { sticky-level = 2 }
            [[share]]
            prefix = ""
            strategy = "sticky-client"
        "#;
        let rule = |prefix: &str, strategy| ShareRule { prefix: prefix.into(), strategy };
        let level = ShareStrategy::StickyLevel(2.try_into().unwrap());
        let rules = vec![rule("sensor", level), rule("", ShareStrategy::StickyClient)];
        let config = read(text).unwrap();
        assert_eq!(config.share.rules, rules);
        assert_eq!(config.settings().share.rules, rules);
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn a_wrong_share_strategy_is_named_with_its_line() {
        for (strategy, named) in [("\"fair\"", "fair"), ("{ sticky-level = 0 }", "nonzero")] {
            let text = format!("[[share]]\nprefix = \"\"\nstrategy = {strategy}\n");
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(":3: ") && error.contains(named), "{error}");
        }
    }

    const CELLS: &str = r##"
        [[flow]]
        name = "cells"
        from = "ud/#"
        qos = 1
        when = 'has(payload.p.mcc) && has(payload.p.mnc)'
        to = "cells/{payload.p.mcc}/{topic[1]}"
        payload = 'payload.p'
        publish_qos = 1
        retain = false
        sample = 0.5
        throttle_per_s = 100
        [[flow]]
        name = "count"
        from = "#"
        action = "count"
    "##;

    #[test]
    fn flow_rules_are_read_in_order_and_written_out_read_back() {
        let config = read(CELLS).unwrap();
        let names: Vec<&str> = config.flow.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["cells", "count"]);
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn a_wrong_flow_rule_is_named_with_its_place() {
        for (old, new, named) in [
            ("has(payload.p.mcc) &&", "has(payload.p.mcc) &", "rule \"cells\": when: at byte "),
            ("to = \"cells/{payload.p.mcc}", "to = \"ud/{payload.p.mcc}", "loop: \"cells\" -> "),
            ("retain = false", "retained = false", ":10: "),
            ("action = \"count\"", "action = \"cuont\"", "rule \"count\": action: "),
            ("\"ud/#\"", "\"$filter/true/ud/#\"", "rule \"cells\": from: "),
        ] {
            let error = read(&CELLS.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_default_written_out_reads_back() {
        let text = toml::to_string(&Config::default()).unwrap();
        assert_eq!(read(&text).unwrap(), Config::default());
    }
}
